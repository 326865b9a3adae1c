"""Tests in a browser are skipped where there is none, but not where one is required."""

import runpy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("variable", "skipped"), [("", True), ("required", False)])
def test_without_a_browser(tmp_path, monkeypatch, variable, skipped):
    """The tests are skipped, or begin and fail at its start; both say what is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ORTHOFRAME_TEST_BROWSER", variable)
    browser = runpy.run_path(str(ROOT / "tests" / "browser.py"))
    mark = browser["needs_browser"].mark
    assert (mark.name, mark.args) == ("skipif", (skipped,))
    assert "in Debian the packages chromium and chromium-driver" in mark.kwargs["reason"]
    with pytest.raises(pytest.fail.Exception, match="in Debian the packages chromium and chromium-driver"):
        browser["start"](tmp_path)


def test_the_workflow_requires_one():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    assert [step["env"]["ORTHOFRAME_TEST_BROWSER"] for step in steps if step.get("run") == "make test"] == ["required"]
