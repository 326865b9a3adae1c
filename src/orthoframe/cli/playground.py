"""`orthoframe playground`: where the page to play with is."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PlaygroundCommand:
    """Print the address of a page to play with: points on a sphere under the loss, in a browser and from disk.

    Exit status: 0 printed, 2 bad input. For example:

    python -m webbrowser "$(orthoframe playground)"
    """

    def run(self) -> int:
        """Print the address of the page."""
        package = Path(__file__).parents[1]
        installed = package / "playground"  # the wheel has it there; a checkout has it in docs/
        folder = installed if installed.exists() else package.parents[1] / "docs" / "playground"
        print((folder / "index.html").resolve(strict=True).as_uri())
        return 0
