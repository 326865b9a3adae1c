"""Tests in a browser are skipped where there is none, but not where one is required."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("browser", "status", "ending"), [("", 0, "1 skipped"), ("required", 1, "1 error")])
def test_without_a_browser(tmp_path, browser, status, ending):
    variables = {**os.environ, "PATH": str(tmp_path), "ORTHOFRAME_TEST_BROWSER": browser}
    test = "tests/playground/test_page.py::test_less_motion"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    assert ending in done.stdout.splitlines()[-1]
    assert "in Debian the packages chromium and chromium-driver" in done.stdout


def test_the_workflow_requires_one():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    assert [step["env"]["ORTHOFRAME_TEST_BROWSER"] for step in steps if step.get("run") == "make test"] == ["required"]
