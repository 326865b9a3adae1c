"""The theory guide: its pictures are made by its commands, and each ends as the guide says."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_commands_of_the_theory_guide_do_what_it_says(tmp_path):
    """Every picture of the guide is made by a command in it, and only the hopeless ones end with status 1."""
    page = (ROOT / "docs" / "theory.md").read_text()
    commands = re.findall(r"^orthoframe (ufm .*)$", page, re.MULTILINE)
    assert len(commands) > 10
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    hopeless = ("--dim 4", "--starts 1")
    script = "import shlex, sys; from orthoframe.cli import main; print([main(shlex.split(c)) for c in sys.argv[1:]])"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script, *commands]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    statuses = [int(any(sign in command for sign in hopeless)) for command in commands]
    assert done.stdout.splitlines()[-1] == str(statuses), done.stderr
    made = {f"figures/{path.name}" for path in (tmp_path / "docs" / "figures").iterdir()}
    assert made == set(re.findall(r"\((figures/[^)]+)\)", page))
