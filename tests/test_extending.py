"""One of everything that can be added, by an entry in its one table, is trained or run as those of the library are.

Where the names of a table are a Literal too, which the help of the command and type checkers need, the two agree.
"""

import json
import re
import sys
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args, get_type_hints

import numpy as np
import pytest
import torch
from PIL import Image

import orthoframe
from orthoframe import GeometryMetric, measure
from orthoframe.cli import VERBS, main
from orthoframe.data import PROFILES, READERS, DataParts, LabelledImages, Listing
from orthoframe.embedding import list_images
from orthoframe.encoders import ACTIVATIONS, ENCODERS, MLP, ActivationFunction, EncoderEntry, FrameHead
from orthoframe.geometry import MEASURES, Geometry
from orthoframe.options import DATA_KINDS, Activation, DataKind, Imbalance, Model, Recipe
from orthoframe.runs import GeometryMeasurement, read_run
from orthoframe.training import (
    OBJECTIVES,
    RECIPES,
    Criterion,
    EncoderSettings,
    ImageSettings,
    Objective,
    Ramp,
    RecipeValues,
    Settings,
    train,
    usual,
)

SOURCE = Path(__file__).parents[1] / "src" / "orthoframe"
SMALL = {"majority": 24, "ratio": 2.0, "width": 16, "epochs": 2, "batch_size": 32, "model": "mlp"}


@pytest.mark.parametrize(
    ("names", "table"),
    [(Activation, ACTIVATIONS), (Model, ENCODERS), (Imbalance, PROFILES), (Recipe, RECIPES)],
    ids=["activation", "encoder", "profile", "recipe"],
)
def test_a_literal_and_its_table_have_the_same_names(names, table):
    assert get_args(names) == tuple(table), "add the name to the Literal in options.py and to the table"


def test_kinds_of_data_and_readers_have_the_same_names():
    assert [kind for kind in DATA_KINDS if kind != "dataset"] == list(READERS)


def test_type_checkers_are_told_of_the_public_names_of_the_table():
    imports = re.findall(r"^    from orthoframe\.(\w+) import (\w+) as \2$", (SOURCE / "__init__.py").read_text(), re.M)
    assert {name for _, name in imports} == {*orthoframe.__all__} - {"__version__"}
    for room, name in imports:
        assert getattr(import_module(f"orthoframe.{room}"), name) is getattr(orthoframe, name)


def test_a_measure_is_a_field_of_a_geometry_and_of_the_record_of_a_run():
    geometry = measure(torch.eye(4), [0, 0, 1, 1])
    metric = GeometryMetric(2, 4)
    metric.update(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    recorded = {each.name for each in fields(GeometryMeasurement)}
    assert {*MEASURES} == {name for name, kind in get_type_hints(Geometry).items() if kind is float}
    assert {*MEASURES} == {*metric.compute()}
    assert {*MEASURES} <= recorded & {*geometry.to_dict()}, "add it to GeometryMeasurement in runs/_records.py"


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("softplus", {"options.py", "encoders/_frame_encoder.py"}),
        ("densenet40-half", {"options.py", "encoders/_networks.py"}),
        ("long-tail", {"options.py", "data/_imbalance.py"}),
        ("cifar100", {"options.py", "data/_sources.py", "data/_datasets.py"}),  # the last in the docstring of load_data
        ("fast", {"options.py", "training/_recipes.py"}),
        ("cdnv", {"geometry/_geometry.py", "runs/_records.py"}),
    ],
)
def test_a_choice_is_named_in_two_files(name, files):
    quoted = re.compile(rf"\b{name}: (?:float|Tensor)|[\"`']{name}[\"`'](?!:)|^    \"{name}\":", re.MULTILINE)
    naming = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if quoted.search(path.read_text())}
    assert naming <= files


def allow(monkeypatch, group, option, name):
    """Add a name to the Literal of an option, as one would in `options.py`."""
    kind = group.__annotations__[option]
    literal = next((each for each in (kind, *get_args(kind)) if name_of_literal(each)), kind)
    extended = Literal[(*get_args(literal), name)]
    monkeypatch.setitem(group.__annotations__, option, extended if literal is kind else extended | None)


def name_of_literal(kind):
    return getattr(kind, "__origin__", None) is Literal


def trained(folder, **options):
    """The result of a run of a second on digits, and what its folder says."""
    result = train(Settings.of(**{"recipe": "plain", **SMALL, **options}), folder / "run")
    return result, read_run(folder / "run")


def test_an_activation(monkeypatch, tmp_path):
    monkeypatch.setitem(ACTIVATIONS, "cubed", ActivationFunction(lambda rows: rows.relu() ** 3, nonnegative=True))
    allow(monkeypatch, EncoderSettings, "activation", "cubed")
    result, run = trained(tmp_path, activation="cubed")
    assert run.config["activation"] == "cubed"
    assert result.evaluation.geometry.means.min() >= 0
    assert FrameHead(activation="cubed").before_norm(torch.tensor([[-2.0, 3.0]])).tolist() == [[0.0, 27.0]]


def test_an_encoder(monkeypatch, tmp_path):
    def make(shape, width, last_relu):
        return MLP(shape, 2 * width, last_relu=last_relu)

    monkeypatch.setitem(ENCODERS, "double", EncoderEntry(make, 3, has_maps=False))
    allow(monkeypatch, EncoderSettings, "model", "double")
    result, run = trained(tmp_path, model="double", features=12)
    assert run.config["model"] == "double"
    assert run.epochs[-1].loss < run.epochs[0].loss
    assert result.evaluation.geometry.dim == 12


def test_a_profile_of_imbalance(monkeypatch, tmp_path):
    monkeypatch.setitem(PROFILES, "even-odd", lambda k, most, ratio: [int(most // ratio ** (c % 2)) for c in range(k)])
    allow(monkeypatch, ImageSettings, "imbalance", "even-odd")
    result, _ = trained(tmp_path, imbalance="even-odd")
    assert result.evaluation.geometry.counts == (24, 12) * 5


def test_a_reader_of_images(monkeypatch, tmp_path):
    def read(request):
        labels = torch.arange(60) % 3
        pixels = torch.zeros(60, 1, 4, 4, dtype=torch.uint8)
        pixels[torch.arange(60), 0, labels, 0] = int(request.path.name)
        return DataParts(parts={"train": LabelledImages(pixels, labels, ("a", "b", "c"))}, test_fraction=0.5)

    monkeypatch.setitem(READERS, "made", read)
    monkeypatch.setitem(DATA_KINDS, "made", DataKind(path="NUMBER", is_own=True))
    result, run = trained(tmp_path, data="made:200", majority=None, ratio=None, validation=0.0)
    assert run.config["data"].startswith("made:")
    assert result.evaluation.geometry.counts == (10, 10, 10)
    assert run.accuracy[0] == "test"


def test_a_reader_of_lists_of_image_files(monkeypatch, tmp_path):
    """It is trained and embedded as a folder is, sizes and streams included."""
    for number in range(40):
        Image.new("L", (6, 8), 200 * (number % 2)).save(tmp_path / f"{number}.png")

    def read(request):
        names = request.path.read_text().split()
        return Listing(
            paths=tuple(request.path.parent / name for name in names),
            labels=np.arange(len(names)) % 2,
            classes=("dark", "light"),
            parts={"train": np.arange(len(names))},
            divided=False,
            root=request.path.parent,
        )

    (tmp_path / "images.list").write_text("\n".join(f"{number}.png" for number in range(40)))
    name = f"list:{tmp_path / 'images.list'}"
    monkeypatch.setitem(READERS, "list", read)
    monkeypatch.setitem(DATA_KINDS, "list", DataKind(path="FILE", is_own=True, takes=DATA_KINDS["folder"].takes))
    _, run = trained(tmp_path, data=name, size=(8, 8), majority=None, ratio=None, memory=0.0)
    assert run.config["size"] == [8, 8]
    assert list_images([name]).names[:2] == ("0.png", "1.png")


@dataclass(frozen=True, kw_only=True, repr=False)
class Centres(Objective):
    """Squared distances to class means of the batch, and cosines between these means."""

    name = "centres"
    repulsion: float = usual(1.0, above=0)
    """Weight of the cosines."""

    def criterion(self, problem):
        def loss(rows, labels):
            onehot = torch.nn.functional.one_hot(labels, problem.num_classes).to(rows)
            means = onehot.T @ rows / onehot.sum(0).clamp(min=1)[:, None]
            return (rows - onehot @ means).square().sum(1).mean() + self.repulsion * (means @ means.T).triu(1).mean()

        return Criterion(loss, problem)


def test_an_objective_is_a_loss_of_the_command_with_options_of_its_own(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(OBJECTIVES, "centres", Centres)
    monkeypatch.chdir(tmp_path)
    words = "--loss centres --repulsion 2 --majority 24 --width 16 --epochs 2 --out run"
    assert main(["train", *words.split()]) in (0, 1), capsys.readouterr().err
    config = json.loads(Path("run/config.json").read_text())
    assert (config["loss"], config["repulsion"]) == ("centres", 2.0)
    assert (tmp_path / "run" / "report.html").exists()


def test_a_recipe(monkeypatch, tmp_path):
    values = RecipeValues("a test", {"scheme": "balanced", "margin": Ramp(0.0, 0.3), "majority": 24, "width": 16})
    monkeypatch.setitem(RECIPES, "tiny", values)
    result = train(Settings.of(recipe="tiny", epochs=1), tmp_path / "run")
    assert result.settings.batches.scheme == "balanced"
    assert result.settings.objective.margin == Ramp(0.0, 0.3)
    assert max(result.evaluation.geometry.counts) == 24


@dataclass(frozen=True)
class HelloCommand:
    """Greet."""

    name: str = "world"
    """Who is greeted."""

    def run(self):
        print(f"hello {self.name}")
        return 0


def test_a_verb(monkeypatch, capsys):
    module = ModuleType("orthoframe.cli.hello")
    module.HelloCommand = HelloCommand
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(VERBS, "hello", "Greet.")
    assert main(["hello", "--name", "frame"]) == 0
    assert capsys.readouterr().out == "hello frame\n"


def test_every_verb_is_a_file_of_its_name():
    assert all((SOURCE / "cli" / f"{verb}.py").exists() for verb in VERBS)
