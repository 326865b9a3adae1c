"""The report in a browser: it draws, its slider moves, and it asks for nothing and complains of nothing."""

import numpy as np
import pytest
from tests.browser import check_quiet, needs_browser, resize, start

from orthoframe.reporting import write_report
from orthoframe.runs import read_run
from run_folders import BAD, write_run

pytestmark = needs_browser

# Names of pictures that are not drawn, or not as wide as their element.
UNFITTING = """
return [...document.querySelectorAll(".plot")].filter(plot => {
  const drawn = plot.querySelector(".main-svg");
  return !drawn || Math.abs(drawn.getBoundingClientRect().width - plot.clientWidth) > 1;
}).map(plot => plot.id)
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    names = ["<b>bold</b>", "$\\frac$", *(f"class number {c}" for c in range(8))]
    tail = tuple(max(1, int(40 * 0.96**c)) for c in range(100))
    return {
        "good": read_run(write_run(root / "good", epochs=20, names=names)),
        "bad": read_run(write_run(root / "bad", epochs=9, nonnegative=False, verdict=BAD)),
        "slow": read_run(write_run(root / "slow", epochs=9, rate=0.02, temperature="0.5")),
        "many": read_run(write_run(root / "many", counts=tail, dim=128, epochs=6, every=3)),
        "one": read_run(write_run(root / "one", counts=(9, 1), dim=4, epochs=1, loss="cross-entropy")),
    }


def show(browser, tmp_path, runs):
    resize(browser, 1280)
    write_report(runs, tmp_path / "report.html")
    browser.get((tmp_path / "report.html").as_uri())


def cosines(browser):
    return browser.execute_script("return document.getElementById('plot-cosines').data[0].z")


def heading(browser):
    return browser.find_element("css selector", "#plot-cosines .gtitle").text


def test_the_slider_moves_the_heat_map(browser, tmp_path, runs):
    from selenium.webdriver import ActionChains

    run = runs["good"]
    show(browser, tmp_path, [run])
    assert np.allclose(cosines(browser), run.measurements[-1].train.cosines, atol=1e-4)
    assert heading(browser).startswith("Epoch 20:")
    plot = browser.find_element("id", "plot-cosines")
    browser.execute_script("arguments[0].scrollIntoView()", plot)
    rail = plot.find_element("css selector", ".slider-rail-touch-rect")
    grip = plot.find_element("css selector", ".slider-grip-rect")
    before = grip.location["x"]
    ActionChains(browser).click_and_hold(grip).move_by_offset(-rail.size["width"], 0).release().perform()
    assert heading(browser).startswith("Epoch 1:")
    assert np.allclose(cosines(browser), run.measurements[0].train.cosines, atol=1e-4)
    assert grip.location["x"] < before
    # A click in the middle goes to the middle of the five epochs.
    ActionChains(browser).move_to_element(rail).click().perform()
    middle = run.measurements[len(run.measurements) // 2]
    assert heading(browser).startswith(f"Epoch {middle.epoch}:")
    assert np.allclose(cosines(browser), middle.train.cosines, atol=1e-4)
    ticks = [tick.text for tick in plot.find_elements("css selector", ".ytick text")]
    assert {"<b>bold</b> (100)", "$\\frac$ (100)", "class number 7 (10)"} <= set(ticks)
    check_quiet(browser)


@pytest.mark.parametrize("chosen", [["many"], ["one"], ["good", "bad", "slow"]], ids="+".join)
def test_every_picture_is_drawn_within_the_page(browser, tmp_path, runs, chosen):
    from selenium.webdriver.support.ui import WebDriverWait

    show(browser, tmp_path, [runs[name] for name in chosen])
    for width in (1280, 700):
        resize(browser, width)
        # A picture follows the width of its element in its own time.
        WebDriverWait(browser, 10, 0.05).until(lambda _: browser.execute_script(UNFITTING) == [])
        assert browser.execute_script("return document.documentElement.scrollWidth") == width
    check_quiet(browser)
