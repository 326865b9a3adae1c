"""A run folder, read for its report."""

import io
import json

from tests.fuzz.mutations import choice, mutated, mutated_json
from tests.fuzz.runs import copied, small_run

from orthoframe.errors import InputError
from orthoframe.reporting import write_report
from orthoframe.runs import read_run

REFUSALS = (InputError,)
WEIGHT = 10
_FILES = ("config.json", "metrics.csv", "geometry.jsonl", "certificate.json", "verdict.json", "run.json")
_WRITTEN = 0.05  # of the reports, which take longest


def prepare(folder):
    return small_run(folder)


def make(random, run, folder):
    name = choice(random, _FILES)
    broken = copied(run, folder / "broken", [other for other in _FILES if other != name])
    data = (run / name).read_bytes()
    if name.endswith(".json"):
        data = mutated_json(random, json.loads(data)).encode()
    elif name.endswith(".jsonl"):
        lines = data.splitlines()
        lines[0] = mutated_json(random, json.loads(lines[0])).encode()
        data = b"\n".join(lines)
    if name.endswith(".csv") or random.random() < 0.2:
        data = mutated(random, data, b"1,2\n")
    (broken / name).write_bytes(data)
    return broken, random.random() < _WRITTEN


def read(given):
    folder, written = given
    run = read_run(folder)
    assert run.epochs
    if written:
        page = io.BytesIO()
        write_report([run], page)
        assert page.getvalue().rstrip().endswith(b"</html>")
