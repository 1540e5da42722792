"""Lets everything fail under one crawl: `python tests/chaos/chaos_frontier.py --seed 7 [--pages 5000] [--mode ...]`.

Faults are told on stderr as they happen; the last line of stdout is one JSON object, whose names are fixed. Ends with 1
when a promise broke; scrapy-redis promises nothing, and its losses are told.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    from chaos.frontier.program import main

    sys.exit(main())
