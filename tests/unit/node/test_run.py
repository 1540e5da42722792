"""A run that an earlier Scrapyd has begun is brought to what is wished of it now."""

from __future__ import annotations

import os
from pathlib import Path

from support.claims import CLAIM
from support.hand_machine import HandMachine

from toolkit.model.queue import Wish
from toolkit.node.run import Run
from toolkit.runs.control import control_of, read_control
from toolkit.runs.folder import CONTROL, RunFolder
from toolkit.runs.process import start_of


def test_a_spider_that_was_resumed_while_scrapyd_was_away_goes_on(tmp_path: Path) -> None:
    machine = HandMachine()
    machine.watch_exit = lambda *_: None  # type: ignore[method-assign]
    folder = RunFolder(tmp_path)
    folder.write(CONTROL, control_of(Wish(is_paused=True, delay_s=2.0)))

    run = Run(CLAIM, folder, machine, on_gone=lambda _: None)
    run.adopt(os.getpid(), start_of(os.getpid()) or "", stopped_for=None)
    run.heed(Wish())
    assert read_control(folder.read(CONTROL)) == Wish()
