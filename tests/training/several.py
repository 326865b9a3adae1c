"""`orthoframe` as a file: what starts several processes runs it again in each. `--then` parts several commands.

python several.py train --devices 2 ... --then train --resume ...

The last line on stderr is how many of gloo's threads are left when the interpreter ends.
"""

import atexit
import sys
from pathlib import Path

from orthoframe.cli import main


def count_threads():
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    print("gloo threads:", sum("gloo" in name for name in names), file=sys.stderr)


if __name__ == "__main__":
    atexit.register(count_threads)  # before there is a run, so that it is called after everything of the run
    commands, statuses = [[]], []
    for word in sys.argv[1:]:
        if word == "--then":
            commands.append([])
        else:
            commands[-1].append(word)
    for words in commands:
        statuses.append(main(words))
        print("status", statuses[-1], flush=True)
    sys.exit(statuses[0] if len(statuses) == 1 else 0)
