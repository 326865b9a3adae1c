"""Plans and steps of the page: batches that hold what they should, and steps that never raise the loss."""

from itertools import chain

import numpy as np
import pytest
from tests.browser import needs_browser

from orthoframe import certify

pytestmark = needs_browser
SIZES = [9, 6, 4, 1]
PLANS = """
const [sizes, batchSize, seed] = arguments;
const of = (plan, epoch) => orthoframe.batchesOf(sizes, {plan, batchSize, seed}, epoch);
return {full: of("full", 0), partition: of("partition", 0), later: of("partition", 7), bound: of("bound", 3),
        epochs: [0, 1, 2].map((epoch) => of("reshuffle", epoch))};
"""
STEPS = """
const [settings, steps] = arguments;
const run = new orthoframe.Run({...orthoframe.DEFAULTS, ...settings});
const found = [];
for (let i = 0; i < steps && !run.resting; i++) {
  const {loss, objective} = run;
  run.advance();
  found.push({before: loss, after: objective.evaluate(run.rows).value});
}
return {found, rows: [...run.rows.values], gap: run.loss - run.floor, resting: run.resting,
        delta: run.measure().delta, sentence: run.certificate.sentence, epoch: run.epoch, batches: run.scanned};
"""


@pytest.fixture
def browser(opened):
    return opened("#preset=1")


@pytest.mark.parametrize("seed", [0, 1, 7])
@pytest.mark.parametrize("size", [2, 5, 20])
def test_batches_of_plans(browser, seed, size):
    plans = browser.execute_script(PLANS, SIZES, size, seed)
    samples = list(range(sum(SIZES)))
    assert plans["full"] == [samples]
    for batches in (plans["partition"], *plans["epochs"]):
        assert sorted(chain.from_iterable(batches)) == samples
        assert {len(batch) for batch in batches[:-1]} <= {size}
        assert 0 < len(batches[-1]) <= size
    assert plans["later"] == plans["partition"]
    assert len({str(batches) for batches in plans["epochs"]}) == 3
    classes = np.repeat(np.arange(len(SIZES)), SIZES)
    examples = {tuple(batch[-len(SIZES) :]) for batch in plans["bound"]}
    assert len(examples) == 1
    assert classes[list(examples.pop())].tolist() == [0, 1, 2, 3]
    assert [batch[: -len(SIZES)] for batch in plans["bound"]] == plans["partition"]


@pytest.mark.parametrize("loss", ["contrastive", "frame"])
@pytest.mark.parametrize("plan", ["full", "reshuffle", "bound"])
@pytest.mark.parametrize("relu", [True, False])
def test_a_step_never_raises_the_loss(browser, loss, plan, relu):
    settings = {"sizes": SIZES, "loss": loss, "plan": plan, "relu": relu, "batchSize": 5, "temperature": 0.2}
    run = browser.execute_script(STEPS, settings, 100)
    for step in run["found"]:
        assert step["after"] <= step["before"] + 1e-12 * (1 + abs(step["before"]))
    rows = np.array(run["rows"]).reshape(sum(SIZES), -1)
    assert np.abs(np.linalg.norm(rows, axis=1) - 1).max() < 1e-12
    assert (rows.min() >= 0) == relu
    if relu:
        assert run["gap"] > -1e-12


def test_reshuffled_batches_are_certified_together(browser):
    settings = {"sizes": [8, 8, 8], "plan": "reshuffle", "batchSize": 6}
    labels = np.repeat(list("ABC"), 8)
    sentences = set()
    for steps in range(5):
        run = browser.execute_script(STEPS, settings, steps)
        assert run["sentence"] == certify(labels, run["batches"]).sentence()
        sentences.add(run["sentence"])
    assert len(sentences) > 1
    assert run["sentence"].startswith("Certified")


@pytest.mark.parametrize("way", ["steps", "link"])
def test_the_certificate_does_not_depend_on_the_loss_of_earlier_steps(browser, way):
    """The frame term's holds after one epoch, and the batches of the others count for the contrastive loss."""
    script = """
    const [way, loss] = arguments;
    const settings = {...orthoframe.DEFAULTS, sizes: [6, 6, 6], plan: "reshuffle", batchSize: 3, seed: 3, loss};
    const run = new orthoframe.Run(settings);
    if (way === "link") run.resume(run.rows, 40, 40);
    else for (let i = 0; i < 40; i++) run.advance();
    const {holds} = run.certificate;
    run.change({...settings, loss: "contrastive"});
    return {holds, epoch: run.epoch, sentence: run.certificate.sentence, scanned: run.scanned};
    """
    changed, throughout = (browser.execute_script(script, way, loss) for loss in ("frame", "contrastive"))
    assert changed == throughout
    assert changed["holds"]
    assert changed["epoch"] == 40
    assert changed["sentence"] == certify(np.repeat(list("ABC"), 6), changed["scanned"]).sentence()
    assert changed["sentence"].startswith("Certified")


def test_a_step_makes_no_certificate(browser):
    """Its sentence takes tens of milliseconds where many batches are of a single class; whether it holds is known."""
    script = """
    const sizes = [80, 40, 30, 20, 20, 10];
    const run = new orthoframe.Run({...orthoframe.DEFAULTS, sizes, plan: "reshuffle", batchSize: arguments[0]});
    const {certify} = orthoframe;
    let made = 0;
    orthoframe.certify = (...given) => { made++; return certify(...given); };
    const held = [];
    for (let i = 0; i < 10; i++) { run.advance(); held.push(run.holds); }
    return [made, held.at(-1) === run.certificate.holds, held.at(-1), run.certificate === run.certificate, made];
    """
    assert browser.execute_script(script, 2) == [0, True, False, True, 1]
    browser.refresh()
    assert browser.execute_script(script, 20) == [0, True, True, True, 1]


def test_a_link_to_an_epoch_far_away_opens(opened):
    rows = "AACAPwAAAAAAAAAA" * 6  # of batches of two, which push no pair of classes apart in any epoch
    browser = opened(f"#sizes=2.2.2&plan=reshuffle&batchSize=2&step=5&epoch=1000000000&rows={rows}")
    assert browser.find_element("id", "certificate-note").text == "Over 20000 epochs."
    assert browser.find_element("id", "step-value").text == "5"


def test_classes_that_merge_are_told(opened):
    # Two small classes on one axis: a saddle that non-negative features in as many dimensions as classes do not leave.
    from selenium.webdriver.support.ui import WebDriverWait

    browser = opened("#sizes=40.4.4&temperature=0.5&seed=1&speed=64")
    browser.find_element("id", "play").click()
    status = browser.find_element("id", "status")
    WebDriverWait(browser, 60, 0.1).until(lambda _: "At rest" in status.text)
    assert "At rest above the floor" in status.text
    assert "classes have merged. A smaller temperature or another seed avoids it." in status.text
    cosines = browser.execute_script("return orthoframe.currentRun().measure().cosines")
    assert cosines[1][2] == pytest.approx(1)
    rest = browser.execute_script(STEPS, {"sizes": [40, 4, 4], "temperature": 0.2, "seed": 1, "relu": True}, 1500)
    assert rest["delta"] < 1e-6  # as it says
