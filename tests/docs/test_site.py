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


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def pages(site):
    return sorted({*site.rglob("*.html")} - {site / "404.html", *(site / "playground").iterdir()})


# The lines of code that are broken, and those of what a reader types that are wider than their column.
CODE = """
const broken = [], wide = [];
for (const code of document.querySelectorAll("pre > code")) {
  const style = getComputedStyle(code);
  const room = code.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const probe = Object.assign(document.createElement("span"), {className: "probe"});
  const output = code.closest(".language-text");
  const lines = code.textContent.trimEnd().split("\\n");
  probe.style.cssText = "position: absolute; white-space: pre";
  code.append(probe);
  for (const line of lines) {
    probe.textContent = line;
    const width = probe.getBoundingClientRect().width;
    if (style.whiteSpace !== "pre" && width > room + 0.5) broken.push(line);
    const typed = code.closest(".language-pycon") ? /^(>>>|[.][.][.]) /.test(line) : !output;
    if (typed && width > room + 0.5) wide.push(line);
  }
  probe.remove();
}
return {broken, wide};
"""


@needs_browser
def test_code_is_not_wrapped_and_what_is_typed_fits(site, browser):
    resize(browser, 1280)
    lines = 0
    for page in pages(site):
        browser.get(page.as_uri())
        blocks = browser.execute_script(CODE)
        assert blocks["broken"] == [], page
        assert blocks["wide"] == [], page
        lines += len(browser.find_elements("css selector", "pre > code"))
    assert lines > 150
    browser.get((site / "training.html").as_uri())  # a block whose output is wider
    scrolls = """
    const code = document.querySelector(".language-text pre > code");
    return [code.scrollWidth > code.clientWidth, getComputedStyle(code).overflowX];
    """
    assert browser.execute_script(scrolls) == [True, "auto"]


@needs_browser
def test_tables_of_results_are_seen_whole(site, browser):
    """All columns at 1280 pixels; the tables of some studies are wider still, and scroll."""
    cut = """
    return [...document.querySelectorAll(".md-typeset__table")]
      .filter((table) => table.querySelector("table").offsetWidth > table.parentElement.clientWidth).length;
    """
    resize(browser, 1280)
    for page in sorted(site.glob("results/*.html")):
        browser.get(page.as_uri())
        assert browser.execute_script(cut) == 0, page
    browser.get((site / "results" / "images.html").as_uri())
    assert len(browser.find_elements("css selector", ".md-typeset__table th")) > 20


@needs_browser
def test_names_in_tables_are_not_broken_on_a_phone(site, browser):
    broken = """
    const names = [];
    for (const code of document.querySelectorAll("td code")) {
      const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        for (const name of walker.currentNode.data.matchAll(/\\w+/g)) {
          const range = document.createRange();
          range.setStart(walker.currentNode, name.index);
          range.setEnd(walker.currentNode, name.index + name[0].length);
          if (new Set([...range.getClientRects()].map(({top}) => top)).size > 1) names.push(name[0]);
        }
      }
    }
    return names;
    """
    resize(browser, 390, mobile=True)
    for page in (site / "moving.html", site / "compare.html", site / "api" / "command.html"):
        browser.get(page.as_uri())
        assert browser.execute_script(broken) == [], page
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390


@needs_browser
def test_pages_on_disk_can_be_searched(site, browser):
    resize(browser, 1280)
    browser.get((site / "theory.html").as_uri())
    field = browser.find_element("css selector", "[data-md-component=search-query]")
    field.send_keys("binding")
    for _ in range(100):
        links = browser.find_elements("css selector", ".md-search-result__item a")
        if links:
            break
        time.sleep(0.1)
    assert any("batches.html" in link.get_attribute("href") for link in links)
    assert browser.get_log("browser") == []


def test_every_page_is_in_the_menu(site):
    menu = (site / "index.html").read_text()
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    pages |= {f"studies/results/{path.stem}.html" for path in (ROOT / "studies" / "results").glob("*.md")}
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
