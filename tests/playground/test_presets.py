"""Every step of the story shows what its text says."""

import math
import re

import numpy as np
import pytest
from tests.browser import needs_browser

from orthoframe import certify, predict_gram

pytestmark = needs_browser
FRAMES = 60  # a second

# Runs a preset from its start; `changes` are [step, settings], and what is measured is returned at the steps asked for.
RUN = """
const [number, changes, asked] = arguments;
const {settings} = orthoframe.PRESETS[number];
const run = new orthoframe.Run(settings);
const measured = () => {
  const {delta, cosines} = run.measure();
  const {values, dim} = orthoframe.classMeans(run.rows, run.classes, run.k);
  const lengths = Array.from({length: run.k}, (_, c) => Math.sqrt(orthoframe.dot(values, c, values, c, dim)));
  return {delta, cosines, lengths, step: run.step, loss: run.loss, floor: run.floor, resting: run.resting};
};
const found = [];
for (let step = 0; step <= Math.max(...asked); step++) {
  for (const [at, change] of changes) if (at === step) run.change({...settings, ...change});
  if (asked.includes(step)) found.push(measured());
  run.advance();
}
return found;
"""
FACTS = """
const {settings, title, text} = orthoframe.PRESETS[arguments[0]];
const run = new orthoframe.Run(settings);
return {settings, title, text, classes: run.classes, batches: run.batches, rows: [...run.rows.values],
        holds: run.certificate.holds, sentence: run.certificate.sentence, pieces: run.certificate.pieces};
"""


@pytest.fixture
def browser(opened):
    return opened("#preset=1")


def run(browser, number, asked, *changes):
    return browser.execute_script(RUN, number - 1, list(changes), asked)


def facts(browser, number):
    return browser.execute_script(FACTS, number - 1)


def largest_cosine(state):
    cosines = np.array(state["cosines"])
    return float((cosines - np.eye(len(cosines))).max())


def test_there_are_six_of_two_sentences_each(browser):
    assert browser.execute_script("return orthoframe.PRESETS.length") == 6
    for number in range(1, 7):
        text = re.sub(r"<[^>]*>", "", facts(browser, number)["text"])
        assert len(re.findall(r"\.(?:\s|$)", text)) == 2, text


def test_1_balanced_classes_end_at_the_frame(browser):
    (state,) = run(browser, 1, [4 * FRAMES])
    assert state["loss"] == pytest.approx(state["floor"], abs=1e-9)
    assert state["delta"] < 1e-6
    assert facts(browser, 1)["holds"]


def test_2_small_classes_crowd_without_relu(browser):
    (state,) = run(browser, 2, [2000])
    sizes = facts(browser, 2)["settings"]["sizes"]
    assert sizes == [40, 4, 4]
    cosine = state["cosines"][1][2]
    assert math.degrees(math.acos(cosine)) == pytest.approx(62, abs=0.6)
    gram = predict_gram(sizes, temperature=1.0)
    assert np.abs(np.array(state["cosines"]) - gram.numpy()).max() < 1e-3  # the optimum, and not a station on the way
    assert float(predict_gram([16, 16, 16], temperature=1.0)[1, 2]) == pytest.approx(-0.5)
    assert float(predict_gram([40, 2, 2], temperature=1.0)[1, 2]) > cosine
    assert state["loss"] < state["floor"]


def test_3_with_relu_they_do_not(browser):
    (state,) = run(browser, 3, [1000])
    assert largest_cosine(state) < 1e-6
    assert state["delta"] < 1e-6
    assert state["loss"] == pytest.approx(state["floor"], abs=1e-9)
    before, after = facts(browser, 2)["settings"], facts(browser, 3)["settings"]
    assert {name for name in before if before[name] != after[name]} == {"relu"}


def test_4_a_partition_reaches_the_floor_and_no_frame(browser):
    start = facts(browser, 4)
    certificate = certify(np.array(list("ABC"))[start["classes"]], start["batches"])
    assert not start["holds"]
    assert start["sentence"] == certificate.sentence()
    assert start["pieces"] == [3, 3, 3]
    (state,) = run(browser, 4, [1000])
    assert state["loss"] == pytest.approx(state["floor"], abs=1e-9)
    assert state["delta"] > 0.5


def test_5_binding_the_same_partition_from_the_same_start_mends_it(browser):
    before, after = facts(browser, 4), facts(browser, 5)
    assert after["rows"] == before["rows"]
    for part, batch in zip(before["batches"], after["batches"], strict=True):
        assert batch[: len(part)] == part
        assert [after["classes"][sample] for sample in batch[len(part) :]] == [0, 1, 2]
    assert len({tuple(batch[-3:]) for batch in after["batches"]}) == 1
    assert after["holds"]
    assert certify(after["classes"], after["batches"]).holds
    (state,) = run(browser, 5, [400])
    assert state["delta"] < 1e-6
    assert state["loss"] == pytest.approx(state["floor"], abs=1e-9)


def test_6_temperature_and_margin_change_the_speed_and_not_the_end(browser):
    assert facts(browser, 6)["settings"]["speed"] == 1
    second, later = run(browser, 6, [FRAMES, 20 * FRAMES])
    assert min(second["lengths"]) > 0.99  # gathered
    assert later["delta"] > 0.3  # after 20 seconds
    for change in ({"temperature": 0.5}, {"margin": 0.5}):
        _, end = run(browser, 6, [300, 300 + 8 * FRAMES], [300, change])
        assert end["delta"] < 0.01, change
        assert largest_cosine(end) < 0.01, change
