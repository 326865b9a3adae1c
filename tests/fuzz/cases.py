"""One case: a hostile input from (target, seed, number), and whether what happened to it is allowed."""

import re
import shutil
import tempfile
import traceback
import warnings
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.fuzz import array_files, calls, extremes, image_files, network_files, options, run_files

TARGETS = {
    **image_files.TARGETS,
    **array_files.TARGETS,
    **network_files.TARGETS,
    **run_files.TARGETS,
    **options.TARGETS,
    **calls.TARGETS,
    **extremes.TARGETS,
}
"""By name, see `Target`."""

_LONGEST = 300
_MEMORY = re.compile("allocate|out of memory", re.IGNORECASE)


@dataclass(frozen=True)
class Failure:
    """A case that did not end as it must."""

    target: str
    seed: int
    case: int
    kind: str  # the same for cases that fail alike
    details: str

    @property
    def replay(self):
        return f"make fuzz TARGET={self.target} SEED={self.seed} CASE={self.case}"


def generator(target, seed, case):
    """Of this case alone, so that it can be run alone."""
    return np.random.default_rng([seed, zlib.crc32(target.encode()), case])


@contextmanager
def scratch():
    """A folder in memory, if the system has one."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=shared if shared.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tried(target, seed, case, valid, folder):
    """Run a case in a folder that is its own; the failure, or None."""
    entry = TARGETS[target]
    hostile = entry.make(case if entry.numbered else generator(target, seed, case), valid, folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of those that only a hostile file brings about
            entry.read(hostile)
        return None
    except Exception as error:
        fault = _fault(error, entry.refusals)
        if fault is None:
            return None
        details = "".join(traceback.format_exception(error))
        return Failure(target, seed, case, fault, details[-20_000:])


def _fault(error, refusals):
    """What is wrong with an error; None if it is one of the documented refusals, with a proper sentence."""
    name, said = type(error).__name__, str(error)
    if not isinstance(error, refusals):
        return f"{name} at {_place(error)}"
    if not said:
        return f"{name} without a sentence at {_place(error)}"
    if "\n" in said or "\r" in said:
        return f"{name} of several lines at {_place(error)}"
    if len(said) > _LONGEST:
        return f"{name} of more than {_LONGEST} characters at {_place(error)}"
    before = error.__context__
    while before is not None:
        if isinstance(before, MemoryError) or _MEMORY.search(str(before)):
            return f"too much memory ({type(before).__name__}) at {_place(before)}"
        before = before.__context__
    return None


def _place(error):
    """The last line of this package that it came through, else the last of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/orthoframe/" in frame.filename] or list(frames)
    if not ours:
        return "nowhere"
    return f"{ours[-1].filename.rpartition('/orthoframe/')[2].rpartition('/tests/')[2]}:{ours[-1].lineno}"
