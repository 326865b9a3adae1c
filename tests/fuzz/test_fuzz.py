"""A few hundred hostile inputs for every reader, and for the library's calls, with 512 MiB; `make fuzz` tries more."""

import pytest
from tests.fuzz import extremes
from tests.fuzz.cases import TARGETS
from tests.fuzz.running import parts_of, run_parts

CASES = {"options": 100, "resumed": 10, "run": 150, "extremes": extremes.COUNT}
"""Of the slow ones; the others have 300."""


@pytest.mark.parametrize("target", TARGETS)
def test_hostile_inputs_are_refused_in_a_sentence_or_read_rightly(target):
    failures = run_parts(parts_of(target, 0, CASES.get(target, 300)), processes=1)
    assert not failures, "\n".join(f"{failure.kind}: {failure.replay}" for failure in failures)
