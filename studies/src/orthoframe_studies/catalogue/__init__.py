"""The studies, a file each: whatever stands here is one of them."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules

from orthoframe_studies._study import Study


class _Catalogue(Mapping[str, Study]):
    """Loads a study when it is asked for. Names have dashes, modules have underscores."""

    def __getitem__(self, name: str) -> Study:
        if name not in set(self):
            raise KeyError(name)
        study: Study = import_module(f"{__name__}.{name.replace('-', '_')}").STUDY
        return study

    def __iter__(self) -> Iterator[str]:
        return (module.name.replace("_", "-") for module in iter_modules(__path__))

    def __len__(self) -> int:
        return sum(1 for _ in self)


STUDIES: Mapping[str, Study] = _Catalogue()
"""All studies by name."""
