"""What is trained, on which images and in which batches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orthoframe._rows import Integers, unit_rows
from orthoframe.batches import BatchPlan, RunCertificate, certify_run
from orthoframe.data import (
    Augment,
    Data,
    LabelledImages,
    Normaliser,
    Preparation,
    Progress,
    imbalanced_indices,
    near_duplicates,
)
from orthoframe.encoders import (
    ENCODERS,
    Backbone,
    FrameEncoder,
    FrameHead,
    load_backbone,
    make_frame_encoder,
    suggested_backbone,
)
from orthoframe.errors import DataError, Option, OptionError, OrthoframeError, Part, TrainingError, brief
from orthoframe.geometry import LinearClassifier
from orthoframe.runs import Architecture, Checkpoint, DataFingerprint, TrainedEncoder, encoder_in, load_encoder
from orthoframe.training._criteria import Criterion, NetworkOutputs, Problem
from orthoframe.training._fields import AUTO
from orthoframe.training._fitting import fitted_to_time, largest_side
from orthoframe.training._images import ImageFiles
from orthoframe.training._recipes import resolve
from orthoframe.training._settings import Settings

_MEASURED = 10_000  # image files that are measured during training, about
_MOST_MEANS = 2**25  # numbers of the class means that a measurement multiplies with each other
_ROWS = 16  # images whose maps fit into the caches of a core
_SMALL_STEP = 2**27  # products of rows and weights
_DUPLICATES = 0.01  # part of the images held out whose near-duplicates make their accuracy too high
_SCALE = 0.1  # of the weights of new dimensions, so that they hardly change the features of known classes at first


class Network(nn.Module):
    """An encoder, and a linear classifier on its backbone where one learns: images to outputs.

    What the encoder was started from is kept with the weights: the directions of known classes, or zeros.
    """

    def __init__(self, encoder: FrameEncoder, classifier: nn.Linear | None, directions: Tensor) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier
        self.register_buffer("directions", directions)

    def forward(self, images: Tensor) -> NetworkOutputs:
        """Unit features, and the scores of the classifier."""
        if self.classifier is None:
            return NetworkOutputs(self.encoder(images), None)
        features = self.encoder.backbone(images)
        return NetworkOutputs(self.encoder.head(features), self.classifier(features))


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained, on what, in which batches."""

    settings: Settings  # all of them decided
    data: DataFingerprint  # of all images, before some were chosen
    images: int  # for training, before some were chosen
    left_out: tuple[str, ...]  # files in the folder of the data that are not taken
    files: tuple[Path, ...]  # of all images by their places, if each has one
    train: LabelledImages
    validation: LabelledImages | None
    test: LabelledImages
    preparation: Preparation  # of image files
    normaliser: Normaliser
    augment: Augment
    plan: BatchPlan
    own_plan: bool  # from Python, and not made of the settings
    encoder: FrameEncoder
    classifier: nn.Linear | None = None  # of the losses that have one, or beside the loss
    prototypes: Tensor | None = None  # [k, dim], the frame that rows are compared with
    directions: Tensor | None = None  # [k, dim], of the classes that the encoder knew before
    pretrained: str | None = None  # the name of a network that may do better
    lost_classifier: bool = False  # that the encoder to start from had

    @property
    def class_counts(self) -> list[int]:
        """Training images of each class."""
        return self.train.class_counts

    @property
    def encoder_name(self) -> str:
        """The model, or the backbone that takes its place."""
        return self.settings.encoder.model or str(getattr(self.encoder.backbone, "name", "encoder"))

    @property
    def is_small(self) -> bool:
        """Whether a step is too short to be shared by threads; a network that moves over an image takes longer."""
        model = self.settings.encoder.model
        weights = sum(weight.numel() for weight in self.encoder.parameters())
        rows = len(self.plan.batches(0)[0]) * self.settings.batches.views
        return model is not None and not ENCODERS[model].has_maps and rows * weights <= _SMALL_STEP

    def network(self) -> Network:
        """Everything that is trained."""
        return Network(self.encoder, self.classifier, self.trained_encoder().centres)

    def trained_encoder(self) -> TrainedEncoder:
        """The encoder as it was started: its centres are the directions of known classes, or zeros."""
        backbone = getattr(self.encoder.backbone, "config", None)
        unknown = torch.zeros(len(self.train.classes), self.encoder.out_features)
        return TrainedEncoder(
            encoder=self.encoder,
            centres=unknown if self.directions is None else self.directions,
            classes=self.train.classes,
            preparation=self.preparation,
            normaliser=self.normaliser,
            architecture=Architecture(**self.settings.encoder.shape(), backbone=backbone),
        )

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The weights that are trained, as an optimiser takes and numbers them, with their share of the learning rate.

        A checkpoint numbers their momentum in this order, in which those of a backbone come last.
        """
        schedule, backbone, weights = self.settings.schedule, list(self.encoder.backbone.parameters()), self.network()
        if schedule.backbone_lr == schedule.lr:
            return [{"params": list(weights.parameters()), "share": 1.0}]
        of_backbone = {id(weight) for weight in backbone}
        others = [weight for weight in weights.parameters() if id(weight) not in of_backbone]
        groups = [{"params": others, "share": 1.0}]
        if schedule.backbone_lr:
            groups.append({"params": backbone, "share": schedule.backbone_lr / schedule.lr})
        return groups

    def scaled(self, pixels: Tensor) -> Tensor:
        """Pixels as the encoder takes them; features of a frozen backbone pass as they are."""
        return pixels if pixels.ndim == 2 else self.normaliser(pixels)

    @torch.no_grad()
    def with_features(self, device: torch.device, progress: Progress | None = None) -> "Task":
        """The task with the features of a frozen backbone in place of its images, if these are not augmented.

        So they are computed once, and not in every step and every measurement.
        """
        if self.settings.schedule.backbone_lr != 0 or self.settings.images.augment:
            return self
        backbone, rows = self.encoder.backbone.to(device), _ROWS if device.type == "cpu" else 16 * _ROWS
        done, total = 0, sum(len(part) for part in (self.train, self.validation, self.test) if part is not None)

        def embedded(images: LabelledImages) -> LabelledImages:
            nonlocal done
            features = torch.empty(len(images), backbone.out_features)
            batches = np.array_split(np.arange(len(images)), 1 + len(images) // rows)
            for batch, pixels in zip(batches, images.batches(batches, device), strict=True):
                features[batch] = backbone(self.normaliser(pixels)).float().cpu()
                done += len(batch)
                if progress is not None:
                    progress("computing features", done, total)
            return replace(images, pixels=features)

        validation = None if self.validation is None else embedded(self.validation)
        return replace(self, train=embedded(self.train), validation=validation, test=embedded(self.test))

    def criterion(self, device: torch.device, processes: int) -> Criterion:
        """The loss, on a device that outputs are on, for as many processes as share each batch."""
        problem = Problem(
            num_classes=len(self.train.classes),
            dim=self.encoder.out_features,
            shares=self.shares(),
            prototypes=self.prototypes,
            epochs=self.settings.schedule.epochs,
            device=device,
            processes=processes,
        )
        return self.settings.objective.criterion(problem)

    def shares(self) -> NDArray[np.float64]:
        """The part of all rows that each class has in the batches, `[k]`.

        A class without images, which an encoder to start from may know, has as much as the smallest, so that rows of
        others are still told apart from it.
        """
        planned = self.plan.shares()
        shares: NDArray[np.float64] = np.full(len(self.train.classes), planned.min())
        shares[np.asarray(self.plan.labels.names)] = planned
        shares /= shares.sum()
        return shares

    def notes(self) -> list[tuple[Part, ...]]:
        """What the user may not expect: images that are left out, classes that are not looked at."""
        notes: list[tuple[Part, ...]] = []
        images = self.settings.images
        if len(self.train) < self.images and images.is_own:
            notes.append((f"kept {len(self.train):,} of {self.images:,} training images",))
        if self.left_out:
            number = len(self.left_out)
            files = f"{number:,} file{'s' if number > 1 else ''}"
            notes.append((f"ignored {files} not in a class folder, or not an image, such as {self.left_out[0]}",))
        if self.pretrained is not None:
            why = " is usually more accurate for photographs of things: it starts from a network trained on ImageNet"
            notes.append((Option("backbone", self.pretrained), why))
        if self.lost_classifier:
            why = " trains no linear classifier, which would forget classes without images; one is trained with "
            notes.append((Option("init"), why, Option("classifier", 1)))
        notes += self._duplicates()
        for part, labelled in (("validation", self.validation), ("test", self.test)):
            counts = [] if labelled is None else labelled.class_counts
            absent = [name for name, count in zip(self.train.classes, counts, strict=False) if not count]
            if absent:
                seen = f"{len(counts) - len(absent)} of {len(counts)}"
                named = brief(", ".join(absent), 80)
                notes.append((f"no {part} images of {named}: balanced {part} accuracy is over {seen} classes",))
        if self.settings.objective.classifier_leaves and self.validation is None:
            blind = "without validation images the verdict cannot say what settling onto the frame costs; "
            notes.append((blind, Option("validation", 0.1), " holds some out"))
        fewest = min(filter(None, self.test.class_counts), default=0)
        if images.test_images is not None and fewest < images.test_images:
            name = brief(self.test.classes[self.test.class_counts.index(fewest)], 60)
            notes.append(
                (f"class {name} has {fewest} test images, fewer than ", Option("test_images", images.test_images))
            )
        largest, smallest = max(self.class_counts), min(self.class_counts)
        if images.imbalance != "none" and largest < images.ratio * smallest:
            sizes = f"the classes have {smallest} to {largest} images, a ratio of {largest / smallest:g}"
            notes.append((Option("ratio", images.ratio), f" is not reached: {sizes}"))
        return notes

    def _duplicates(self) -> list[tuple[Part, ...]]:
        """A note for each part of the user's own images that looks like training images; those in memory are seen."""
        both = {"validation": self.validation, "test": self.test}
        parts = {name: part for name, part in both.items() if part is not None and part.held}
        if not (self.settings.images.is_own and self.train.held):
            return []
        notes = []
        for (name, part), pairs in zip(parts.items(), near_duplicates(self.train, *parts.values()), strict=True):
            if len(pairs) <= max(1, _DUPLICATES * len(part)):  # one may be a coincidence
                continue
            places = part.origins(pairs[:1, 0]) + self.train.origins(pairs[:1, 1])
            held, trained = (str(self.files[place]) if self.files else f"image {place}" for place in places)
            number = f"{len(pairs):,} of {len(part):,} {name} images have near-duplicates among the training images"
            advice = (", for example with ", Option("group_by", "REGEX")) if self.files else ()
            said = f"{number}, such as {brief(held)} of {brief(trained)}, so {name} accuracy is too high; "
            notes.append((f"{said}keep them on one side of the split", *advice))
        return notes

    def batches(self, epoch: int) -> Sequence[Integers]:
        """The batches of an epoch: a pass over the images, or the next ones of several, as many as it has steps.

        Where time has not decided the steps yet, as many as in the last epoch.
        """
        steps = self.settings.schedule.steps
        if not steps:
            return self.plan.batches(epoch)
        start, number, in_a_pass = sum(steps[:epoch]), (*steps, steps[-1])[epoch], len(self.plan.batches(0))
        places = [divmod(step, in_a_pass) for step in range(start, start + number)]
        passes = {each: self.plan.batches(each) for each in dict(places)}
        return [passes[each][place] for each, place in places]

    def certificate(self) -> RunCertificate:
        """What the batches of the run guarantee; about the fewest views, because more are at least as good."""
        names = [self.train.classes[c] for c in self.plan.labels.names]
        options = self.settings.objective.certificate_options()
        passes, steps = self.settings.schedule.epochs, self.settings.schedule.steps
        if steps:  # those of the first epoch are always decided, and the others have about as many
            passes = max(1, passes * steps[0] // len(self.plan.batches(0)))
        return certify_run(self.plan, passes, names=names, **options)

    def measured_subset(self) -> LabelledImages:
        """The training images that are measured during training: of many files as many as the others of each class."""
        if not self.settings.images.is_own or len(self.train) <= _MEASURED:
            return self.train
        counts = [min(count, _MEASURED // len(self.train.classes) + 1) for count in self.class_counts]
        return self.train.subset(imbalanced_indices(self.train.labels, counts, seed=self.settings.machine.seed))


def make_task(
    asked: Settings,
    processes: int = 1,
    progress: Progress | None = None,
    data: Data | None = None,
    *,
    plan: BatchPlan | None = None,
    code: bool = False,
    resumed: bool = False,
    checkpoint: Checkpoint | None = None,
) -> Task:
    """Load the data, decide what was left open, choose images, plan the batches and make the encoder.

    Arguments are those of `train`. With `resumed`, the settings come from a file and not from the caller, so that a
    Python function that they name as their backbone is called only with `code`. A `checkpoint` of the run has what
    the encoder to start from, or the backbone, brought with it, so that they are not read again.

    Raises:
        OrthoframeError: For data that cannot be loaded, and settings that are not allowed or do not fit it.
    """
    asked.check()
    seed = 0 if asked.machine.seed is AUTO else asked.machine.seed
    try:
        trained, kept, backbone = None, None, None
        init, name = asked.encoder.init, asked.encoder.backbone
        if checkpoint is not None and not {init, name} <= {AUTO, None}:
            trained = kept = encoder_in(checkpoint, code=code)
        elif init not in (AUTO, None):
            trained = load_encoder(Path(init), code=code)
        elif name not in (AUTO, None):
            backbone = _backbone(name, seed, code or not resumed)
        images, network = asked.images, backbone if trained is None else trained
        if trained is not None:  # files get their size as those of the encoder did
            images = images.filled({"fit": trained.preparation.fit})
        shape = None if network is None else network.image_shape
        # Several processes would have to agree.
        by_time = processes == 1 and plan is None and asked.usual_options()["minutes"] is not None
        side = largest_side(asked) if by_time and data is None else None
        data = data or images.load(progress, image_shape=shape, largest=side, seed=seed)
        if data.own_validation and asked.images.validation is not AUTO and not resumed:
            raise OptionError(Option("validation"), " has no effect: the data has validation images; leave it out")
        data = data if trained is None else _known_classes_first(trained, data)
        suggests = asked.encoder.is_open and asked.goal != "frame" and isinstance(asked.images, ImageFiles)
        pretrained = suggested_backbone(data.train.image_shape) if suggests else None
        if by_time:
            asked = fitted_to_time(asked, data.train.image_shape)
        settings = resolve(
            asked,
            data,
            init=trained if kept is None else None,
            plan=plan,
            backbone=backbone if kept is None else kept.encoder.backbone,
        )
        train, test = _chosen(settings, data)
        if kept is None:
            encoder, normaliser, directions = _encoder(settings, train, trained, backbone)
        else:
            encoder, normaliser = kept.encoder, kept.normaliser
            directions = None if init in (AUTO, None) else kept.centres
        encoder.train()
        _check_size(len(train.classes), encoder.out_features)
        if settings.schedule.backbone_lr == 0:
            encoder.freeze_backbone()
        batches = _plan(settings, train) if plan is None else _checked_plan(plan, settings, train)
        _check_batch_norm(batches, encoder, processes)
    except OrthoframeError:
        raise
    except (ValueError, OSError) as error:
        raise TrainingError(f"{asked.images.data}: {error}") from error
    objective, num_classes = settings.objective, len(train.classes)
    prototypes = objective.prototypes_of(num_classes, encoder.out_features)
    init_classifier = None if trained is None or kept is not None else trained.classifier
    return Task(
        settings=settings,
        data=DataFingerprint.of(data),
        images=len(data.train),
        left_out=data.left_out,
        files=data.files,
        train=train,
        validation=data.validation,
        test=test,
        preparation=data.preparation,
        normaliser=normaliser,
        augment=settings.images.augmentation(train.image_shape[1]),
        plan=batches,
        own_plan=plan is not None,
        encoder=encoder,
        classifier=_classifier(settings, encoder, num_classes, init_classifier) if objective.has_classifier else None,
        prototypes=prototypes if prototypes is None or directions is None else directions,
        directions=directions,
        pretrained=pretrained,
        lost_classifier=init_classifier is not None and not objective.has_classifier,
    )


def _check_size(num_classes: int, features: int) -> None:
    """Refuse so many classes and features that a measurement, which compares all pairs of classes, takes minutes."""
    if num_classes * features <= _MOST_MEANS:
        return
    most = _MOST_MEANS // num_classes
    advice: tuple[Part, ...] = (Option("features", most), " or fewer")
    if most < num_classes:  # and a frame needs a dimension per class
        advice = (f"train on at most {math.isqrt(_MOST_MEANS)} classes",)
    what = f"{num_classes} classes with {features} features are too many to measure all their pairs; "
    raise TrainingError(what, *advice)


def _chosen(settings: Settings, data: Data) -> tuple[LabelledImages, LabelledImages]:
    """The training and the test images that are kept."""
    seed, train, test = settings.machine.seed, data.train, data.test
    sizes = settings.images.class_sizes(data)
    if sizes != train.class_counts:  # otherwise a subset would only be a copy
        train = train.subset(imbalanced_indices(train.labels.numpy(), sizes, seed=seed))
    if settings.images.test_images is not None:
        most = [min(count, settings.images.test_images) for count in test.class_counts]
        test = test.subset(imbalanced_indices(test.labels, most, seed=seed))
    return train, test


def _encoder(
    settings: Settings, train: LabelledImages, trained: TrainedEncoder | None, backbone: Backbone | None
) -> tuple[FrameEncoder, Normaliser, Tensor | None]:
    """The encoder, the scale of its pixels, and directions of the classes `[k, dim]` where it knows some."""
    num_classes, seed = len(train.classes), settings.machine.seed
    if trained is not None:
        encoder, directions = _extended_encoder(trained, num_classes, seed)
        return encoder, trained.normaliser, directions
    encoder = make_frame_encoder(
        **settings.encoder.shape(),
        image_shape=train.image_shape,
        backbone=backbone,
        num_classes=num_classes if settings.objective.has_head else None,
        seed=seed,
    )
    if backbone is not None:
        return encoder, Normaliser(backbone.mean, backbone.std), None
    return encoder, settings.images.normaliser(train), None


def _known_classes_first(trained: TrainedEncoder, data: Data) -> Data:
    """The images with the classes that an encoder knows first, and then the new ones."""
    expected, actual = list(trained.image_shape), list(data.train.image_shape)
    if expected != actual:
        raise DataError(f"{data.name}: images have [channels, height, width] = {actual}, the encoder takes {expected}")
    classes = (*trained.classes, *(name for name in data.train.classes if name not in trained.classes))
    numbers = torch.tensor([classes.index(name) for name in data.train.classes])

    def renamed(images: LabelledImages) -> LabelledImages:
        return replace(images, labels=numbers[images.labels], classes=classes)

    validation = None if data.validation is None else renamed(data.validation)
    fit = trained.preparation.fit
    return replace(data, train=renamed(data.train), test=renamed(data.test), validation=validation, fit=fit)


def _extended_encoder(trained: TrainedEncoder, num_classes: int, seed: int) -> tuple[FrameEncoder, Tensor]:
    """The encoder for more classes, and a direction for each class `[k, dim]`.

    Known classes keep the directions of their means. Each new class gets dimensions of its own, which are appended
    to the head, as many as a known class has.
    """
    num_old, num_new = len(trained.classes), num_classes - len(trained.classes)
    means = unit_rows(trained.centres.nan_to_num().double())[0]
    if not num_new:
        return trained.encoder, means.float()
    linear = trained.encoder.head.linear
    if linear is None:
        raise OptionError("new classes need new dimensions, which only ", Option("head", "linear"), " can get")
    dim, block = linear.out_features, trained.dimensions_per_class
    added = num_new * block
    wider = FrameHead(linear.in_features, dim + added, trained.architecture.activation, trained.architecture.head_norm)
    weights = wider.state_dict()
    for name, value in trained.encoder.head.state_dict().items():
        if value.ndim:  # new dimensions of biases and of a normalisation start as they are made
            weights[name][:dim] = value
    random = torch.randn(added, linear.in_features, generator=torch.Generator().manual_seed(seed))
    weights["linear.weight"][dim:] = random * (_SCALE * linear.weight.detach().std())
    directions = torch.zeros(num_classes, dim + added, dtype=torch.float64)
    directions[:num_old, :dim] = means
    directions[num_old:, dim:] = torch.eye(num_new).repeat_interleave(block, dim=1) * block**-0.5
    return FrameEncoder(trained.encoder.backbone, wider), directions.float()


def _classifier(
    settings: Settings, encoder: FrameEncoder, num_classes: int, init: LinearClassifier | None
) -> nn.Linear:
    """A linear classifier of the backbone's features, which knows the first classes if it starts from another."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings.machine.seed)
        classifier = nn.Linear(encoder.backbone.out_features, num_classes)
    if init is not None:
        with torch.no_grad():
            classifier.weight[: len(init.weights)] = init.weights
            classifier.bias[: len(init.bias)] = init.bias
    return classifier


def _plan(settings: Settings, train: LabelledImages) -> BatchPlan:
    batches, size = settings.batches, settings.batches.batch_size
    if batches.scheme == "weighted":  # as many batches, but none that is too short for BatchNorm
        size = math.ceil(len(train) / math.ceil(len(train) / size))
    return BatchPlan(
        train.labels.numpy(),
        None if batches.scheme == "full" else size,
        scheme=batches.scheme,
        binding=batches.binding,
        power=batches.power,
        seed=settings.machine.seed,
        views=settings.views_in(settings.schedule.epochs - 1),
        bound_examples=batches.bound_examples,
        bound_classes=batches.bound_classes,
    )


def _checked_plan(plan: BatchPlan, settings: Settings, train: LabelledImages) -> BatchPlan:
    """A plan from Python, if it is one of these images and of as many rows as the run makes of them."""
    classes = torch.tensor(plan.labels.names)[torch.from_numpy(plan.labels.classes)]
    if not torch.equal(classes, train.labels.cpu()):
        raise OptionError(
            f"the plan does not match these {len(train)} training images; make it from their labels, in order"
        )
    fewest = settings.views_in(settings.schedule.epochs - 1)
    if plan.views != fewest:
        raise OptionError(
            f"the plan counts {plan.views} views of each image, and the last epochs have {fewest}, without "
            "augmentation; make it with one view, or set ",
            Option("clean_fraction", 0),
        )
    return plan


def _backbone(name: str, seed: int, code: bool) -> Backbone:
    """A network of others; a Python function is called only if that is allowed."""
    if ":" in name and not (code or name.startswith("hf:")):
        shown = brief(name, 60)
        raise OptionError(f"the backbone {shown} is Python code, and is run only if you allow it: use ", Option("code"))
    return load_backbone(name, seed=seed)


def _check_batch_norm(plan: BatchPlan, encoder: FrameEncoder, processes: int) -> None:
    """Refuse batches that are too small for BatchNorm."""
    if not any(isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d) for part in encoder.modules()):
        return
    rows = min(map(len, plan.batches(0))) * plan.views // processes
    if rows < 2:
        images = f"{rows} image{'' if rows == 1 else 's'}"
        raise OptionError(
            f"the smallest batch has {images} per process, and BatchNorm needs 2; choose another ",
            *(Option("batch_size"), ", or ", Option("binding", "fixed")),
        )
