"""Every code block of README and docs runs; what cannot is named here, with the reason."""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.docs import pages
from tests.docs.pages import blocks, commands, untold
from tests.small_models import save_model
from tests.training.runs import started

from orthoframe.training import Settings, train

ROOT = Path(__file__).parents[2]
CLUSTERS = ROOT / "docs" / "clusters.md"
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(page for page in (ROOT / "studies").rglob("*.md") if page.parent.name != "templates"),
    ]
)
NOT_RUN = {
    # Tests have no network, and install nothing.
    "pip install '.[train]' --constraint constraints.txt": "installs",
    "pip install lightning": "installs",
    "pip install accelerate": "installs",
    "pip install 'orthoframe[onnx]' onnxruntime": "installs",
    "pip install 'orthoframe[transformers]'": "installs",
    "orthoframe fit features --out classifier": "the features of that model",
    "git clone <your fork> orthoframe": "downloads",
    "cd orthoframe": "what was cloned",
    # Run by other tests.
    "orthoframe embed folder:pictures --backbone my_networks:Colours --out colours": "tests/cli/test_embed.py has one",
    "orthoframe predict runs/photos new --reject 0.05": "tests/cli/test_predict.py has one; 60 pictures are too few",
    "make demo": "tests/training/test_runs.py runs the demo",
    "orthoframe study activations --scale smoke --seeds 1": "studies/tests/test_command.py has it",
    "make test": "this is it",
    # As in the pages, but too long, or for machines that are not here.
    "orthoframe study activations": "minutes",
    "orthoframe study all --out results": "a day",
    "nohup nice orthoframe study all --workers 1 --out results > studies.log 2>&1 &": "days",
    "orthoframe study all --collect --out results": "studies/tests/test_command.py has one",
    "torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-id one --rdzv-endpoint HOST:29500 --no-python "
    "orthoframe train --out runs/one": "two machines",
    "srun --ntasks 8 --gpus-per-task 1 orthoframe embed folder:photos --backbone hf:facebook/dinov2-small "
    "--out features": "8 GPUs",
    "sbatch --nodes 2 --ntasks-per-node 8 --gpus-per-node 8 examples/cluster/train.sbatch --recipe paper "
    "--out runs/paper": "16 GPUs",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a reader of the pages has at hand: a run, images and the project's files. All else is made by a page."""
    folder = tmp_path_factory.mktemp("reader")
    train(Settings.of(recipe="plain", epochs=1), folder / "RUN")
    rng = np.random.default_rng(0)
    (folder / "scans").mkdir()
    (folder / "archive" / "2024").mkdir(parents=True)
    for name in ("scan1.png", "scan2.png", "scans/1.png", "archive/2024/1.jpg"):
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(folder / name)
    _photos(folder, rng)
    (folder / "docs" / "figures").mkdir(parents=True)
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


def _photos(folder, rng):
    """Folders of small pictures of many sizes, and a table of them."""
    rows = ["path,species,day"]
    for place, classes in (("photos", ("heron", "stork", "crane")), ("more-photos", ("crane", "ibis"))):
        for name in classes:
            (folder / place / name).mkdir(parents=True)
            for i in range(20):
                pixels = rng.integers(0, 255, (24 + i % 4, 30, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / place / name / f"{i}.jpg")
                rows += [f"photos/{name}/{i}.jpg,{name},{i // 2}"] if place == "photos" else []
    save_model("dinov2", folder / "my-dinov2")
    (folder / "photos.csv").write_text("\n".join(rows) + "\n")
    (folder / "new").mkdir()
    for name in ("1.jpg", "2.png"):
        Image.fromarray(rng.integers(0, 255, (40, 30, 3), dtype=np.uint8)).save(folder / "new" / name)


@pytest.fixture
def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def slurm_answers():
    """Whether there is a SLURM cluster to submit to."""
    if shutil.which("sinfo") is None:
        return False
    try:
        process = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, timeout=5)
    except subprocess.TimeoutExpired:
        return False
    return process.returncode == 0 and "idle" in process.stdout


def shell(page):
    return [line for language, block in blocks(page.read_text()) if language == "sh" for line in commands(block)]


def environment(folder, **variables):
    """Variables for the programs of this environment."""
    return {
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ORTHOFRAME_STORE": str(folder / "store"),
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        **variables,
    }


def run(command, folder):
    """A command; none of its processes is left if it takes too long."""
    variables = {**os.environ, **environment(folder)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=folder, env=variables, start_new_session=True, **pipes) as process:
        try:
            output, _ = process.communicate(timeout=400)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, output[-4000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_of_the_page_run(page, folder, free_port, tmp_path):
    text = page.read_text()
    packages = ("lightning", "transformers", "onnxruntime", "pytorch_metric_learning")
    absent = [name for name in packages if re.search(rf"^(from|import) {name}\b", text, re.MULTILINE)]
    absent = [name for name in absent if find_spec(name) is None]
    if absent:
        pytest.skip(f"{absent[0]} is not installed")
    skipped = {command for command in shell(page) if command in NOT_RUN}
    if page.name == "theory.md":  # test_theory.py runs its commands, and looks at what they make
        skipped |= set(shell(page))
    for command in set(shell(page)) - skipped:
        words = command.split()
        if words[0] == "make":  # a benchmark: minutes or hours, but the target is there
            subprocess.run(["make", "-n", words[1]], cwd=ROOT, check=True, capture_output=True)
            skipped.add(command)
        elif words[0] == ".venv/bin/pytest":  # tests of this suite, but the place is there
            assert (ROOT / words[1]).exists(), command
            skipped.add(command)
        elif page.parent.name == "results" and command == f"orthoframe study {page.stem} --scale desk":
            skipped.add(command)  # minutes; studies/tests runs every study at its smallest scale
        elif words[0] == "sbatch":
            skipped.add(command)  # has a test of its own
        elif "studies_on_ray.sh" in command and find_spec("ray") is None:
            skipped.add(command)
    if "python" in dict(blocks(text)) or set(shell(page)) - skipped:
        copy = shutil.copytree(folder, tmp_path / "reader", symlinks=True)  # so that no page uses what another made
        variables = environment(copy, RAY_PORT=str(free_port))
        with started(pages.run, page, skipped, copy, tmp_path / "log", variables) as reader:
            reader.join(400)
            if reader.is_alive():
                os.killpg(reader.pid, signal.SIGKILL)
        assert reader.exitcode == 0, (tmp_path / "log").read_text()[-4000:]


@pytest.mark.parametrize("command", [command for command in shell(CLUSTERS) if command.startswith("sbatch --wait")])
def test_slurm(command, folder):
    if not slurm_answers():
        pytest.skip("there is no SLURM here")
    run(["bash", "-c", command], folder)


def test_files_for_slurm_are_shell():
    files = sorted((ROOT / "examples" / "cluster").glob("*.sbatch"))
    assert len(files) == 2
    for file in files:
        subprocess.run(["bash", "-n", str(file)], check=True)


def test_what_is_not_run_is_still_in_a_page():
    assert set(NOT_RUN) <= {command for page in PAGES for command in shell(page)}


def test_the_readme_fits_the_column_of_a_host():
    """Code of 830 pixels, 16 of them on each side, in letters of 8.2 pixels; a figure that leaves room for the rest."""
    readme = (ROOT / "README.md").read_text()
    assert max(len(line) for _, block in blocks(readme) for line in block.splitlines()) <= (830 - 32) / 8.2
    (width,) = re.findall(r'<img src="docs/figures/playground.gif" width="(\d+)"', readme)
    assert int(width) <= 480
    assert "orthoframe playground" in readme  # hosts show the page itself as its source


def test_the_index_of_results_has_every_page():
    folder = ROOT / "docs" / "results"
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "index.md").read_text()))
    assert {page.name for page in folder.glob("*.md")} - {"index.md"} == linked


def test_two_sets_of_the_benchmark_of_classes_can_be_left_out(tmp_path):
    def command(folder):
        make = ["make", "-n", "bench-classes", f"MLBENCH={folder}"]
        return subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    assert f"--mlbench {tmp_path} --table" in command(tmp_path)
    assert "--mlbench" not in command(tmp_path / "absent")


def test_fenced_blocks_have_a_language():
    for page in PAGES:
        assert page.read_text().count("```") == 2 * len(blocks(page.read_text())), f"{page}: an indented block"
        assert {language for language, _ in blocks(page.read_text())} <= {"python", "sh", "text"}, page


def test_numbers_that_a_page_tells_are_looked_for():
    block = "print(a)  # 0.47, 3: and 8.6e-07"
    assert untold(block, "0.4686\n3 8.5595e-07") == []
    assert untold(block, "0.48 3 8.4e-07") == ["0.47", "8.6e-07"]
