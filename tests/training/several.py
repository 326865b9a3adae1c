"""`orthoframe` as a file: what starts several processes runs it again in each. `--then` parts several commands.

python several.py train --devices 2 ... --then train --resume ...
"""

import sys

from orthoframe.cli import main

if __name__ == "__main__":
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
