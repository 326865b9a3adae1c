"""The results of a study as JSON, read for its page."""

import json

from tests import study_results
from tests.fuzz.mutations import mutated, mutated_json

from orthoframe.errors import InputError
from orthoframe.reporting import write_study_page
from orthoframe.studies import read_result, write_result

REFUSALS = (InputError,)
WEIGHT = 25
_WRITTEN = 0.02  # of the pages, which take longest


def prepare(folder):
    def made(where, random, seed):
        final = {"delta_of": 0.01 + where["ratio"] * random.random() / 1000, "epochs_to_of": None}
        return study_results.result(final, {"epoch": [1, 10], "delta_of": [0.5, final["delta_of"]]})

    cells = study_results.cells({"ratio": [1, 10]}, made)
    parts = [study_results.comparison(cell.where, 0.02, 0.01, 0.03) for cell in cells]
    found = study_results.finding("It is near.", parts)
    panels = [study_results.panel("delta_of", "ratio"), study_results.panel("delta_of", "epoch", ["ratio"])]
    write_result(study_results.study("geometry", cells, panels, [found]), folder / "valid.json")
    return json.loads((folder / "valid.json").read_text())


def make(random, valid, folder):
    data = mutated_json(random, valid).encode()
    if random.random() < 0.2:
        data = mutated(random, data, b'{"study": 3}')
    path = folder / "study.json"
    path.write_bytes(data)
    return path, random.random() < _WRITTEN


def read(given):
    path, written = given
    result = read_result(path)
    assert result.decision
    if written:
        write_study_page([result], path.with_suffix(".html"))
