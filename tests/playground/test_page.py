"""The page itself: it runs from disk, can be used with mouse, keyboard and screen reader, and its links work."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.browser import check_quiet, needs_browser

pytestmark = needs_browser
FOLDER = Path(__file__).parents[2] / "docs" / "playground"
MANY = "sizes=80.40.30.20.20.10"  # 200 points
STATE = """
const run = orthoframe.currentRun();
return {rows: [...run.rows.values], step: run.step, epoch: run.epoch, settings: run.settings, batches: run.batches,
        sentence: run.certificate.sentence, view: orthoframe.state.view, playing: orthoframe.state.playing};
"""
COLOURS = """
const style = getComputedStyle(document.documentElement);
return Object.fromEntries(arguments[0].map((name) => [name, style.getPropertyValue("--" + name).trim()]));
"""

# How many pixels of a canvas have a colour, or nearly.
PIXELS = """
const canvas = document.getElementById(arguments[0]);
const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
let count = 0;
for (let i = 0; i < data.length; i += 4)
  if (data[i + 3] > 128 && arguments[1].every((part, m) => Math.abs(data[i + m] - part) < 12)) count++;
return count;
"""


def state(browser):
    return browser.execute_script(STATE)


def warnings_in(browser, canvas):
    """The pixels of a canvas in the colour of warnings."""
    colour = browser.execute_script(COLOURS, ["warn"])["warn"]
    return browser.execute_script(PIXELS, canvas, [int(colour[i : i + 2], 16) for i in (1, 3, 5)])


def text(browser, name):
    return browser.find_element("id", name).text


def click(browser, name):
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", browser.find_element("id", name))
    browser.find_element("id", name).click()


def until(browser, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 60, 0.05).until(condition)


def chip(browser, sample):
    return browser.find_element("css selector", f'#batches .chip[data-sample="{sample}"]')


def put_in_view(browser, name):
    browser.execute_script("document.getElementById(arguments[0]).scrollIntoView({block: 'center'})", name)


def test_it_starts_by_itself_and_comes_to_rest(opened):
    browser = opened()
    until(browser, lambda _: not state(browser)["playing"] and state(browser)["step"] > 0)
    assert text(browser, "status").startswith("The loss is at its floor")
    assert text(browser, "delta-value") == "0"
    assert text(browser, "loss-value") == text(browser, "floor-value")
    assert text(browser, "verdict") == "✓ certified"
    files = ["playground.css", *re.findall(r'src="(\w+\.js)"', (FOLDER / "index.html").read_text())]
    assert sorted(files) == sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".js", ".css"))
    check_quiet(browser, files)


def test_every_preset_can_be_clicked(opened):
    browser = opened("#preset=1")
    for number, button in enumerate(browser.find_elements("css selector", "#presets button"), start=1):
        button.click()
        assert text(browser, "story-title").startswith(f"{number}. ")
        assert button.get_attribute("aria-current") == "step"
        assert state(browser)["playing"]
        until(browser, lambda _: state(browser)["step"] > 3)
        click(browser, "play")
        assert not state(browser)["playing"]
    assert browser.get_log("browser") == []


def test_a_story_that_was_changed_says_so(opened):
    """By a control, by an edit of the batches and by a repair; links to it do not name the step."""
    from selenium.webdriver import Keys

    def move_a_sample():
        chip(browser, state(browser)["batches"][0][0]).send_keys(Keys.DELETE)

    def address():
        click(browser, "copy")
        return browser.current_url.partition("#")[2]

    def mend():
        click(browser, "repair")

    def warm():
        browser.find_element("id", "temperature").send_keys(Keys.END)

    for change, words in (
        (mend, "You changed batches;"),
        (move_a_sample, "You changed batches;"),
        (warm, "You changed temperature;"),
    ):
        browser = opened("#preset=4")
        assert not browser.find_element("id", "changed").is_displayed()
        assert not browser.find_element("id", "back").is_displayed()
        browser.find_element("id", "speed").send_keys(Keys.END)  # of which the story tells nothing
        assert "preset=4" in address()
        place = browser.find_element("id", "temperature").rect
        change()
        assert browser.find_element("id", "temperature").rect == place  # nothing moves under the reader's hand
        assert text(browser, "changed").startswith(words)
        assert browser.find_elements("css selector", "#presets [aria-current]") == []
        assert "preset=" not in (changed := address())
        click(browser, "back")
        assert not browser.find_element("id", "changed").is_displayed()
        assert browser.find_element("css selector", "#presets [aria-current]").text.startswith("4 ")
        assert "preset=4" in address()
        assert text(opened("#" + changed), "story-title") == "Your own"
    click(browser, "relu")  # a state of nobody's story has nothing to go back to
    assert not browser.find_element("id", "back").is_displayed()


def test_steps_and_reset(opened):
    browser = opened("#preset=3")
    start = state(browser)
    for _ in range(3):
        click(browser, "one")
    assert state(browser)["step"] == 3
    assert state(browser)["rows"] != start["rows"]
    assert text(browser, "status").startswith("Step 3: loss")
    click(browser, "reset")
    assert state(browser)["rows"] == start["rows"]


def test_witness_and_repair(opened):
    browser = opened("#preset=4")
    assert text(browser, "verdict") == "✕ not certified"
    click(browser, "witness")
    assert "its loss is at the floor (gap 0)" in text(browser, "status")
    assert float(text(browser, "delta-value")) > 0.01
    assert "ringed points lean" in text(browser, "caption")
    click(browser, "one")  # nothing moves it
    assert text(browser, "gap-value") == "0"
    click(browser, "repair")
    assert text(browser, "status") == "6 rows added to the batches."
    assert text(browser, "sentence").startswith("Certified:")
    assert text(browser, "verdict") == "✓ certified"
    assert not browser.find_element("id", "witness").is_enabled()
    assert not browser.find_element("id", "repair").is_enabled()
    assert state(browser)["settings"]["plan"] == "edited"
    click(browser, "play")
    until(browser, lambda _: not state(browser)["playing"])
    assert float(text(browser, "delta-value").replace("\N{MINUS SIGN}", "-")) < 1e-6


def test_a_sample_is_moved_with_the_mouse(opened):
    from selenium.webdriver import ActionChains, Keys

    browser = opened("#preset=4")
    put_in_view(browser, "batches")
    before = state(browser)["batches"]
    sample = min(before[0])
    lists = browser.find_elements("css selector", "#batches .batch")
    ActionChains(browser).drag_and_drop(chip(browser, sample), lists[1]).perform()
    after = state(browser)["batches"]
    assert [sorted(batch) for batch in after[:2]] == [sorted(set(before[0]) - {sample}), sorted([*before[1], sample])]
    assert text(browser, "status") == f"Sample {sample} moved to batch 2."
    # With Shift it is copied; two clicks do without dragging.
    other = min(after[0])
    chip(browser, other).click()
    assert chip(browser, other).get_attribute("aria-pressed") == "true"
    fresh = browser.find_element("css selector", "#batches .new .number")
    ActionChains(browser).key_down(Keys.SHIFT).click(fresh).key_up(Keys.SHIFT).perform()
    assert state(browser)["batches"] == [*after, [other]]


def test_a_sample_is_moved_with_a_finger(opened):
    from selenium.webdriver.common.actions.action_builder import ActionBuilder
    from selenium.webdriver.common.actions.pointer_input import PointerInput

    browser = opened("#preset=4", width=390, height=844, mobile=True)
    put_in_view(browser, "batches")
    before, top = state(browser)["batches"], browser.execute_script("return scrollY")
    sample = min(before[0])
    finger = ActionBuilder(browser, mouse=PointerInput("touch", "finger"), duration=50)
    pointer = finger.pointer_action
    pointer.move_to(chip(browser, sample)).pointer_down().pause(0.5)
    pointer.move_to(browser.find_elements("css selector", "#batches .batch")[1]).pointer_up()
    finger.perform()
    assert sorted(state(browser)["batches"][1]) == sorted([*before[1], sample])
    assert browser.execute_script("return scrollY") == top


def test_a_sample_is_moved_with_the_keyboard(opened):
    from selenium.webdriver import ActionChains, Keys

    def press(*keys):
        for key in keys:
            ActionChains(browser).send_keys(key).perform()

    browser = opened("#preset=4")
    before = state(browser)["batches"]
    first = browser.find_element("css selector", "#batches .chip[tabindex='0']")
    browser.execute_script("arguments[0].focus()", first)
    press(Keys.ARROW_RIGHT)
    held = browser.switch_to.active_element
    sample = int(held.get_attribute("data-sample"))
    assert held.accessible_name == f"sample {sample}, class A, batch 1"
    press(Keys.ENTER, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert text(browser, "status") == "Batch 3."
    press(Keys.ENTER)
    after = state(browser)["batches"]
    assert sorted(after[2]) == sorted([*before[2], sample])
    assert browser.switch_to.active_element.get_attribute("class").startswith("chip")  # the focus stays in the list
    press(Keys.ENTER, Keys.ARROW_DOWN, Keys.ESCAPE)
    assert state(browser)["batches"] == after
    gone = int(browser.switch_to.active_element.get_attribute("data-sample"))
    press(Keys.DELETE)
    assert f"sample {gone} is in no batch" in text(browser, "sentence")


def test_controls_change_the_run(opened):
    from selenium.webdriver import Keys
    from selenium.webdriver.support.ui import Select

    browser = opened("#preset=1")
    Select(browser.find_element("id", "classes")).select_by_value("6")
    assert state(browser)["settings"]["sizes"] == [10] * 6
    assert len(browser.find_elements("css selector", "#cosines tr")) == 7
    size = browser.find_elements("css selector", "#sizes input")[5]
    size.send_keys(Keys.CONTROL, "a")
    size.send_keys("500", Keys.TAB)
    assert state(browser)["settings"]["sizes"][5] == 150  # as many as there is room for
    Select(browser.find_element("id", "loss")).select_by_value("frame")
    assert "the frame term has a unique optimum for every sample" in text(browser, "sentence")
    Select(browser.find_element("id", "plan")).select_by_value("reshuffle")
    click(browser, "relu")
    assert text(browser, "verdict") == "does not apply without ReLU"
    browser.find_element("id", "temperature").send_keys(Keys.HOME)
    browser.find_element("id", "margin").send_keys(Keys.END)
    settings = state(browser)["settings"]
    assert (settings["temperature"], settings["margin"], settings["relu"]) == (0.05, 1, False)
    click(browser, "one")
    assert np.isfinite(state(browser)["rows"]).all()
    assert browser.get_log("browser") == []


def test_plan_batch_size_seed_and_speed(opened):
    from selenium.webdriver import Keys
    from selenium.webdriver.support.ui import Select

    def write(name, value):
        field = browser.find_element("id", name)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(value, Keys.TAB)

    def sizes():
        return [len(batch) for batch in state(browser)["batches"]]

    browser = opened("#preset=4")
    start = state(browser)
    assert sizes() == [8, 8, 8]
    write("batch-size", "6")
    assert sizes() == [6, 6, 6, 6]
    write("batch-size", "1")  # the fewest that can be compared
    assert sizes() == [2] * 12
    write("batch-size", "8")
    for plan, expected in (("bound", [11, 11, 11]), ("full", [24]), ("reshuffle", [8, 8, 8]), ("partition", [8, 8, 8])):
        Select(browser.find_element("id", "plan")).select_by_value(plan)
        assert sizes() == expected
        assert browser.find_element("id", "batch-size").is_enabled() == (plan != "full")
    click(browser, "one")
    write("seed", "5")
    assert state(browser)["step"] == 0
    assert state(browser)["rows"] != start["rows"]
    write("seed", str(start["settings"]["seed"]))
    assert state(browser)["rows"] == start["rows"]
    assert state(browser)["batches"] == start["batches"]
    for key, speed, words in ((Keys.HOME, 0.25, "1 step in 4 frames"), (Keys.END, 64, "64 steps per frame")):
        browser.find_element("id", "speed").send_keys(key)
        assert browser.execute_script("return orthoframe.state.settings.speed") == speed
        assert text(browser, "speed-value") == words
    assert browser.get_log("browser") == []


def test_the_sphere_is_turned_with_the_mouse(opened):
    from selenium.webdriver import ActionChains

    picture = "return document.getElementById('sphere').toDataURL()"
    browser = opened("#preset=1")
    put_in_view(browser, "sphere")
    view, before = state(browser)["view"], browser.execute_script(picture)
    ActionChains(browser).drag_and_drop_by_offset(browser.find_element("id", "sphere"), 60, 30).perform()
    assert state(browser)["view"] == pytest.approx({"yaw": view["yaw"] - 0.4, "pitch": view["pitch"] + 0.2}, abs=0.01)
    assert browser.execute_script(picture) != before


@pytest.mark.parametrize("classes", ["10.10.10", "10.10.10&relu=0", "50.50.50.50", "80.40.30.20.20.10"])
@pytest.mark.parametrize("width", [1100, 1280, 1900])
def test_the_matrix_is_beside_the_points(opened, classes, width):
    covered = """
    const canvas = document.getElementById("sphere");
    const boxes = [document.getElementById("cosines"), canvas].map((element) => element.getBoundingClientRect());
    const [table, place] = boxes;
    const [x, y] = [table.left - place.left, table.top - place.top];
    const {data} = canvas.getContext("2d").getImageData(x, y, table.width, table.height);
    return data.some((part, i) => i % 4 === 3 && part > 0);
    """
    browser = opened(f"#sizes={classes}&temperature=0.1&plan=partition&batchSize=20", width=width)
    for _ in range(8):  # from every side, and at first as it is shown
        assert not browser.execute_script(covered)
        browser.find_element("id", "sphere").send_keys("\ue012" * 6)


def test_the_sphere_is_turned_with_keys_and_buttons(opened):
    browser = opened("#preset=1")
    sphere = browser.find_element("id", "sphere")
    assert sphere.aria_role == "application"  # so that a screen reader hands the arrow keys on
    assert "Arrow keys turn the view" in sphere.accessible_name
    buttons = browser.find_elements("css selector", "[data-turn]")
    assert [button.accessible_name for button in buttons] == ["Turn left", "Turn right", "Tilt up", "Tilt down"]
    arrows = ("\ue012", "\ue014", "\ue013", "\ue015")
    for button, arrow, change in zip(buttons, arrows, [(0.12, 0), (-0.12, 0), (0, 0.12), (0, -0.12)], strict=True):
        for act in (button.click, lambda arrow=arrow: sphere.send_keys(arrow)):
            before = state(browser)["view"]
            act()
            after = state(browser)["view"]
            assert (after["yaw"] - before["yaw"], after["pitch"] - before["pitch"]) == pytest.approx(change)
            assert re.fullmatch(r"View: \d+° around, tilted by \d+°\.", text(browser, "status"))


@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1180)])
def test_a_finger_scrolls_over_the_sphere_and_turns_it_sideways(opened, width, height):
    def swipe(x, y):
        """In ten moves; at the end, what has changed: the view and the place of the page."""
        at = browser.find_element("id", "sphere").rect
        top = browser.execute_script("return scrollY")
        begin = [at["x"] + at["width"] / 2, at["y"] - top + at["height"] / 2]
        view = state(browser)["view"]
        for kind, part in (("touchStart", 0), *(("touchMove", i / 10) for i in range(1, 11)), ("touchEnd", None)):
            points = [] if part is None else [{"x": begin[0] + part * x, "y": begin[1] + part * y}]
            browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        after = state(browser)["view"]
        return (
            after["yaw"] - view["yaw"],
            after["pitch"] - view["pitch"],
            browser.execute_script("return scrollY") - top,
        )

    browser = opened("#preset=1", width=width, height=height, mobile=True)
    yaw, pitch, scrolled = swipe(90, 6)
    assert yaw < -0.3
    assert (pitch, scrolled) == (0, 0)
    yaw, pitch, scrolled = swipe(6, -150)
    assert (yaw, pitch) == (0, 0)
    assert scrolled > 50


def test_the_graph_in_words_names_all_that_is_not_connected(opened):
    def words(fragment):
        return opened(fragment).find_element("id", "graph").accessible_name

    assert "Disconnected classes: A (3 components), B (3 components) and C (3 components)." in words("#preset=4")
    apart = "#sizes=3.3.3.1&plan=edited&batches=0.1.2_0.3_3.4.5_6.7.8"
    assert "Pairs that never meet: A with C, A with D, B with C, B with D and C with D." in words(apart)
    assert "Pairs that share batches only as singletons: A with B." in words(apart)
    assert "In no batch: sample 9." in words(apart + "&loss=frame")
    assert "Every class is connected. Every pair of classes is pushed apart." in words("#preset=5")


def test_without_relu_the_certificate_does_not_apply(opened):
    browser = opened("#preset=2")
    assert text(browser, "verdict") == "does not apply without ReLU"
    assert browser.find_element("id", "verdict").get_attribute("class") == ""
    assert text(browser, "sentence").startswith(
        "The certificate is about non-negative features and does not apply here"
    )
    assert "With ReLU: certified:" in text(browser, "sentence")
    click(browser, "relu")
    assert text(browser, "verdict") == "✓ certified"
    assert text(browser, "sentence").startswith("Certified:")


def test_the_graph_shows_in_colour_what_is_not_connected(opened):
    assert warnings_in(opened("#preset=5"), "graph") == 0  # bound
    assert warnings_in(opened("#preset=4"), "graph") > 100  # classes in pieces
    apart = "#sizes=4.4.4&plan=edited&batches=0.1.2.3.4.5.6.7_4.5.6.7.8.9.10.11"  # A and C never meet
    browser = opened(apart)
    assert "A and C" in text(browser, "sentence")
    assert warnings_in(browser, "graph") > 20
    assert text(browser, "sentence") in browser.find_element("id", "graph").accessible_name
    assert warnings_in(opened(apart + "&loss=frame"), "graph") == 0  # which needs no meetings


def test_the_chart_has_the_floor(opened):
    browser = opened("#preset=1")
    assert warnings_in(browser, "chart") > 20  # the dashed line
    before = browser.execute_script("return document.getElementById('chart').toDataURL()")
    click(browser, "one")
    assert browser.execute_script("return document.getElementById('chart').toDataURL()") != before


def test_a_link_brings_the_state_back(opened):
    browser = opened("#preset=4")
    browser.find_element("id", "sphere").send_keys("\ue012\ue013")  # arrows left and up
    click(browser, "repair")
    for _ in range(5):
        click(browser, "one")
    click(browser, "copy")
    link, before = browser.find_element("id", "link").get_attribute("value"), state(browser)
    assert before["view"]["yaw"] != pytest.approx(0.62)
    after = state(opened("#" + link.partition("#")[2]))
    assert np.abs(np.array(after.pop("rows")) - np.array(before.pop("rows"))).max() < 1e-7  # float32 in the link
    assert after.pop("view") == pytest.approx(before.pop("view"), abs=0.006)
    assert after == before


def test_a_link_to_reshuffled_batches_brings_the_certificate_back(opened):
    browser = opened("#sizes=6.6.6&plan=reshuffle&batchSize=3&seed=3")
    for _ in range(3):
        click(browser, "one")
    before = state(browser)
    link = until(browser, lambda _: "&epoch=3&" in browser.current_url and browser.current_url)
    after = state(opened("#" + link.partition("#")[2]))
    assert (after["epoch"], after["batches"], after["sentence"]) == (3, before["batches"], before["sentence"])


@pytest.mark.parametrize(
    "fragment",
    [
        "#sizes=1.2&temperature=1e9&margin=x&plan=none&seed=-1&speed=3&relu=2&loss=none&batchSize=1",
        "#plan=edited&batches=0.1_999",
        "#plan=edited",
        "#rows=!!!!&step=4",
        "#rows=AAAAAAAAAAAAAAAA",
        "#yaw=NaN&pitch=7&preset=9",
        "#<script>alert(1)</script>=%00",
    ],
)
def test_a_broken_link_does_no_harm(opened, fragment):
    browser = opened(fragment)
    settings = state(browser)["settings"]
    assert settings["sizes"] == [10, 10, 10]
    if "=" in fragment and "script" not in fragment and fragment != "#plan=edited":
        assert text(browser, "status").startswith("This link has parts that are not understood: ")
    click(browser, "one")
    assert np.isfinite(state(browser)["rows"]).all()
    assert browser.get_log("browser") == []


def test_a_link_to_features_of_too_few_dimensions_is_refused(opened):
    rows = "AACAPwAAAAAAAAAA"  # (1, 0, 0)
    browser = opened(f"#sizes=10.10.10.10&step=5&rows={rows * 40}")  # of four classes
    assert text(browser, "status") == f"This link has parts that are not understood: rows={(2 * rows)[:20]}."
    assert len(state(browser)["rows"]) == 40 * 4
    click(browser, "one")
    assert np.isfinite(state(browser)["rows"]).all()
    assert text(opened(f"#sizes=10.10.10&step=5&rows={rows * 30}"), "status") == "At step 5."


def test_a_link_in_the_open_page(opened):
    browser = opened("#preset=1")
    browser.execute_script("location.hash = '#preset=6'")
    until(browser, lambda _: text(browser, "story-title") == "6. Temperature and speed")


def test_everything_has_a_name_for_a_screen_reader(opened):
    browser = opened("#preset=4")
    elements = browser.find_elements(
        "css selector", "button:not([hidden]), input:not([hidden]), select, canvas, section, form, nav"
    )
    assert len(elements) > 50
    for element in elements:
        assert element.accessible_name.strip(), element.get_attribute("outerHTML")[:200]
    for name in ("status", "sentence"):
        assert browser.find_element("id", name).get_attribute("aria-live") == "polite"
    assert "largest cosine" in browser.find_element("id", "sphere").accessible_name
    headers = browser.find_elements("css selector", "#cosines th[scope]")
    assert [header.text for header in headers] == ["A", "B", "C", "A", "B", "C"]


def test_less_motion(opened):
    browser = opened(reduced_motion="reduce")
    assert not state(browser)["playing"]
    assert text(browser, "status") == "Balanced classes: ready, press Play."


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_told_from_their_background(opened, scheme):
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    def contrast(first, second):
        low, high = sorted((luminance(first), luminance(second)))
        return (high + 0.05) / (low + 0.05)

    def colours():
        return browser.execute_script(COLOURS, [*texts, *marks, "panel", "page", "on-accent", "surface"])

    texts = ["text", "faint", "accent", "warn", "good"]
    marks = [f"class-{letter}" for letter in "abcdef"]
    browser = opened("#preset=1", color_scheme=scheme)
    by_system = colours()
    # WCAG 2.2, AA: 4.5 for text and 3 for graphical objects.
    for name in texts:
        assert min(contrast(by_system[name], by_system[back]) for back in ("panel", "page")) >= 4.5, name
    assert contrast(by_system["on-accent"], by_system["accent"]) >= 4.5
    for name in marks:
        assert min(contrast(by_system[name], by_system[back]) for back in ("panel", "surface")) >= 3, name
    # The button turns to the other scheme, and back to the same colours.
    click(browser, "theme")
    assert colours()["panel"] != by_system["panel"]
    click(browser, "theme")
    assert colours() == by_system


@pytest.mark.parametrize("fragment", ["#preset=4", f"#{MANY}&plan=partition&batchSize=20"])
@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1180), (1280, 800)])
def test_the_page_fits_its_width(opened, fragment, width, height):
    browser = opened(fragment, width=width, height=height, mobile=width < 500)
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    too_small = """
    return [...document.querySelectorAll("p, label, button, dd, dt, td, th")]
      .filter((e) => e.offsetParent && parseFloat(getComputedStyle(e).fontSize) < 12).map((e) => e.outerHTML)
    """
    assert browser.execute_script(too_small) == []


@pytest.mark.parametrize(
    "options",
    [
        MANY,
        f"{MANY}&plan=reshuffle&batchSize=20",
        f"{MANY}&plan=bound&batchSize=20",
        "sizes=196.2.2&plan=reshuffle&batchSize=3",  # small classes hardly ever meet, and every epoch is looked at
    ],
)
def test_a_frame_of_200_points_is_short(opened, options, capsys):
    browser = opened(f"#{options}&temperature=0.1")
    click(browser, "play")
    until(browser, lambda _: browser.execute_script("return orthoframe.timing.frames") > 60)
    timing = browser.execute_script("return orthoframe.timing")
    mean = timing["work"] / timing["frames"]
    with capsys.disabled():
        print(f"\n{options}: {mean:.1f} ms of work per frame, at most {timing['worst']:.1f} ms")
    assert mean < 16  # 60 frames in a second; about 3 on a quiet core
