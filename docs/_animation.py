"""Record the playground for the README: a partition fails, is repaired, and the same points go on to the frame.

`python docs/_animation.py` writes docs/figures/playground.gif. It needs chromium, chromedriver and selenium.
"""

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from orthoframe.files import write_atomic

DOCS = Path(__file__).parent
WIDTH, HEIGHT = 1080, 588  # of the page; the picture is smaller
SHOWN = (810, 441)
COLOURS = 96
# Of each scene: what is done first, steps per frame, frames, and milliseconds of the last one.
SCENES = (
    ("orthoframe.showPreset(3, false)", 8, 24, 1600),
    ("document.getElementById('repair').click()", 10, 36, 3000),
)
FRAME = 90  # milliseconds
# Only what moves: the picture, the numbers and the certificate.
STYLE = """
header, nav, #story, .controls, .lists, footer, #status,
.transport, .key, .buttons, .turns button { display: none !important; }
main { grid-template: "view numbers" auto "view certificate" 1fr / 1fr 430px; }
body { background: var(--panel); }
.picture { min-height: 520px; }
#chart { height: 130px; }
#graph { height: 225px; }
"""
ADD_STYLE = "document.head.append(Object.assign(document.createElement('style'), {textContent: arguments[0]}))"
# A little of the way around, and some steps.
GO_ON = """
orthoframe.state.view.yaw += 0.008;
for (let i = 0; i < arguments[0]; i++) document.getElementById("one").click();
"""


def main() -> None:
    """Record the scenes."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory() as profile:
        for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            frames, times = record(browser)
        finally:
            browser.quit()
    palette = Image.new("RGB", (SHOWN[0], 2 * SHOWN[1]))  # of the first and the last picture
    for row, frame in enumerate((frames[0], frames[-1])):
        palette.paste(frame, (0, row * SHOWN[1]))
    colours = palette.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)  # also the colours of a few points
    flat = [frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in frames]
    rest = {"save_all": True, "append_images": flat[1:], "duration": times, "loop": 0}
    write_atomic(DOCS / "figures" / "playground.gif", lambda file: flat[0].save(file, format="GIF", **rest))


def record(browser: webdriver.Chrome) -> tuple[list[Image.Image], list[int]]:
    """The pictures of all scenes, and how long each is shown."""
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get((DOCS / "playground" / "index.html").as_uri() + "#preset=4")
    browser.execute_script(ADD_STYLE, STYLE)
    frames, times = [], []
    for action, steps, count, last in SCENES:
        browser.execute_script(action)
        for _ in range(count):
            picture = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
            frames.append(picture.resize(SHOWN, Image.Resampling.LANCZOS))
            times.append(FRAME)
            browser.execute_script(GO_ON, steps)
        times[-1] = last
    return frames, times


if __name__ == "__main__":
    main()
