"""The command `orthoframe`: one file for each verb, which is loaded when it is chosen."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import make_dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Annotated, Any, Union

from orthoframe import __version__
from orthoframe.errors import InputError, MissingPackageError, brief, needs_extra
from orthoframe.lazy import lazy_names

if TYPE_CHECKING:
    from orthoframe.cli._terminal import Flag as Flag
    from orthoframe.cli._terminal import Folder as Folder
    from orthoframe.cli._terminal import progress as progress
else:
    # What verbs of other distributions are made with.
    __all__, __getattr__, __dir__ = lazy_names(__name__, {"_terminal": "Flag Folder progress"}, "train")
    __all__ += ["VERBS", "main", "parse"]

VERBS = {
    "train": "Train an encoder, and say whether its classes form an orthogonal frame.",
    "predict": "Classify images with a trained encoder.",
    "evaluate": "Evaluate a trained encoder on labelled images.",
    "export": "Write a trained encoder as an ONNX graph.",
    "report": "Write the report of one run, or of several side by side.",
    "certify": "Decide whether batches have the orthogonal frame as their only optimum.",
    "measure": "Measure the geometry of any embedding.",
    "embed": "Write the features of images, by any backbone.",
    "fit": "Fit a classifier of embeddings whose classes end in an orthogonal frame.",
    "ufm": "Minimise the loss over free features: where training ends, without a network.",
    "playground": "Print the address of a page to play with, which a browser opens from disk.",
}
"""The verbs; `train` is the dataclass `TrainCommand` in the module `train`."""

_ABOUT = "Supervised contrastive learning with a known destination: the orthogonal frame."
_CLOSED_PIPE = 141  # 128 + SIGPIPE, as a shell reports it; Windows has no such signal
_OTHERS = "orthoframe.verbs"
"""The entry points by which other distributions add verbs: each is a dataclass with a docstring and `run`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with the arguments after its name; the exit status."""
    if os.environ.get("NO_COLOR"):  # tyro knows a variable of its own only, which it reads when it is loaded
        os.environ["PYTHON_TYRO_ANSI_CODES"] = "False"
    try:
        with needs_extra("the command orthoframe", "train"):
            from orthoframe.cli._terminal import complain, unprinted
    except MissingPackageError as error:
        print(f"orthoframe: {error}", file=sys.stderr)
        return 2
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch loads: threads that wait leave their core
    try:
        try:
            return _run(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            print(end="", flush=True)
    except KeyboardInterrupt:
        print("orthoframe: interrupted", file=sys.stderr)
        return 130
    except Exception as error:  # not a verdict, so not a status of 0 or 1
        if not isinstance(error, BrokenPipeError):  # the reader has closed the pipe
            complain(error)
        if unprinted(error):  # Python would write it once more at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE if isinstance(error, BrokenPipeError) else 2


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        print(f"orthoframe {__version__}")
        return 0
    others = {} if arguments and arguments[0] in VERBS else {each.name: each for each in entry_points(group=_OTHERS)}
    if not arguments or arguments[0].startswith("-"):
        _show_verbs(others, arguments or ["--help"])
    if arguments[0] not in (verbs := [*VERBS, *others]):
        close = get_close_matches(arguments[0], verbs, 1)
        remedy = f"did you mean {close[0]}?" if close else f"there are {', '.join(verbs)}"
        raise InputError(f"there is no verb {brief(arguments[0], 40)!r}; {remedy}")
    with needs_extra(f"orthoframe {arguments[0]}", "train"):
        return int(parse(arguments[0], arguments[1:], others).run())


def parse(name: str, arguments: Sequence[str], others: Mapping[str, EntryPoint] | None = None) -> Any:
    """A verb with its options; the function `make_command` of its module, if any, makes them."""
    import tyro

    from orthoframe.cli._terminal import NUMBERS, filled, with_help

    if others and name in others:
        verb = with_help(others[name].load())
    else:
        module = import_module(f"orthoframe.cli.{name}")
        verb = module.make_command(arguments) if hasattr(module, "make_command") else None
        verb = verb or with_help(getattr(module, f"{name.capitalize()}Command"))
    about = filled(verb.__doc__)
    config = (tyro.conf.DisallowNone,)
    return tyro.cli(verb, prog=f"orthoframe {name}", description=about, args=arguments, config=config, registry=NUMBERS)


def _show_verbs(others: Mapping[str, EntryPoint], arguments: Sequence[str]) -> None:
    """Show the verbs without their options; those of others are described by the first line of their docstring."""
    import tyro

    from orthoframe.cli._terminal import Flag, filled

    verbs = VERBS | {name: (each.load().__doc__ or "").partition("\n")[0] for name, each in others.items()}
    stubs = [
        Annotated[make_dataclass(name, []), tyro.conf.subcommand(name, description=about)]
        for name, about in verbs.items()
    ]
    any_verb: Any = Union[tuple(stubs)]  # noqa: UP007
    flat: Any = tyro.conf.OmitSubcommandPrefixes
    about = tyro.conf.arg(help="show the version and exit", help_behavior_hint="")
    front = make_dataclass("front", [("verb", flat[any_verb]), ("version", Annotated[Flag, about], False)])
    tyro.cli(front, prog="orthoframe", description=filled(_ABOUT), args=arguments)
