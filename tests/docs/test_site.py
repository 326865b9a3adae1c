"""The documentation site is built without a warning, and nothing in it is fetched from elsewhere."""

import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.browser import needs_browser, resize, start

import orthoframe

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout + done.stderr == ""
    return folder


def test_nothing_is_fetched(site):
    for page in site.rglob("*.html"):
        assert not re.findall(r'(?:src|<link[^>]*href)="(?:https?:)?//[^"]*"', page.read_text()), page


def test_formulas_are_typeset(site):
    for page in site.rglob("*.html"):
        formulas = re.findall(r"<math.*?</math>", text := page.read_text(), re.DOTALL)
        assert "arithmatex" not in text, page  # what was found, and not converted
        assert not [formula for formula in formulas if "\\" in formula], page  # a command that is not known
    assert (site / "theory.html").read_text().count("<math") > 100


@needs_browser
def test_pages_on_disk_can_be_searched_and_code_fits(site, tmp_path):
    browser = start(tmp_path / "profile")
    try:
        resize(browser, 1280)
        for page in sorted({*site.glob("*.html")} - {site / "404.html"}):  # which is for servers
            browser.get(page.as_uri())
            blocks = browser.find_elements("css selector", "pre > code")
            wide = "return arguments[0].scrollWidth > arguments[0].clientWidth + 1"
            assert [block.text for block in blocks if browser.execute_script(wide, block)] == [], page
        browser.get((site / "theory.html").as_uri())
        field = browser.find_element("css selector", "[data-md-component=search-query]")
        field.send_keys("binding")
        for _ in range(100):
            found = browser.find_elements("css selector", ".md-search-result__item a")
            if found:
                break
            time.sleep(0.1)
        assert any("batches.html" in link.get_attribute("href") for link in found)
        assert browser.get_log("browser") == []
    finally:
        browser.quit()


def test_every_page_is_in_the_menu(site):
    menu = (site / "index.html").read_text()
    files = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "notes"]  # parts of other pages
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in files}
    assert {page for page in pages if f'href="{page}"' not in menu} == set()


def test_every_public_name_is_documented(site):
    pages = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    for name in set(orthoframe.__all__) - {"__version__"}:
        assert re.search(rf'id="orthoframe\.\w+\.{name}"', pages), name


def test_scripts_are_there(site):
    assert (site / "examples" / "own_loop.py").exists()
    assert 'href="examples/cluster/ddp.py"' in (site / "clusters.html").read_text()


def test_the_playground_is_there_and_in_the_menu(site):
    for file in (ROOT / "docs" / "playground").iterdir():
        shown = re.sub(rb'(class="[^"]*site"[^>]*?) hidden', rb"\1", file.read_bytes())  # links into the site
        assert (site / "playground" / file.name).read_bytes() == shown
    assert 'href="playground/index.html"' in (site / "index.html").read_text()
    assert 'href="../playground/index.html"' in (site / "api" / "index.html").read_text()
    for link in re.findall(r'href="([^"#:]+)"', (site / "playground" / "index.html").read_text()):
        assert (site / "playground" / link).exists(), link
