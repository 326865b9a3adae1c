"""The playground in a browser, from disk."""

from pathlib import Path

import pytest
from tests.browser import resize, start

FOLDER = Path(__file__).parents[2] / "docs" / "playground"


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    driver = start(tmp_path_factory.mktemp("profile"))
    driver.set_script_timeout(120)
    yield driver
    driver.quit()


@pytest.fixture
def opened(chromium):
    """Opens the page anew, with a fragment; nothing runs if there is one. Less motion if wanted, or another scheme."""

    def open_page(fragment="", *, width=1280, height=900, mobile=False, **media):
        features = [{"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in media.items()]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        resize(chromium, width, height, mobile=mobile)
        chromium.get("about:blank")
        for log in ("browser", "performance"):
            chromium.get_log(log)
        chromium.get((FOLDER / "index.html").as_uri() + fragment)
        return chromium

    return open_page
