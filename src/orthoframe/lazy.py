"""Packages whose names are loaded when they are first used."""

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from orthoframe.errors import needs_extra


def lazy_names(
    package: str, names: Mapping[str, str], extra: str | None = None
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package; type checkers are told of the names by imports of their own.

    Args:
        package: Its `__name__`.
        names: The names that each of its modules has, separated by blanks.
        extra: The extra of this distribution that brings what these modules import; None for the core.

    Examples:
        >>> public, load, _ = lazy_names("orthoframe", {"losses": "supcon_loss make_frame"})
        >>> public, load("make_frame").__name__
        (['supcon_loss', 'make_frame'], 'make_frame')
    """
    modules = {name: module for module, listed in names.items() for name in listed.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with nullcontext() if extra is None else needs_extra(package, extra):
            value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next time it is there
        return value

    return list(modules), load, lambda: sorted({*modules, *vars(sys.modules[package])})
