"""Importing this module makes `torchmetrics` load its parts when they are used.

torchmetrics comes with the extra `metric`, or with Lightning; where it is absent, nothing happens here. All of it
imports transformers, if that is installed, which takes seconds, and lightning_fabric imports all of torchmetrics to
read its version. Import this module before either of them: `torchmetrics` is then an empty package, whose modules can
be imported one by one, and which fills itself when another name is asked of it.
"""

import importlib.metadata
import importlib.util
import logging
import sys
from typing import Any

_NAME = "torchmetrics"


def _make_lazy() -> None:
    """Put a package into `sys.modules` that runs its `__init__` when it lacks a name."""
    spec = None if _NAME in sys.modules else importlib.util.find_spec(_NAME)
    if spec is None or spec.loader is None:  # it is imported already, or not installed
        return
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    names = vars(module)
    names["__version__"] = importlib.metadata.version(_NAME)
    names["_logger"] = logging.getLogger(_NAME)  # which its modules import from it

    def load(name: str) -> Any:
        if names.pop("__getattr__", None):
            loader.exec_module(module)
        try:
            return names[name]
        except KeyError:
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}") from None

    names["__getattr__"] = load
    sys.modules[_NAME] = module


def import_metric() -> None:
    """Import `torchmetrics.metric` without the rest; all of torchmetrics if this version does not allow that."""
    try:
        import torchmetrics.utilities  # it and torchmetrics.metric import each other: this order works
    except (ImportError, AttributeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == _NAME]:
            del sys.modules[name]
    import torchmetrics.metric  # noqa: F401


_make_lazy()
