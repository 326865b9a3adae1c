"""Runs the code blocks of a page, in their order and in one folder, as a reader would.

    python pages.py PAGE SKIPPED...

Python blocks have a namespace each; commands of orthoframe are called in this process, to save its start; other lines
of a shell block go to bash. Lines that are given as SKIPPED are not run.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

# Verdicts that a page shows on purpose: "not certified" and "no frame" are status 1.
MAY_FAIL = ("certify", "ufm")


def blocks(text):
    """The fenced blocks of a page: language and content."""
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(block):
    """The commands of a shell block, without comments."""
    lines = [" ".join(shlex.split(line, comments=True)) for line in block.splitlines()]
    return [raw.strip() for raw, line in zip(block.splitlines(), lines, strict=True) if line]


def bare(command):
    """A command without its comment."""
    return re.sub(r"\s+#\s.*$", "", command).strip()


def run(page, skipped):
    from orthoframe.cli import main

    for language, block in blocks(page.read_text()):
        if language == "python":
            exec(compile(block, f"a block of {page.name}", "exec"), {"__name__": "__main__"})
        elif language == "sh":
            for command in map(bare, commands(block)):
                if command in skipped:
                    continue
                words = shlex.split(command)
                if words[0] == "orthoframe":
                    try:
                        status = main(words[1:])
                    except SystemExit as end:
                        status = end.code
                    allowed = (0, 1) if words[1] in MAY_FAIL else (0, None)
                else:
                    status, allowed = subprocess.run(["bash", "-c", command]).returncode, (0,)
                if status not in allowed:
                    sys.exit(f"{command}: status {status}")


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
