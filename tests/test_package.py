"""What a user meets first: the import and the command. And the walls of the house: which room may know which."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from PIL import Image

import orthoframe
from run_folders import write_run

SOURCE = Path(__file__).parents[1] / "src" / "orthoframe"
VERBS = sorted(path.stem for path in (SOURCE / "cli").glob("[!_]*.py"))
TREES = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}

GROUND = {"options", "errors", "files", "lazy"} | {path.stem for path in SOURCE.glob("_*.py")}
BASE = {"data", "batches", "encoders", "losses", "geometry"}
# What each room may import beside the ground floor. Rooms that are not named here may import the ground floor only.
ALLOWED = {
    "ufm": {"batches", "geometry", "losses"},
    "recipe": {"encoders", "geometry", "losses"},
    "runs": BASE,
    "reporting": BASE | {"ufm", "runs"},
    "training": BASE | {"runs"},
    "callbacks": BASE | {"runs", "reporting"},
    "lightning": BASE | {"callbacks"},
    "transformers": BASE | {"callbacks"},
    "sklearn": BASE,
    "embedding": {"data", "encoders"},
}


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_every_public_name_is_there():
    for name in orthoframe.__all__:
        assert getattr(orthoframe, name) is not None
        assert name in dir(orthoframe)
    with pytest.raises(AttributeError, match="has no attribute 'sup_con'"):
        _ = orthoframe.sup_con


def loaded_by(script):
    """The packages that a script loads, and our own modules."""
    done = run(sys.executable, "-c", f"{script}\nimport sys\nprint('loaded', *sys.modules)")
    assert done.returncode == 0, done.stderr
    modules = done.stdout.splitlines()[-1].split()[1:]
    return {name if name.startswith("orthoframe") else name.partition(".")[0] for name in modules}


HEAVY = {"scipy", "lightning_fabric", "torchmetrics", "matplotlib", "plotly", "sklearn", "PIL", "pooch", "pandas"}


LIGHTNING = {"lightning", "pytorch_lightning", "transformers", "torchmetrics"}
# What is done after one another in one process, because torch is loaded in seconds, and what it must not load.
STEPS = {
    "import orthoframe; orthoframe.supcon_loss": HEAVY | LIGHTNING | {"tyro", "requests", "filelock"},
    "import orthoframe.data": {"sklearn", "requests", "PIL", "pooch", "filelock"},
    "import orthoframe.callbacks": LIGHTNING | {"sklearn", "matplotlib"},
    "from orthoframe.runs import read_run; from orthoframe.reporting import write_report; import io; "
    "write_report([read_run(RUN)], io.BytesIO())": LIGHTNING | {"matplotlib", "plotly"},
    "import orthoframe.sklearn": LIGHTNING | {"matplotlib"},
    # Fabric would load torchmetrics, and with it transformers, only to read its version.
    "import orthoframe.training; orthoframe.training.train": LIGHTNING,
}


def test_what_is_not_used_is_not_loaded(tmp_path):
    """Afterwards torchmetrics can be imported as ever."""
    folder = write_run(tmp_path / "run", counts=(4, 2), dim=4, epochs=1)
    lines = ["import sys, torch", f"RUN, before = {str(folder)!r}, set(sys.modules)"]  # torch has some for itself
    for step in STEPS:
        lines += [step, "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"]
    lines += ["import torchmetrics; assert issubclass(orthoframe.GeometryMetric, torchmetrics.Metric)"]
    done = run(sys.executable, "-c", "\n".join(lines))
    assert done.returncode == 0, done.stderr
    loaded = [set(line.split()) for line in done.stdout.splitlines()]
    assert [names & absent for names, absent in zip(loaded, STEPS.values(), strict=True)] == [set()] * len(STEPS)
    assert "lightning_fabric" in loaded[-1]


@pytest.mark.parametrize("verb", [None, *VERBS])
def test_help_loads_no_torch(verb):
    words = [] if verb is None else [verb]
    script = f"""
from orthoframe.cli import main
try:
    main({[*words, "--help"]!r})
except SystemExit:
    pass
"""
    loaded = loaded_by(script)
    assert not loaded & (HEAVY | {"torch"})
    verbs = {name for name in loaded if name.startswith("orthoframe.cli.") and "._" not in name}
    assert verbs == {f"orthoframe.cli.{word}" for word in words}
    if verb is None:
        assert "numpy" not in loaded


ELSEWHERE = """
import os, signal, sys
sys.modules |= dict.fromkeys(["fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"])
for module, names in {
    os: ["sched_getaffinity", "sysconf"],
    signal: ["SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "pthread_sigmask"],
}.items():
    for name in names:
        delattr(module, name)
"""
"""Makes a process as poor as one on Windows, as far as this can be had elsewhere."""


def test_nothing_is_needed_that_one_system_has(tmp_path):
    """All public names, and a run on image files, whose pixels are held if they fit into the memory."""
    for label in ("dark", "light"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(12):
            shade = 20 * number + 5 * (label == "light")
            Image.new("L", (8, 8), shade).save(tmp_path / "photos" / label / f"{number}.png")
    rooms = {room(path) for path in TREES} - {"__init__", "lightning", "transformers"}
    words = ["train", "--data", f"folder:{tmp_path / 'photos'}", "--recipe", "plain", "--width", "8", "--epochs", "1"]
    script = f"""
{ELSEWHERE}
import importlib
for name in ["", *{[f".{each}" for each in sorted(rooms)]!r}]:
    module = importlib.import_module("orthoframe" + name)
    for each in getattr(module, "__all__", ()):
        getattr(module, each)
from orthoframe.cli import main
sys.exit(main({[*words, "--out", str(tmp_path / "run")]!r}))
"""
    done = run(sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").exists()


def test_the_command_answers():
    command = Path(sys.executable).parent / "orthoframe"
    version = run(command, "--version")
    assert version.returncode == 0
    assert version.stdout.strip() == f"orthoframe {orthoframe.__version__}"
    help_text = run(command, "--help")
    assert help_text.returncode == 0
    assert "orthogonal frame" in " ".join(help_text.stdout.split())


def room(path):
    """The first folder or file under the package: `losses`, `options`, `lightning`."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree):
    """Every module of ours that a file imports, wherever in the file, as a list of words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1:] for alias in node.names if alias.name.startswith("orthoframe."))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "orthoframe":
                yield from ([alias.name] for alias in node.names if (SOURCE / f"{alias.name}.py").exists())
                yield from ([alias.name] for alias in node.names if (SOURCE / alias.name).is_dir())
            elif node.module.startswith("orthoframe."):
                yield node.module.split(".")[1:]


@pytest.mark.parametrize("here", sorted({room(path) for path in TREES} - {"cli", "__init__"}))
def test_imports_point_down(here):
    """Lazy imports and those for types too."""
    down = {here} | GROUND | ALLOWED.get(here, set())
    wrong = []
    for path in (path for path in TREES if room(path) == here):
        targets = imports(TREES[path])
        wrong += [f"{path.relative_to(SOURCE)} imports {'.'.join(words)}" for words in targets if words[0] not in down]
    assert wrong == []


@pytest.mark.parametrize("here", sorted({room(path) for path in TREES}))
def test_rooms_import_no_private_file_of_another(here):
    wrong = []
    for path in (path for path in TREES if room(path) == here):
        for words in imports(TREES[path]):
            if words[0] != here and any(word.startswith("_") for word in words[1:]):
                wrong.append(f"{path.relative_to(SOURCE)} imports {'.'.join(words)}")
    assert wrong == []


TESTS = {path: ast.parse(path.read_text()) for path in sorted(Path(__file__).parent.rglob("*.py"))}


@pytest.mark.parametrize("here", sorted({path.relative_to(Path(__file__).parent).parts[0] for path in TESTS}))
def test_tests_import_no_private_module_of_another_room(here):
    """`tests/losses` mirrors `losses`; files beside this one may know private modules of the ground floor."""
    wrong = []
    for path in (path for path in TESTS if path.relative_to(Path(__file__).parent).parts[0] == here):
        for words in private_modules(TESTS[path]):
            if words[0] != here and not (here.endswith(".py") and len(words) == 1):
                wrong.append(f"{path.relative_to(Path(__file__).parent)} imports {'.'.join(words)}")
    assert wrong == []


STUDIES = Path(__file__).parents[1] / "studies"


@pytest.mark.parametrize("path", sorted(STUDIES.rglob("*.py")), ids=lambda path: str(path.relative_to(STUDIES)))
def test_studies_import_no_private_module_of_the_library(path):
    """Nor do their tests: the laboratory is a user of the library."""
    assert list(private_modules(ast.parse(path.read_text()))) == []


def private_modules(tree):
    """Private modules of ours that a test imports, as lists of words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "orthoframe":
            base = node.module.split(".")[1:]
            folder = SOURCE.joinpath(*base)
            names = [name.name for name in node.names if (folder / f"{name.name}.py").exists()]
            modules = [[*base, name] for name in names] or [base]
        elif isinstance(node, ast.Import):
            modules = [name.name.split(".")[1:] for name in node.names if name.name.startswith("orthoframe.")]
        else:
            continue
        yield from (words for words in modules if any(word.startswith("_") for word in words))


def test_the_page_on_the_architecture_names_the_files_of_the_journeys(tmp_path):
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    journeys = page.partition("## Two journeys")[2].partition("## A run folder")[0]
    files = re.findall(r"`([\w/]+\.py)`", journeys)
    assert [name for name in files if not (SOURCE / name).exists()] == []
    train = set(re.findall(r"`([\w/]+\.py)`", journeys.partition("from the arguments to the report")[2]))
    assert f"from the arguments to the report, passes {len(train)} files" in journeys
    assert files_of(tmp_path, "train", "--majority", "24", "--width", "16", "--epochs", "2") == train


_TRACER = """
import sys
from orthoframe.cli import main

files, seen = set(), set()

def is_import(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" or frame.f_code.co_filename.startswith("<frozen importlib"):
            return frame.f_globals.get("__name__") != "__main__"
        frame = frame.f_back

def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code not in seen:
        if code.co_filename.startswith(sys.argv[1]) and code.co_name != "<module>" and is_import(frame):
            return
        seen.add(code)
        if code.co_name != "<module>":
            files.add(code.co_filename)

sys.setprofile(note)
main(sys.argv[2:])
sys.setprofile(None)
print("files", *files)
"""


def files_of(folder, *words):
    """The files of the library in which a function runs while the command does; what an import runs does not count."""
    done = run(sys.executable, "-c", _TRACER, str(SOURCE), *words, cwd=folder)
    paths = (Path(word) for word in done.stdout.splitlines()[-1].split()[1:])
    return {
        path.relative_to(SOURCE).as_posix() for path in paths if path.suffix == ".py" and path.is_relative_to(SOURCE)
    }


def test_the_command_line_lives_in_one_room():
    """No other room imports tyro, nor spells an option as it is typed; those of git are not ours."""
    wrong = []
    for path, tree in ((path, tree) for path, tree in TREES.items() if room(path) != "cli"):
        nodes = list(ast.walk(tree))
        calls = [node for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "git"]
        others = {id(word) for call in calls for word in call.args}
        for node in (node for node in nodes if id(node) not in others):
            where = f"{path.relative_to(SOURCE)}, line {getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                wrong += [f"{where}: tyro" for alias in node.names if alias.name.partition(".")[0] == "tyro"]
            elif isinstance(node, ast.ImportFrom):
                wrong += [f"{where}: tyro"] * ((node.module or "").partition(".")[0] == "tyro")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                wrong += [f"{where}: {option}" for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", node.value)]
    assert wrong == []


def test_names_are_nouns():
    """They say what a value is, and not when or from whom it became known."""
    vague, wrong = {"found", "given", "known", "own", "wanted", "told"}, []
    studies = {path: ast.parse(path.read_text()) for path in (STUDIES / "src").rglob("*.py")}
    for path, tree in {**TREES, **studies}.items():
        for node in ast.walk(tree):
            stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            name = node.id if stored else node.arg if isinstance(node, ast.arg) else ""
            wrong += [f"{path.name}, line {node.lineno}: {name}"] if name in vague else []
    assert wrong == []


def test_names_are_used_once():
    """No two classes share a name, and no file of a room differs from another by a plural."""
    classes = defaultdict(list)
    for path, tree in TREES.items():
        assert path.with_name(f"{path.stem}s.py") not in TREES, path
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(str(path))
    assert {name: where for name, where in classes.items() if len(where) > 1} == {}
