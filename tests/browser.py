"""A real browser for tests of pages."""

import json
import os
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
# Where the tests in a browser must not be skipped: CI would be green without them, and nobody would notice.
REQUIRED = os.environ.get("ORTHOFRAME_TEST_BROWSER") == "required"
NEEDED = "needs Chromium and its driver, in Debian the packages chromium and chromium-driver"
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
]
needs_browser = pytest.mark.skipif(not REQUIRED and (CHROMIUM is None or DRIVER is None), reason=NEEDED)


def start(profile):
    """A browser whose own files are in the folder `profile`; the caller quits it."""
    if CHROMIUM is None or DRIVER is None:
        pytest.fail(f"{NEEDED}, and ORTHOFRAME_TEST_BROWSER is {os.environ.get('ORTHOFRAME_TEST_BROWSER')}")
    if not REQUIRED:
        pytest.importorskip("selenium.webdriver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def resize(browser, width, height=900, *, mobile=False):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def check_quiet(browser, files=()):
    """No message in the console, and no request but the page itself and these files of its folder."""
    assert browser.get_log("browser") == []
    page = browser.current_url.partition("#")[0]
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    sent = [request["request"]["url"] for request in sent if request["documentURL"].partition("#")[0] == page]
    expected = sorted([page, *(page.rpartition("/")[0] + "/" + name for name in files)])
    assert sorted(url for url in sent if not url.startswith("data:")) == expected
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert {url for url in loaded if not url.startswith("data:")} <= set(expected) - {page}
