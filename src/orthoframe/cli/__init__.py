"""The command `orthoframe`: one file for each verb."""

import sys
from collections.abc import Sequence

from orthoframe.errors import MissingPackageError, needs_extra

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with the arguments after its name; the exit status."""
    try:
        with needs_extra("the command orthoframe", "train"):
            from orthoframe.cli import _main
    except MissingPackageError as error:
        print(f"orthoframe: {error}", file=sys.stderr)
        return 2
    return _main.main(arguments)
