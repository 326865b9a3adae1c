"""What is handed out: a wheel and a source distribution that run outside the checkout, and papers that agree."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution as installed
from importlib.metadata import packages_distributions
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

import pytest
import yaml
from packaging.requirements import Requirement
from tests.training.runs import arguments

import orthoframe

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Nothing of the checkout, or of the user, is found by a process that is started so.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {"PYTHONNOUSERSITE": "1"}


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=CLEAN, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_in(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(folder).as_posix() for path in files}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel, which is built from the source distribution, and that; nothing is fetched."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    name = f"orthoframe-{orthoframe.__version__}"
    assert files_in(folder) == {f"{name}-py3-none-any.whl", f"{name}.tar.gz"}
    return folder / f"{name}-py3-none-any.whl", folder / f"{name}.tar.gz"


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory):
    """A virtual environment with the wheel, which sees what we depend on where the tests have it.

    A .pth file names that folder; the .pth files in it, and so the editable install of the checkout, are not read.
    """
    folder, site = empty_environment(tmp_path_factory.mktemp("environment"), built[0])
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site / "others.pth").write_text("\n".join(others))
    return folder


@pytest.fixture(scope="module")
def core(built, tmp_path_factory):
    """A virtual environment with the wheel and what it depends on without extras, directly or not, and their names."""
    folder, site = empty_environment(tmp_path_factory.mktemp("core"), built[0])
    names = needed(PROJECT["dependencies"])
    for name in names:
        files = installed(name).files or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (site / top).symlink_to(installed(name).locate_file(top))
    return folder, names | {"orthoframe"}


def empty_environment(folder, wheel):
    """A virtual environment with the wheel alone, and the folder of its packages."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    # Whether or not the tests have it installed: what they have is not in this environment.
    options = ("--ignore-installed", "--no-deps", "--no-index", "--no-compile")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel)
    return folder, Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def needed(requirements):
    """The distributions that requirements bring on this machine, and those that these bring."""
    names, todo = set(), list(map(Requirement, requirements))
    while todo:
        requirement = todo.pop()
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and (name := distribution(requirement.name)) not in names:
            names.add(name)
            todo += map(Requirement, installed(name).requires or [])
    return names


def distribution(requirement):
    """The normalised name of the distribution that a requirement or a pin is of."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def imported():
    """The distributions that modules of the package import at any depth of their code, and the files that do."""
    distributions, files = packages_distributions(), {}
    for path in sorted((ROOT / "src" / "orthoframe").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            for name in {name.partition(".")[0] for name in names} - {"orthoframe", *sys.stdlib_module_names}:
                owners = frozenset(
                    map(distribution, distributions.get(name, [name]))
                )  # the name itself if it is not installed
                files.setdefault(owners, set()).add(path.relative_to(ROOT / "src" / "orthoframe").as_posix())
    return files


CORE = {"losses", "batches", "encoders", "geometry", "ufm"}  # and the ground floor
EXTRAS = {name: set(map(distribution, needs)) for name, needs in PROJECT["optional-dependencies"].items()}
# What other files may import, by their room or path. Those of the core rooms import it where it is needed.
BROUGHT = {
    "sklearn": EXTRAS["sklearn"],
    "geometry/_metric.py": EXTRAS["metric"],
    "files.py": {"filelock", "safetensors"},  # for folders with one writer, and files of tensors
    "encoders/_hugging_face.py": EXTRAS["transformers"] | {"pillow"},
    "transformers.py": EXTRAS["transformers"],
    "training/_onnx.py": EXTRAS["onnx"] | EXTRAS["train"] | {"onnxruntime"},
    "lightning.py": {"lightning", "pytorch-lightning"},
}


# The environment of these tests sees all that they have installed, so what is not declared would be found there.
def test_what_is_imported_is_declared():
    core = set(map(distribution, PROJECT["dependencies"]))
    imports = imported()
    for owners, files in imports.items():
        for file in files:
            room = file.partition("/")[0]
            others = set() if room in CORE or room.endswith(".py") else EXTRAS["train"]
            declared = core | BROUGHT.get(file, BROUGHT.get(room, others))
            assert owners & declared, f"{file} imports {' or '.join(owners)}, which pyproject.toml does not bring there"
    by_file = {"plotly"}  # its script is copied into reports
    assert core | EXTRAS["train"] | EXTRAS["sklearn"] | EXTRAS["metric"] <= set().union(*imports) | by_file


def test_the_core_runs_with_what_it_brings(core, tmp_path):
    """The loss, the head, batches, measures and the solver: 14 packages, besides torch's libraries for a GPU."""
    folder, names = core
    python = folder / "bin" / "python"
    script = """
import importlib.metadata
import torch
from orthoframe import BatchPlan, FrameHead, SupConLoss, certify, frame_loss, loss_floor, make_frame, measure, repair
from orthoframe import predict_gram, solve_ufm, supcon_loss

labels = torch.tensor([0] * 8 + [1] * 4)
features = torch.rand(12, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
supcon_loss(features, labels).backward()
assert features.grad.abs().sum() > 0
plan = BatchPlan(labels, 4)
assert certify(labels, plan.batches()).holds
assert certify(labels, repair(labels, [[0, 1], [8, 9]])).holds
assert frame_loss(features, labels, make_frame(2, 4)) > 0
assert loss_floor(labels) > 0
assert predict_gram([8, 4]).shape == (2, 2)
head = FrameHead(4, 3)
SupConLoss()(head(features), labels).backward()
assert measure(head(features), labels).accuracy.balanced <= 1
assert solve_ufm(labels, 3).converged
print(*(each.name for each in importlib.metadata.distributions()))
"""
    assert {distribution(name) for name in run(python, "-c", script, cwd=tmp_path).split()} == names
    assert len([name for name in names if not name.startswith(("nvidia-", "cuda-", "triton"))]) <= 14


MISSING = {
    "orthoframe.GeometryMetric": "metric",
    "orthoframe.sklearn.FrameClassifier": "sklearn",
    "orthoframe.training.train": "train",
    "orthoframe.reporting.geometry_figure": "train",
    "orthoframe.transformers.FrameTrainer": "transformers",
}


def test_what_the_core_lacks_is_named_with_its_extra(core, tmp_path):
    python, command = (core[0] / "bin" / name for name in ("python", "orthoframe"))
    script = f"""
from importlib import import_module
for module, name in {[name.rsplit(".", 1) for name in MISSING]}:
    try:
        getattr(import_module(module), name)
        print("it is there")
    except ImportError as error:
        print(error)
"""
    sentences = run(python, "-c", script, cwd=tmp_path).splitlines()
    for (name, extra), sentence in zip(MISSING.items(), sentences, strict=True):
        assert re.fullmatch(rf"\S+ needs \w+: pip install 'orthoframe\[{extra}\]'", sentence), (name, sentence)
    done = subprocess.run([command, "train"], capture_output=True, text=True, env=CLEAN, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "orthoframe: the command orthoframe needs tyro: pip install 'orthoframe[train]'\n"


def test_what_is_declared_is_pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {distribution(line) for line in lines if not line.startswith("#")}
    declared = set(map(distribution, PROJECT["dependencies"])).union(*EXTRAS.values())
    assert declared - {"orthoframe"} <= pinned


def test_the_wheel_has_every_file_of_the_package_and_the_playground(built):
    package = {f"orthoframe/{name}" for name in files_in(ROOT / "src" / "orthoframe")}
    playground = {f"orthoframe/playground/{name}" for name in files_in(ROOT / "docs" / "playground")}
    assert {"orthoframe/py.typed", "orthoframe/reporting/templates/report.css"} <= package
    with zipfile.ZipFile(built[0]) as wheel:
        there = {name for name in wheel.namelist() if not name.startswith(f"orthoframe-{orthoframe.__version__}.")}
    assert there == package | playground


def test_the_source_distribution_has_what_a_contributor_needs(built):
    with tarfile.open(built[1]) as archive:
        there = {member.name.partition("/")[2] for member in archive if member.isfile()}
    folders = {f"{name}/{file}" for name in ("src", "tests", "docs", "examples") for file in files_in(ROOT / name)}
    papers = {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"}
    assert folders | papers | {"Makefile", "conftest.py", "constraints.txt", "mkdocs.yml", "pyproject.toml"} <= there


def test_the_wheel_runs_outside_the_checkout(environment, tmp_path):
    python, command = environment / "bin" / "python", environment / "bin" / "orthoframe"
    script = "import orthoframe, importlib.metadata as about; print(orthoframe.__file__, about.version('orthoframe'))"
    file, version = run(python, "-c", script, cwd=tmp_path).rsplit(maxsplit=1)
    assert Path(file).is_relative_to(environment)
    assert version == orthoframe.__version__
    assert run(command, "--version", cwd=tmp_path) == f"orthoframe {version}\n"

    run(command, "train", *arguments(epochs=2), "--out", "run", cwd=tmp_path)
    run(command, "report", "run", "--out", "page.html", cwd=tmp_path)
    templates = ROOT / "src" / "orthoframe" / "reporting" / "templates"
    for page in ("run/report.html", "page.html"):
        text = (tmp_path / page).read_text()
        assert (templates / "report.css").read_text().strip() in text
        assert (templates / "report.js").read_text().strip() in text

    address = urlparse(run(command, "playground", cwd=tmp_path).strip())
    page = Path(url2pathname(address.path))
    assert page.is_relative_to(environment.resolve())
    assert files_in(page.parent) == files_in(ROOT / "docs" / "playground")


def test_versions_agree():
    changes = (ROOT / "CHANGELOG.md").read_text()
    version, date = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", changes, re.MULTILINE)[0]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert version == citation["version"] == orthoframe.__version__
    assert date == str(citation["date-released"])


def test_the_versions_of_python_that_are_promised_are_those_that_are_tested():
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"
