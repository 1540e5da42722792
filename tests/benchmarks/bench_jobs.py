"""Runs the shared queue beside stock Scrapyd: `python tests/benchmarks/bench_jobs.py [--quick]`.

Prints a table of medians and ratios; the last line is one JSON object, whose names are fixed. Nothing is asserted.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    from benchmarks.jobs_program import main

    sys.exit(main())
