"""What is handed out: a wheel and a source distribution that run outside the checkout, and papers that agree."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

import pytest
import yaml
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
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site / "others.pth").write_text("\n".join(others))
    # Whether or not the tests have it installed: what they have is not in this environment.
    options = ("--ignore-installed", "--no-deps", "--no-index", "--no-compile")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, built[0])
    return folder


def distribution(requirement):
    """The normalised name of the distribution that a requirement or a pin is of."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def imported():
    """The distributions that modules of the package import at any depth of their code, and the files that do."""
    known, found = packages_distributions(), {}
    for path in sorted((ROOT / "src" / "orthoframe").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            for name in {name.partition(".")[0] for name in names} - {"orthoframe", *sys.stdlib_module_names}:
                owners = frozenset(map(distribution, known.get(name, [name])))  # the name itself if it is not installed
                found.setdefault(owners, set()).add(path.relative_to(ROOT / "src" / "orthoframe").as_posix())
    return found


# The environment of these tests sees all that they have installed, so what is not declared would be found there.
def test_what_is_imported_is_declared():
    declared = set(map(distribution, PROJECT["dependencies"]))
    extras = {name: set(map(distribution, needed)) for name, needed in PROJECT["optional-dependencies"].items()}
    # What only these files import, and say so where it is absent: by an extra, or brought by the reader.
    optional = {
        "encoders/_hugging_face.py": extras["transformers"],
        "transformers.py": extras["transformers"],
        "training/_onnx.py": extras["onnx"] | {"onnxruntime"},
        "studies/_ray.py": extras["ray"],
        "lightning.py": {"lightning", "pytorch-lightning"},
    }
    found = imported()
    for owners, files in found.items():
        undeclared = {file for file in files if not owners & (declared | optional.get(file, set()))}
        assert not undeclared, f"{' or '.join(owners)} is imported, and not declared in pyproject.toml"
    by_file = {"plotly"}  # its script is copied into reports
    assert declared - by_file <= set().union(*found), "declared, and imported nowhere"


def test_what_is_declared_is_pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {distribution(line) for line in lines if not line.startswith("#")}
    needed = [
        *PROJECT["dependencies"],
        *(name for extra in PROJECT["optional-dependencies"].values() for name in extra),
    ]
    assert set(map(distribution, needed)) <= pinned


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
