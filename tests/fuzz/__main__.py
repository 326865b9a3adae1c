"""Fuzz as long as wanted: `make fuzz CASES=100000 SEED=1`. Status 1 if a case failed.

One case again, with its traceback and its files: `make fuzz TARGET=idx SEED=0 CASE=123`.
"""

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.cases import TARGETS, tried
from tests.fuzz.running import SECONDS, limit_memory, parts_of, run_parts

_SHOWN = 10  # kinds of failures per target


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz all readers and calls.")
    parser.add_argument("--cases", type=int, default=100_000, help="hostile inputs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this one; may be repeated")
    parser.add_argument("--case", type=int, help="run this case of a target again")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where to write cases, seconds and failures by target")
    options = parser.parse_args()
    targets = options.target or list(TARGETS)
    if options.case is not None:
        if len(targets) != 1:
            parser.error("--case needs one --target")
        return _replay(targets[0], options.seed, options.case)
    counts = shares(targets, options.cases)
    failures_of, seconds = {target: [] for target in targets}, {}
    for target in targets:
        started = time.monotonic()
        parts = parts_of(target, options.seed, counts[target])
        failures_of[target] = run_parts(parts, options.processes)
        seconds[target] = time.monotonic() - started
        _show(target, counts[target], seconds[target], failures_of[target])
    failed = sum(map(len, failures_of.values()))
    print(f"{sum(counts.values()):,} cases, {failed:,} failures")
    if options.json:
        data = {
            target: {
                "cases": counts[target],
                "seconds": round(seconds[target], 1),
                "failures": len(failures_of[target]),
                "kinds": _kinds(failures_of[target]),
            }
            for target in targets
        }
        options.json.write_text(json.dumps(data, indent=2) + "\n")
    return 1 if failed else 0


def shares(targets, cases):
    """How many cases each target gets: more where they take less time, and at least one."""
    weights = {target: TARGETS[target].weight for target in targets}
    whole = sum(weights.values())
    return {target: max(1, round(cases * weight / whole)) for target, weight in weights.items()}


def _kinds(failures):
    first = {}
    for failure in sorted(failures, key=lambda failure: failure.case):
        first.setdefault(failure.kind, failure)
    counted = Counter(failure.kind for failure in failures)
    return [{"kind": kind, "cases": number, "replay": first[kind].replay} for kind, number in counted.most_common()]


def _show(target, cases, seconds, failures):
    speed = f"{cases:>10,} cases{seconds:8.1f} s{cases / seconds:8.0f}/s"
    print(f"{target:<12}{speed}  {len(failures):,} failures", flush=True)
    for kind in _kinds(failures)[:_SHOWN]:
        print(f"    {kind['cases']:>6} x {kind['kind']}\n             {kind['replay']}", flush=True)


def _replay(target, seed, case):
    folder = Path("build") / "fuzz" / f"{target}-{seed}-{case}"
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("valid", "case"):
        (folder / part).mkdir(parents=True)
    valid = TARGETS[target].prepare((folder / "valid").absolute())
    limit_memory()
    started = time.monotonic()
    failure = tried(target, seed, case, valid, (folder / "case").absolute())
    seconds = time.monotonic() - started
    if failure is None and seconds < SECONDS:
        print(f"passed in {seconds:.2f} s; the input is in {folder / 'case'}")
        return 0
    print(f"no end after {SECONDS:g} s" if failure is None else json.dumps(asdict(failure)["kind"]))
    print("" if failure is None else failure.details)
    print(f"the input is in {folder / 'case'}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
