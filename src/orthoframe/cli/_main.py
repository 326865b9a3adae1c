"""The front door of the command."""

import argparse
from collections.abc import Sequence

from orthoframe import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; `arguments` are those after its name."""
    parser = argparse.ArgumentParser(
        prog="orthoframe",
        description="Supervised contrastive learning whose destination is known: the orthogonal frame.",
    )
    parser.add_argument("--version", action="version", version=f"orthoframe {__version__}")
    parser.parse_args(arguments)
    parser.print_help()
    return 0
