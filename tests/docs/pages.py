"""Runs the code blocks of a page, in their order and in one folder, as a reader would.

Python blocks have a namespace each, and must print the numbers that the comments of their `print` lines tell; commands
of orthoframe are called in this process, to save its start, and what torchrun starts are forks of it; other lines of a
shell block go to bash.
"""

import contextlib
import io
import os
import re
import runpy
import shlex
import socket
import subprocess
import sys
import traceback

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)")
# What a page shows on purpose: these end with status 1, "not certified".
NOT_CERTIFIED = (
    "orthoframe certify labels.npy batches.jsonl --repair mended.jsonl",
    "orthoframe certify labels.csv batches.jsonl --column class --repair mended.jsonl --plot meetings.png",
)
# What takes less time here than for a reader.
SHORTER = {"--minutes 10": "--minutes 0.03"}


def blocks(text):
    """The fenced blocks of a page: language and content."""
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(block):
    """The commands of a shell block, without comments; those that go on after a backslash in one line."""
    lines = [re.sub(r"(^|\s+)#\s.*$", "", line).strip() for line in block.splitlines()]
    return [line for line in re.sub(r"\s*\\\n", " ", "\n".join(lines)).splitlines() if line]


def untold(block, printed):
    """The numbers in comments of `print` lines that were not printed, within their last digit."""
    values = [float(number) for number in NUMBER.findall(printed)]
    stated = [n for line in re.findall(r"^\s*print\(.*?\)  # (.*)$", block, re.MULTILINE) for n in NUMBER.findall(line)]
    return [
        number for number in stated if not any(abs(float(number) - value) <= last_digit(number) for value in values)
    ]


def last_digit(number):
    """What rounding to the digits of a number may change."""
    mantissa, _, exponent = number.partition("e")
    return 0.51 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def run_python(page, block):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, f"a block of {page.name}", "exec"), {"__name__": "__main__"})
    missing = untold(block, printed.getvalue())
    if missing:
        sys.exit(f"{page.name} tells {', '.join(missing)}, and this was printed:\n{printed.getvalue()}")


def run_command(command):
    for long, short in SHORTER.items():
        command = command.replace(long, short)
    words = shlex.split(command)
    if words[0] == "orthoframe":
        status = orthoframe(words[1:])
    elif words[:2] == ["torchrun", "--nproc-per-node"]:
        status = torchrun(int(words[2]), words[3:])
    else:
        status = subprocess.run(["bash", "-c", command]).returncode
    if status != int(command in NOT_CERTIFIED):
        sys.exit(f"{command}: status {status}")


def orthoframe(words):
    """The status with which the command ends."""
    from orthoframe.cli import main

    try:
        return main(words)
    except SystemExit as end:
        return end.code or 0


def torchrun(count, words):
    """As torchrun starts a script, or a command without Python: with its variables, but without `count` imports.

    Tests of training, embedding and integrations start it for real.
    """
    with socket.socket() as meeting:
        meeting.bind(("127.0.0.1", 0))
        launched = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": meeting.getsockname()[1], "TORCHELASTIC_RUN_ID": "page"}
    launched |= {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1}
    ranks = [os.fork() or launch(words, {**launched, "RANK": rank, "LOCAL_RANK": rank}) for rank in range(count)]
    return max(abs(os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1])) for rank in ranks)


def launch(words, variables):
    """One process, to its end."""
    os.environ.update({name: str(value) for name, value in variables.items()})
    status = 1
    try:
        if words[0] == "--no-python":
            status = orthoframe(words[2:])
        else:
            sys.argv[:] = words
            runpy.run_path(words[0], run_name="__main__")
            status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def run(page, skipped, folder, log, variables):
    """Run the blocks in a folder, but for lines that are `skipped`; what they print goes to the file `log`."""
    os.setsid()
    os.chdir(folder)
    os.environ.update(variables)
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    for language, block in blocks(page.read_text()):
        if language == "python":
            run_python(page, block)
        elif language == "sh":
            for command in commands(block):
                if command not in skipped:
                    run_command(command)
