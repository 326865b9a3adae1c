"""The front door: verbs, errors and their spelling."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict

import numpy as np
import pytest

from orthoframe.cli import VERBS, main, parse
from orthoframe.cli._terminal import bad_input, filled, flag
from orthoframe.errors import InputError, Option, OptionError


@pytest.mark.parametrize("words", [[], ["--help"]], ids=["nothing", "help"])
def test_help_names_every_verb(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert all(f"• {verb} " in said for verb in VERBS)
    assert "--version " in said


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help(verb, capsys):
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: orthoframe {verb} ")
    assert not [nothing for nothing in ("default: None", "default: False", "default: )") if nothing in said]
    assert "Exit status: 0 " in said


def test_a_verb_that_there_is_not(capsys):
    assert main(["trian", "--epochs", "3"]) == 2
    assert capsys.readouterr().err == "orthoframe: there is no verb 'trian'; did you mean train?\n"
    assert main(["xyzzy"]) == 2
    said = capsys.readouterr().err
    assert all(f" {verb}" in said for verb in VERBS)


def test_an_option_that_there_is_not_before_the_verb(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--verison"])
    assert ended.value.code == 2
    assert "Perhaps you meant:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "typed"),
    [
        (Option("batch_size"), "--batch-size"),
        (Option("head", "linear"), "--head linear"),
        (Option("data_dir", "my data"), "--data-dir 'my data'"),
        (Option("augment", False), "--no-augment"),
        (Option("prototypes", True), "--prototypes"),
    ],
    ids=str,
)
def test_options_are_spelled_as_they_are_typed(option, typed):
    assert flag(option) == typed


def test_what_the_library_refuses_is_about_the_input():
    with pytest.raises(InputError, match=r"labels.npy: negative"), bad_input("labels.npy"):
        raise ValueError("negative")
    with pytest.raises(OptionError), bad_input("labels.npy"):
        raise OptionError(Option("seed"), " must be at least 0")


@pytest.mark.parametrize("debug", ["", "0", "1"])
@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OptionError(Option("batch_size"), " must be at least 1, not 0"), "--batch-size must be at least 1, not 0"),
        (InputError("labels.npy: there are no labels"), "labels.npy: there are no labels"),
        (TypeError("of two"), "unexpected TypeError: of two"),
    ],
    ids=["option", "input", "unexpected"],
)
def test_an_error_is_a_sentence_and_a_traceback_if_asked(error, sentence, debug, capsys, monkeypatch):
    class Broken:
        def run(self):
            raise error

    monkeypatch.setenv("ORTHOFRAME_DEBUG", debug)
    monkeypatch.setattr("orthoframe.cli.parse", lambda *_: Broken())
    assert main(["report"]) == 2
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith(f"orthoframe: {sentence}")
    assert ("Traceback" in said) == (debug == "1")
    assert (said.count("\n") == 1) == (debug != "1")


@pytest.mark.parametrize(
    "words",
    [
        ["report", "{}"],
        ["predict", "{}", "a.png"],
        ["certify", "labels.txt", "{}.jsonl"],
        ["measure", "{}.npy", "{}.npy"],
        ["embed", "{}", "--backbone", "hf:{}", "--out", "out"],
        ["fit", "{}.npy", "--out", "out"],
        ["fit", "labels.npy", "--apply", "{}"],
    ],
    ids=lambda words: words[0],
)
def test_a_name_that_is_too_long_for_a_file(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.txt").write_text("0\n1\n")
    np.save(tmp_path / "labels.npy", np.ones((2, 2)))
    assert main([word.format("a" * 300) for word in words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("orthoframe: aaa")
    assert "unexpected" not in said


def test_the_defaults_of_a_verb_are_its_own_unless_it_says_otherwise():
    assert parse("report", ["a", "b"]).out is None
    assert asdict(parse("train", ["--recipe", "paper"])) == asdict(parse("train", ["--recipe=paper"]))


def test_a_time_limit_counts_from_the_start_of_the_process():
    code = "import time; time.sleep(1); from orthoframe.cli._terminal import seconds_since_start as s; print(s())"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1 <= float(process.stdout) < 60


@pytest.mark.parametrize("words", [["ufm", "--counts", "2x2", "--json"], ["--help"], ["train", "--help"]], ids=" ".join)
def test_a_closed_pipe_is_no_bad_input(words):
    """As for `yes | head -1`; what cannot be written twice is not complained of at the end either."""
    code = f"import sys; from orthoframe.cli import main; sys.exit(main({words!r}))"
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:
        done = subprocess.run([sys.executable, "-c", code], stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("words", [["--help"], ["certify", "--help"], ["certify", "--labels"]], ids=" ".join)
@pytest.mark.parametrize("without", ["", "1"])
def test_help_has_no_colours_if_asked(words, without):
    said = on_a_terminal(f"from orthoframe.cli import main; main({words!r})", 80, NO_COLOR=without)
    assert "usage" in said or "Missing" in said
    assert ("\033[" in said) == (not without)


def words_of(text):
    return set(re.split(r"(?:[\s,│╭╮╰╯─•]|-{9,})+", text))


@pytest.mark.parametrize("verb", ["train", "certify"])
def test_help_is_never_broken_inside_a_word(verb, capsys, monkeypatch):
    pages = []
    for columns in (1000, 60, 80, 140):  # from 130 on there are two columns of options
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        pages.append(capsys.readouterr().out)
        assert max(len(line.rstrip()) for line in pages[-1].splitlines()) <= columns
        assert words_of(pages[-1]) == words_of(pages[0])


def test_a_long_word_in_a_paragraph_stays_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    word = "a" * 30
    assert filled(f"short {word} short").split() == ["short", word, "short"]


def on_a_terminal(code, columns, **variables):
    """What Python says on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    variables = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", **variables}
    try:
        with subprocess.Popen([sys.executable, "-c", code], env=variables, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            said = b""
            with suppress(OSError):  # Linux ends so when the last process has closed the terminal
                while part := os.read(ours, 65536):
                    said += part
            process.wait()
    finally:
        os.close(ours)
    return said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "--epochs", "three"], "Error parsing --epochs: must be a whole number, not 'three'"),
        (["train", "--minutes", "x"], "Error parsing --minutes: must be a number, not 'x'"),
        (["train", "--seed", "None"], "Error parsing --seed: must be a whole number, not 'None'"),
        (["certify", "a", "--batch-size", "2.5"], "Error parsing --batch-size: must be a whole number, not '2.5'"),
        (["ufm", "--counts", "2x2", "--temperature", "x"], "Error parsing --temperature: must be a number, not 'x'"),
        (["fit", "a", "--hidden", "3", "b"], "Error parsing --hidden: Could not find valid parse"),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_a_bad_value_is_about_the_option(words, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert sentence in " ".join(said.replace("│", " ").split())
    assert not [words for words in ("<class", "type matching", "invalid literal", "instantiated") if words in said]
