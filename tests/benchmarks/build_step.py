"""What `crawlctl deploy` does to build, as a program without a command line: `python build_step.py PROJECT EGG`."""

import sys
from pathlib import Path

from toolkit.config.project import find_project
from toolkit.rollout.egg import build_egg, write_egg

write_egg(build_egg(find_project(Path(sys.argv[1]))), Path(sys.argv[2]))
