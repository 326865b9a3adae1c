"""What goes wrong, in a sentence for the person who meets it: one base class, and its kinds.

A sentence may speak of options. They are kept as values (`Option`), so that a Python user reads `head="linear"`, the
user of the command reads the option as it is typed, and nobody has to look for names inside a text.
"""

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


@dataclass(frozen=True)
class Option:
    """An argument or setting that a sentence speaks of.

    Examples:
        >>> str(Option("batch_size")), str(Option("head", "linear"))
        ('batch_size', "head='linear'")
    """

    name: str  # its name in Python
    value: Any = None  # a value to give it; None where only the option itself is meant

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class Call(Option):
    """A function that a sentence advises to call; `orthoframe train` has an option of the same name.

    Examples:
        >>> str(Call("resume", "runs/digits"))
        "resume('runs/digits')"
    """

    def __str__(self) -> str:
        return f"{self.name}({self.value!r})"


Part = str | Option
"""A piece of a sentence."""


def spelled(parts: Iterable[object], spell: Callable[[Option], str] = str) -> str:
    """Join the parts of a sentence: text, and options as `spell` writes them for this reader.

    Examples:
        >>> spelled([Option("lr"), " must be positive, not ", -1])
        'lr must be positive, not -1'
    """
    return "".join(spell(part) if isinstance(part, Option) else str(part) for part in parts)


def brief(value: object, most: int = 120) -> str:
    r"""Something from a file, or what a parser said of it, for a sentence: one line of at most `most` characters.

    Examples:
        >>> brief("two\nlines"), brief("0123456789" * 3, most=11)
        ('two lines', '01234...789')
    """
    text = str(value)
    kept = text if len(text) <= 8 * most else f"{text[: 4 * most]}...{text[-4 * most :]}"  # it may be very long
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(kept.split()))
    if len(line) <= most:
        return line
    end = (most - 3) // 2 - 1
    return f"{line[: most - 3 - end]}...{line[-end:]}"


def summary(error: BaseException) -> str:
    r"""An error that others raised, for a sentence: its kind, and the first line of what it says.

    Further lines are for programmers: torch adds where in its own sources the error was raised.

    Examples:
        >>> summary(RuntimeError("no network\nException raised from connect at socket.cpp"))
        'RuntimeError: no network'
    """
    first, _, _ = str(error).strip().partition("\n")
    return f"{type(error).__name__}: {brief(first)}"


def reason_of(error: Exception, most: int = 120) -> str:
    """Why something failed, for a sentence: what the system says, or the error, or else its kind.

    Examples:
        >>> reason_of(OSError(errno.ENOSPC, "No space left on device")), reason_of(KeyError())
        ('No space left on device', 'KeyError')
    """
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return brief(error, most) or type(error).__name__


def unwritable(path: object, error: OSError, option: str) -> tuple[Part, ...]:
    """A sentence about a path that the system refuses to write to, and what may help.

    Examples:
        >>> spelled(unwritable("/cdrom/run", OSError(errno.EROFS, "Read-only file system"), "out"))
        '/cdrom/run: Read-only file system; choose an out on a disk that can be written to'
        >>> spelled(unwritable("run", PermissionError(errno.EACCES, "Permission denied"), "out"))
        'run: Permission denied; choose another out'
    """
    what = f"{path}: {reason_of(error)}; "
    if error.errno == errno.EROFS:
        return f"{what}choose an ", Option(option), " on a disk that can be written to"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{what}make room, or choose an ", Option(option), " on another disk"
    return f"{what}choose another ", Option(option)


class Coded(StrEnum):
    """A base of enums whose members are codes for files and programs, each with a sentence for the reader.

    Examples:
        >>> class Reason(Coded):
        ...     STEPS = "steps", "The features are still moving"
        >>> Reason("steps") == "steps", Reason.STEPS.sentence
        (True, 'The features are still moving')
    """

    sentence: str

    def __new__(cls, code: str, sentence: str = "") -> Self:
        """A member from its code and its sentence."""
        member = str.__new__(cls, code)
        member._value_, member.sentence = code, sentence
        return member


class OrthoframeError(Exception):
    """The base of all errors of this package; its arguments are the parts of its sentence.

    Examples:
        >>> str(OptionError(Option("epochs"), " must be at least 1, not 0"))
        'epochs must be at least 1, not 0'
    """

    def __str__(self) -> str:
        return spelled(self.args)

    def spelled(self, spell: Callable[[Option], str]) -> str:
        """The sentence, with options as the reader writes them."""
        return spelled(self.args, spell)


class OptionError(OrthoframeError, ValueError):
    """An argument or setting that is not allowed, or contradicts another."""


class OptionTypeError(OptionError, TypeError):
    """An argument or setting of a wrong type."""


class DataError(OrthoframeError, ValueError):
    """Data that is missing, broken or not as asked for; the sentence names the file."""


class TrainingError(OrthoframeError):
    """A run cannot start or continue."""


class InputError(OrthoframeError):
    """A file or folder that was given cannot be used; the sentence names it."""


class MissingPackageError(OrthoframeError, ImportError):
    """A package that only a part of this one needs is not installed; the sentence names the extra that brings it."""


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Name the extra to install if a package cannot be imported.

    Args:
        what: What needs the package: `orthoframe.sklearn`, or a verb of the command.
        extra: The extra of this package that brings it.

    Raises:
        MissingPackageError: For a module that is not there, unless it is our own.

    Examples:
        >>> with needs_extra("orthoframe train", "train"):
        ...     import no_such_package
        Traceback (most recent call last):
        orthoframe.errors.MissingPackageError: orthoframe train needs no_such_package: pip install 'orthoframe[train]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "orthoframe"):
            raise
        raise MissingPackageError(f"{what} needs {package}: pip install 'orthoframe[{extra}]'") from error
