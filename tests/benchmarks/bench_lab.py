"""Provisions real hosts and rolls releases over them: `python tests/benchmarks/bench_lab.py [--quick]`, as root.

Prints a table; the last line is one JSON object, whose names are fixed. Nothing is asserted.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    from benchmarks.lab_program import main

    sys.exit(main())
