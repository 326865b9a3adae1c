"""Jobs without a network: features that the loss moves freely, to its optimum or along its gradient flow."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orthoframe.options import Binding, Denominator, Scheme
from orthoframe_studies._jobs import UNBOUND, JobResult, Number, crossing, labels_of, to_predicted

_SAME_LOSS = 1e-4  # relative difference of ends that count as one
_AT_FRAME = 1e-3  # Delta_GM of free features that have ended at a frame


@dataclass(frozen=True)
class FreeFeatures:
    """Features without a network: where the loss of a plan's batches leads them."""

    class_counts: tuple[int, ...]
    dim: int
    seed: int
    temperature: float = 0.1
    denominator: Denominator = "all"
    nonnegative: bool = True
    epochs: int | None = None  # epochs of the plan, whose batches are taken together; None for one batch of everything
    batch_size: int | None = None
    scheme: Scheme = "reshuffle"
    binding: Binding = "none"
    bound_classes: int | None = None
    bound_examples: int = 1

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "free", **asdict(self)}

    def run(self, folder: Path, data_dir: Path | None) -> JobResult:
        from orthoframe.batches import BatchPlan, certify, coverage
        from orthoframe.losses import loss_floor
        from orthoframe.ufm import solve_ufm

        labels = labels_of(self.class_counts)
        batches = None
        if self.epochs is not None:
            plan = BatchPlan(
                labels,
                self.batch_size,
                scheme=self.scheme,
                binding=self.binding,
                seed=self.seed,
                bound_examples=self.bound_examples,
                bound_classes=None if self.bound_classes is None else range(self.bound_classes),
            )
            batches = [batch for epoch in range(self.epochs) for batch in plan.batches(epoch)]
        solution = solve_ufm(
            labels,
            self.dim,
            batches=batches,
            temperature=self.temperature,
            nonnegative=self.nonnegative,
            denominator=self.denominator,
            seed=self.seed,
        )
        geometry = solution.geometry
        certificate = certify(labels, [range(len(labels))] if batches is None else batches)
        gap = solution.gap
        if not self.nonnegative:  # as with networks, from the floor of features that are not negative
            floor = loss_floor(
                class_counts=self.class_counts, temperature=self.temperature, denominator=self.denominator
            )
            gap = solution.loss - float(floor) if batches is None else None
        final: dict[str, Number] = {
            "delta_of": geometry.delta_of,
            "delta_etf": geometry.delta_etf,
            "beta_nc": geometry.beta_nc,
            "loss": solution.loss,
            "gap": gap,
            "certified": float(certificate.holds),
            "live_delta_of": geometry.delta_of,  # unit rows are never zero
            "converged": float(solution.converged),
        }
        if self.nonnegative:  # the certificate says whether the frame is the only end
            final["certificate_correct"] = float(certificate.holds == (geometry.delta_of <= _AT_FRAME))
        if self.epochs is not None and self.batch_size is not None and (self.scheme, self.binding) == UNBOUND:
            final["coverage"] = coverage(self.class_counts, self.batch_size, self.epochs).probability
        if batches is None and not self.nonnegative:
            final["delta_predicted"] = to_predicted(geometry, self.temperature, self.denominator)
        return JobResult(final, {}, geometry.cosines.tolist())


@dataclass(frozen=True)
class GradientFlow:
    """Gradient flow of random free features, until they are near the frame."""

    class_counts: tuple[int, ...]
    dim: int
    seed: int
    temperature: float = 0.1
    denominator: Denominator = "all"
    near: float = 0.01
    longest: float = 1e7

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "flow", **asdict(self)}

    def run(self, folder: Path, data_dir: Path | None) -> JobResult:
        """Follow the flow over growing times, and stop once it is near."""
        from orthoframe.geometry import measure
        from orthoframe.ufm import gradient_flow, random_rows

        labels = labels_of(self.class_counts)
        rows = random_rows(len(labels), self.dim, True, self.seed)
        times, deltas = [0.0], [measure(rows, labels).delta_of]
        while deltas[-1] > self.near and times[-1] < self.longest:
            step = max(0.1, times[-1] * 0.25)
            path = gradient_flow(labels, rows, [step], temperature=self.temperature, denominator=self.denominator)
            rows = path.features[-1]
            times.append(times[-1] + step)
            deltas.append(measure(rows, labels).delta_of)
        reached = crossing(times, deltas, self.near)
        return JobResult({"time_to_of": reached, "delta_of": deltas[-1]}, {"time": times, "delta_of": deltas})


@dataclass(frozen=True)
class FreeClassifier:
    """Free non-negative features and a linear classifier without bias: where cross-entropy leads both.

    The mean cross-entropy, plus half the weight decay times the squared lengths of the classifier's rows and, unless
    features are unit rows, the mean squared length of features, is minimised by L-BFGS from several random starts.
    For a given classifier all rows of a class have the same problem, so one feature per class, weighted by the class's
    share, has the same optimum. The loss is not convex: the lowest end is kept, and how many starts ended higher.
    """

    class_counts: tuple[int, ...]
    dim: int
    seed: int
    unit: bool = False  # whether features have length 1
    weight_decay: float = 1e-3
    starts: int = 10
    # Added to the seed of the random starts: this job was designed after a look at those of the seeds alone.
    first: int = 1000
    steps: int = 20_000

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "classifier", **asdict(self)}

    def run(self, folder: Path, data_dir: Path | None) -> JobResult:
        import numpy as np
        import torch
        from scipy.optimize import minimize

        from orthoframe.geometry import measure

        k, d = len(self.class_counts), self.dim
        labels = torch.arange(k)
        shares = torch.tensor(self.class_counts, dtype=torch.float64) / sum(self.class_counts)

        def parts(flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            rows, weights = flat.view(2, k, d)
            return (torch.nn.functional.normalize(rows, dim=1) if self.unit else rows), weights

        def loss(x: "np.ndarray[Any, Any]") -> "tuple[float, np.ndarray[Any, Any]]":
            flat = torch.from_numpy(x).requires_grad_()
            rows, weights = parts(flat)
            decay = weights.square().sum() + (0.0 if self.unit else (shares @ rows.square()).sum())
            errors = torch.nn.functional.cross_entropy(rows @ weights.T, labels, reduction="none")
            total = shares @ errors + self.weight_decay / 2 * decay
            (gradient,) = torch.autograd.grad(total, flat)
            return float(total.detach()), gradient.numpy()

        bounds = [(0.0, None)] * (k * d) + [(None, None)] * (k * d)
        limits = {"maxiter": self.steps, "maxfun": 2 * self.steps, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 20}
        generator = torch.Generator().manual_seed(self.first + self.seed)
        ends = []
        for _ in range(self.starts):
            start = torch.rand(2 * k * d, generator=generator, dtype=torch.float64).numpy()
            ends.append(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=limits))
        best = min(ends, key=lambda end: end.fun)
        rows, _ = parts(torch.from_numpy(best.x))
        directions = measure(rows, labels)
        final: dict[str, Number] = {
            "delta_of": directions.delta_of,
            "live_delta_of": directions.live_delta_of,
            "raw_delta_of": measure(rows, labels, normalize=False).delta_of,
            "dead_rows": directions.dead_rows,
            "loss": float(best.fun),
            "higher_ends": sum(end.fun > best.fun * (1 + _SAME_LOSS) for end in ends) / self.starts,
            "converged": float(best.success),
        }
        return JobResult(final, {}, directions.cosines.tolist())
