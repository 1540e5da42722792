"""How many hosts a roll takes at a time, and when a node counts as well again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.registry import a_record

from toolkit.model.errors import UsageError
from toolkit.model.names import Session
from toolkit.provision.rolling import ailment, batch_size


@pytest.mark.parametrize(
    ("text", "of", "size"), [("1", 40, 1), ("7", 3, 7), ("25%", 40, 10), ("10%", 3, 1), ("100%", 5, 5)]
)
def test_a_batch_is_a_number_of_hosts_or_a_share_of_them(text: str, of: int, size: int) -> None:
    assert batch_size(text, of=of) == size


@pytest.mark.parametrize("text", ["0", "", "-1", "half", "101%", "0%", "1.5"])
def test_what_is_no_batch_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no batch"):
        batch_size(text, of=40)


def test_a_node_is_well_when_it_lives_anew_and_takes_jobs() -> None:
    record = a_record("a")
    assert ailment(record, former=None) is None
    assert ailment(record, former=Session("an earlier life")) is None
    assert ailment(record, former=record.report.session) == "it was not started anew"


def test_what_ails_a_node_is_said() -> None:
    record = a_record("a")
    assert ailment(a_record("a", age_s=99), former=None) == "no sign of life for 99 s"
    assert ailment(a_record("a", unfit="the disk is full"), former=None) == "it takes no job: the disk is full"
    assert ailment(a_record("a", behind={"shop v2": "no room"}), former=None) == "it lacks shop v2: no room"
    clash = replace(record, clash="one at 10.0.0.9")
    assert ailment(clash, former=None) == "another node claims its name: one at 10.0.0.9"
