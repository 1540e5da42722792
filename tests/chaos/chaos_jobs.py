"""Lets everything fail under a real cluster: `python tests/chaos/chaos_jobs.py --seed 7 [--jobs 200]`.

Faults are told on stderr as they happen; the last line of stdout is one JSON object, whose names are fixed. Ends with 1
when a promise broke.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    from chaos.program import main

    sys.exit(main())
