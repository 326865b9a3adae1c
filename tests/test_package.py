"""What a user meets first: the import and the command."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import orthoframe

ROOT = Path(__file__).parents[1]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_every_public_name_is_there():
    for name in orthoframe.__all__:
        assert getattr(orthoframe, name) is not None
        assert name in dir(orthoframe)
    with pytest.raises(AttributeError, match="has no attribute 'sup_con'"):
        _ = orthoframe.sup_con


def test_importing_loads_little_more_than_torch():
    script = """
import time, sys
t = time.perf_counter(); import torch; torch_seconds = time.perf_counter() - t
t = time.perf_counter(); import orthoframe; orthoframe.supcon_loss; print(time.perf_counter() - t)
assert not {"scipy", "lightning_fabric", "torchmetrics", "tyro", "matplotlib", "plotly", "sklearn"} & set(sys.modules)
"""
    seconds = min(float(run(sys.executable, "-c", script, check=True).stdout) for _ in range(2))
    assert seconds < 0.3


def test_the_command_answers():
    command = Path(sys.executable).parent / "orthoframe"
    version = run(command, "--version")
    assert version.returncode == 0
    assert version.stdout.strip() == f"orthoframe {orthoframe.__version__}"
    help_text = run(command, "--help")
    assert help_text.returncode == 0
    assert "orthogonal frame" in " ".join(help_text.stdout.split())


@pytest.mark.parametrize(
    "words", [["--help"], ["certify", "--help"], ["train", "--help"], ["study", "--help"]], ids=" ".join
)
def test_help_loads_little_more_than_torch(words):
    script = f"""
import sys
from orthoframe.cli import main
try:
    main({words!r})
except SystemExit:
    pass
heavy = {{"scipy", "lightning_fabric", "torchmetrics", "matplotlib", "plotly", "sklearn", "PIL", "pooch", "filelock"}}
sys.exit(f"loaded: {{heavy & set(sys.modules)}}" if heavy & set(sys.modules) else 0)
"""
    done = run(sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr


def test_imports_point_down():
    """Rooms that must know nothing of each other."""
    rooms = ["data", "batches", "encoders", "losses", "geometry"]
    for room in rooms:
        for file in (ROOT / "src" / "orthoframe" / room).glob("*.py"):
            for other in re.findall(r"(?:from|import) orthoframe\.(\w+)", file.read_text()):
                assert other not in (set(rooms) | {"ufm", "training", "sklearn", "studies", "reporting", "cli"}) - {
                    room
                }, file
