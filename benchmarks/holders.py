"""Several holders: all that is measured about them, one benchmark after the other.

    python benchmarks/holders.py [--only merge,join]

| part | what is measured |
|---|---|
| merge | errors of merged and averaged releases against one release of all rows |
| room | errors of rooms of five to twenty holders against one release of all rows |
| processes | seconds, bytes and errors of a room of five processes on one folder |
| join | errors from columns at different holders against the better one of them |
| shares | cost of rows in two shares, and of encrypted rows |
| sums | cost of one secure sum |

Each has a file of its own, `holders_PART.py`, with options of its own. Exits with 1 where any of them does.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from measuring import shortfalls

PARTS = ("merge", "room", "processes", "join", "shares", "sums")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="some of the parts")
    chosen = parser.parse_args().only.split(",")
    if unknown := [part for part in chosen if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; choose of {', '.join(PARTS)}")
    short = []
    for part in chosen:
        print(f"--- {part}", flush=True)
        file = Path(__file__).parent / f"holders_{part}.py"
        if subprocess.run([sys.executable, str(file)], check=False).returncode:
            short.append(f"the part {part}")
    shortfalls(short)


if __name__ == "__main__":
    main()
