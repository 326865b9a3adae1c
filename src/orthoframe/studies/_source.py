"""Which source computed a result."""

import subprocess
from functools import cache
from pathlib import Path


@cache
def source_commit() -> tuple[str | None, bool | None]:
    """The commit of this source, and whether files differ from it; None if it is not in a repository of its own."""
    here = Path(__file__)
    try:
        subprocess.run(
            ["git", "ls-files", "--error-unmatch", here.name], cwd=here.parent, capture_output=True, check=True
        )
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=here.parent,
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return found.removesuffix("-dirty"), found.endswith("-dirty")
