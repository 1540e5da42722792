"""Runs the shared frontier beside plain Scrapy and scrapy-redis: `python tests/benchmarks/bench_frontier.py [--quick]`.

Prints a table of medians and ratios; the last line is one JSON object, whose names are fixed. Nothing is asserted.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    from benchmarks.frontier_program import main

    sys.exit(main())
