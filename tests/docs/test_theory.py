"""The theory guide: its pictures are made by its commands, and each ends as the guide says."""

import re
import shlex
from pathlib import Path

from tests.docs.pages import blocks, commands

from orthoframe.cli import main

ROOT = Path(__file__).parents[2]


def test_commands_of_the_theory_guide_do_what_it_says(tmp_path, monkeypatch):
    """Every picture of the guide is made by a command in it, and only the hopeless ones end with status 1."""
    page = (ROOT / "docs" / "theory.md").read_text()
    every = [command for language, block in blocks(page) if language == "sh" for command in commands(block)]
    solved = [command.removeprefix("orthoframe ") for command in every if command.startswith("orthoframe ufm ")]
    assert len(solved) > 10
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    hopeless = ("--dim 4", "--starts 1")
    monkeypatch.chdir(tmp_path)
    for command in solved:
        assert main(shlex.split(command)) == int(any(sign in command for sign in hopeless)), command
    made = {f"figures/{path.name}" for path in (tmp_path / "docs" / "figures").iterdir()}
    assert made == set(re.findall(r"\((figures/[^)]+)\)", page))
