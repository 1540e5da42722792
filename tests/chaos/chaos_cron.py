"""Kills nodes and Redis around the times at which crons are due: `python tests/chaos/chaos_cron.py --seed 7`.

Faults are told on stderr as they happen; the last line of stdout is one JSON object, whose names are fixed. Ends with 1
when a promise broke.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    from chaos.crons.program import main

    sys.exit(main())
