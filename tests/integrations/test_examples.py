"""The scripts in examples/ run, are short, and print what their readers expect."""

import os
import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.training.runs import started

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, folder):
    """What a script prints, in a process of its own."""
    with started(_run, EXAMPLES / name, folder) as process:
        process.join(300)
    assert process.exitcode == 0, (folder / "err").read_text()
    return (folder / "out").read_text()


def _run(script, folder):
    os.chdir(folder)
    for number, name in ((1, "out"), (2, "err")):
        with open(name, "w") as file:
            os.dup2(file.fileno(), number)
    runpy.run_path(str(script), run_name="__main__")


def test_there_are_four_short_ones():
    scripts = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert scripts == ["lightning_module.py", "own_loop.py", "repair_sampler.py", "text_embeddings.py"]
    for name in scripts:
        assert len((EXAMPLES / name).read_text().splitlines()) < 80, name


def test_own_loop(tmp_path):
    output = run("own_loop.py", tmp_path)
    assert output.startswith("Certified")
    assert "Class means form an orthogonal frame, and classes have collapsed." in output
    gaps = [float(gap) for gap in re.findall(r"([\d.]+) above the floor", output)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.01


@pytest.mark.skipif(find_spec("lightning") is None, reason="lightning is not installed")
def test_lightning_module(tmp_path):
    output = run("lightning_module.py", tmp_path)
    assert "Class means form an orthogonal frame, and classes have collapsed." in output
    folder = Path(re.search(r"are in (.*)", output).group(1))
    assert (folder / "geometry.png").exists()
    assert (folder / "metrics.csv").exists()


def test_text_embeddings(tmp_path):
    output = run("text_embeddings.py", tmp_path)
    before, after = (float(distance) for distance in re.findall(r"distance to the frame ([\d.]+)\.", output))
    assert after < 0.05 < 0.5 < before
    recognised = [int(part) for part in re.findall(r"(\d+)% of \d+ new texts are recognised", output)]
    assert len(recognised) == 4
    assert min(recognised) >= 60


def test_repair_sampler(tmp_path):
    output = run("repair_sampler.py", tmp_path)
    assert output.startswith("Not certified: class 0 splits into 20 components")
    assert "\nCertified" in output
    added = int(re.search(r"The repair adds (\d+) rows", output).group(1))
    assert f"{640 + added} rows instead of 640" in output
