"""The start of a run: from settings to a task, with its data, its encoder and its batches."""

import math
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from orthoframe._rows import unit_rows
from orthoframe.batches import BatchPlan
from orthoframe.data import Data, LabelledImages, Normaliser, Progress, imbalanced_indices
from orthoframe.encoders import Backbone, FrameEncoder, FrameHead, load_backbone, make_frame_encoder, suggested_backbone
from orthoframe.errors import DataError, Option, OptionError, OrthoframeError, Part, TrainingError, brief
from orthoframe.geometry import LinearClassifier
from orthoframe.runs import Checkpoint, DataFingerprint, TrainedEncoder, encoder_in, load_encoder
from orthoframe.training._fields import AUTO
from orthoframe.training._fitting import fitted_to_time, largest_side
from orthoframe.training._images import ImageFiles
from orthoframe.training._recipes import resolve
from orthoframe.training._settings import Settings
from orthoframe.training._task import Task

_MOST_MEANS = 2**25  # numbers of the class means that a measurement multiplies with each other
_SCALE = 0.1  # of the weights of new dimensions, so that they hardly change the features of known classes at first


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
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            raise  # of standard output, on which progress is shown
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
