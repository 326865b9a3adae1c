"""What every verb shares on the terminal: help texts, the spelling of options, errors, and the progress bar."""

import ast
import errno
import gc
import inspect
import os
import shlex
import shutil
import sys
import textwrap
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args

import tyro

from orthoframe.errors import Call, InputError, Option, OrthoframeError, brief, reason_of

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

Flag = tyro.conf.FlagCreatePairsOff[bool]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]
Picture = Annotated[Path | None, tyro.conf.arg(metavar="OUT.png")]
_EXAMPLES = ("orthoframe ", "python ")  # how commands begin in docstrings
_wrap = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)
_LONGEST = 300  # characters of an error: more is not read


def help_texts(kind: type) -> dict[str, str]:
    """The text below each field of a dataclass, in its source and in those of its bases."""
    texts: dict[str, str] = {}
    for base in filter(is_dataclass, reversed(kind.__mro__)):
        for statement, below in pairwise(_classes_in(base.__module__)[base.__name__].body):
            match statement, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                    texts[name] = " ".join(str(text).split())
    return texts


@cache
def _classes_in(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module as they are written, by name; `inspect` would parse it anew for each."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def with_help(verb: Any) -> Any:
    """A verb, or a group of its options, with the help of each option.

    A default is shown only if it says something: a flag is off, and sentences explain None.
    """
    texts = help_texts(verb)
    for field in fields(verb):
        kind = get_args(field.type)[0] if get_args(field.type) else field.type
        if is_dataclass(kind):
            with_help(kind)
            continue
        about = tyro.conf.arg(help=texts[field.name], help_behavior_hint=_default)
        verb.__annotations__[field.name] = Annotated[field.type, about]
    return verb


NUMBERS = tyro.constructors.ConstructorRegistry()
"""How numbers are read, so that an error is about the option; tyro's own is about Python's classes."""


@NUMBERS.primitive_rule
def _number(info: tyro.constructors.PrimitiveTypeInfo) -> Any:
    kind: Any = info.type
    if kind not in (int, float):
        return None

    def parsed(words: list[str]) -> Any:
        with suppress(ValueError):
            return kind(words[0])
        raise ValueError(f"must be a {'whole ' if kind is int else ''}number, not {words[0]!r}")

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=kind.__name__.upper(),
        instance_from_str=parsed,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )


@NUMBERS.primitive_rule
def _optional(info: tyro.constructors.PrimitiveTypeInfo) -> Any:
    """What may be absent is read as what it is; tyro's own rule names all that it tried."""
    kinds = set(get_args(info.type)) - {type(None)}
    if info.type_origin not in (Union, UnionType) or len(kinds) > 1:
        return None
    spec: Any = NUMBERS.get_primitive_spec(tyro.constructors.PrimitiveTypeInfo.make(kinds.pop(), info.markers))
    return replace(spec, is_instance=lambda value: True, str_from_instance=lambda value: [str(value)])


def _default(text: str) -> str:
    return "" if text in ("", "None", "False") else f"(default: {text})"


def filled(docstring: str) -> str:
    """Paragraphs as wide as the terminal, with examples indented; tyro keeps lines that begin with a space."""
    width, lines = shutil.get_terminal_size().columns, []
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        indent = "    " if paragraph.startswith(_EXAMPLES) else " "
        lines += _wrap(paragraph, width, initial_indent=indent, subsequent_indent=indent)
    return "\n".join(lines)


def wrapped(sentence: str) -> str:
    """A sentence as wide as the terminal, with its indent; a file or a pipe gets it in one line."""
    if not sys.stdout.isatty():
        return sentence
    indent = " " * (len(sentence) - len(sentence.lstrip()))
    return "\n".join(_wrap(sentence, shutil.get_terminal_size().columns, subsequent_indent=indent))


def flag(option: Option) -> str:
    """An option as it is typed: `--batch-size`, `--head linear`, `--no-augment`, `--temperature 0.1:0.5`."""
    name, value = option.name.replace("_", "-"), option.value
    if isinstance(option, Call):
        return f"orthoframe train --{name} {shlex.quote(str(value))}"
    if value is None or isinstance(value, bool):
        return f"--no-{name}" if value is False else f"--{name}"
    text = ":".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"--{name} {shlex.quote(text)}"


def complain(error: BaseException) -> None:
    """Print an error as one sentence; with `ORTHOFRAME_DEBUG=1`, its traceback before it."""
    debug = os.environ.get("ORTHOFRAME_DEBUG", "0") not in ("", "0")
    if debug:
        traceback.print_exception(error)
    if isinstance(error, OrthoframeError):
        print(f"orthoframe: {brief(error.spelled(flag), _LONGEST - len('orthoframe: '))}", file=sys.stderr)
    elif isinstance(error, UnicodeEncodeError):
        letters, advice = (
            error.object[error.start : error.end],
            "PYTHONIOENCODING=utf-8:backslashreplace shows all names",
        )
        print(f"orthoframe: standard output cannot show {letters!a} in {error.encoding}; {advice}", file=sys.stderr)
    elif isinstance(error, OSError) and unprinted(error):
        print(f"orthoframe: standard output: {reason_of(error)}", file=sys.stderr)
    elif isinstance(error, MemoryError):
        print("orthoframe: there is not enough memory", file=sys.stderr)
    else:
        advice = "" if debug else " (ORTHOFRAME_DEBUG=1 shows where)"
        print(f"orthoframe: unexpected {type(error).__name__}: {brief(error, 200)}{advice}", file=sys.stderr)


def unprinted(error: BaseException) -> bool:
    """Whether standard output was closed or is full; errors about files name them."""
    return isinstance(error, OSError) and error.errno in (errno.EPIPE, errno.ENOSPC) and error.filename is None


@contextmanager
def starting() -> Iterator[None]:
    """While torch is loaded no garbage is looked for, and what was loaded is not searched later, not at the end either.

    There is none among it, and the search takes a quarter of the time of a command with a single image.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collecting:
            gc.enable()


@contextmanager
def outliving_the_terminal() -> Iterator[None]:
    """If a terminal was closed when an error leaves this, later words go nowhere instead of failing."""
    try:
        yield
    except BaseException:
        for number in (1, 2):
            try:
                os.write(number, b"")
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        raise


@contextmanager
def bad_input(where: Path | str = "") -> Iterator[None]:
    """Turn values that the library refuses into an error about the input, which it cannot name itself."""
    try:
        yield
    except OrthoframeError:
        raise
    except ValueError as error:
        raise InputError(f"{where}: {error}" if where else str(error)) from error


def progress(*columns: "ProgressColumn") -> "Progress":
    """A bar on standard error, only on a terminal; after it `columns`, or percentage and remaining time."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),  # a file name may contain square brackets
        BarColumn(bar_width=20 if columns else 40),
        *(columns or (TaskProgressColumn(), TimeRemainingColumn())),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def seconds_since_start() -> float:
    """Since this process began, with what it took to import torch; 0 where the system does not say."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[19])  # between the boot of the system and the start, the 22nd field of all
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return 0.0
