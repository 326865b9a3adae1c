"""The name of a training in the store: what it depends on, in its own words, whatever the library calls usual."""

from typing import Any

from orthoframe.training import Settings

_OTHER = object()
FIELDS: dict[str, Any] = {
    "data": "digits",
    "imbalance": "step",
    "ratio": 10.0,
    "majority": None,
    "model": "mlp",
    "width": None,
    "head": "linear",
    "features": None,
    "activation": "relu",
    "loss": "supcon",
    "denominator": "all",
    "temperature": 0.1,
    "classifier": 0.0,
    "scheme": "reshuffle",
    "binding": "fixed",
    "bound_classes": None,
    "bound_examples": 1,
    "prototypes": False,
    "batch_size": 128,
    "views": 1,
    "augment": True,
    "clean_fraction": 0.4,
    "epochs": None,
    "lr": 0.1,
    "lr_schedule": "cosine",
    "weight_decay": 5e-4,
    "precision": "32",
    "test_images": None,
    "measure_every": None,
    "seed": 0,
}
"""Settings that are in every key, with the value of a training that does not say otherwise.

A value here never changes, or results would be taken for those of other settings.
"""
YOUNGER: dict[str, Any] = {
    "path_column": "path",
    "label_column": "label",
    "split_column": None,
    "group_column": None,
    "size": None,
    "fit": "pad",
    "validation": 0.0,
    "flip": False,
    "minutes": None,
    "steps": None,
    "backbone": None,
    "init": None,
    "backbone_lr": None,
    "head_norm": "none",
    "supcon": 0.0,
    "margin": 0.0,
    "power": None,
    "adjust": 0.0,
    "probe": False,
}
"""Settings that are younger than the first results: they are in a key only with another value than this."""
ELSEWHERE = ("data_dir", "devices", "compile", "workers", "memory")
"""Settings that change no result: where data is, and what computes."""
_OPEN = ("epochs", "measure_every")  # which the library decides, where a key has null


def decided(settings: Settings) -> Settings:
    """The settings with everything decided that a key has, so that no later default changes what is run."""
    values = {**FIELDS, **YOUNGER, "head": "linear" if settings.objective.has_head else "none"}
    return settings.with_options(
        **{name: values[name] for name in settings.undecided() if name in values and name not in _OPEN}
    )


def training_key(settings: Settings) -> dict[str, Any]:
    """The entries of a key, in types that JSON knows; those of a loss of somebody's own come after ours."""
    options = {name: value for name, value in decided(settings).to_dict().items() if name not in ELSEWHERE}
    # A loss has no settings of another: these keep the value that says nothing.
    every = {name: options.pop(name, usual) for name, usual in FIELDS.items()}
    return {**every, **{name: value for name, value in options.items() if value != YOUNGER.get(name, _OTHER)}}
