"""All studies by name, each loaded when it is asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from orthoframe.studies._study import Study

_PACKAGE = "orthoframe.studies"
_MODULES = (
    "geometry",
    "without_relu",
    "cross_entropy",
    "floor",
    "batching",
    "temperature",
    "batch_size",
    "accuracy",
    "extreme_imbalance",
    "activations",
    "complexity",
    "generalisation",
    "fast",
)


class _Catalogue(Mapping[str, Study]):
    """Names have dashes, modules have underscores."""

    def __getitem__(self, name: str) -> Study:
        if name not in list(self):
            raise KeyError(name)
        study: Study = import_module(f"{_PACKAGE}.{name.replace('-', '_')}").STUDY
        return study

    def __iter__(self) -> Iterator[str]:
        return (module.replace("_", "-") for module in _MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


STUDIES: Mapping[str, Study] = _Catalogue()
"""By name, in the order in which they are read."""
