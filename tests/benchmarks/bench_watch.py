"""Pages, the full-screen terminal, crons and alerts, measured: `python tests/benchmarks/bench_watch.py [--quick]`.

Prints a table; the last line is one JSON object, whose names are fixed. Nothing is asserted.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    from benchmarks.watch_program import main

    sys.exit(main())
