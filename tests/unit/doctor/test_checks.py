"""The table of checks: what `--only` takes, and that nothing is judged which is not in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import toolkit.doctor
from toolkit.cli import completion
from toolkit.doctor.checks import CHECKS, Source, sources_of, wanted_checks
from toolkit.doctor.judged import ERROR, NOTE, WARNING, found, named, worst_first
from toolkit.model.errors import UsageError
from toolkit.model.names import NodeName


def test_without_a_word_all_checks_are_wanted() -> None:
    assert wanted_checks([]) == CHECKS.keys()


def test_a_word_is_a_check_or_a_subject() -> None:
    assert wanted_checks(["redis-open"]) == {"redis-open"}
    assert wanted_checks(["dns", "tls-invalid"]) == {
        *(name for name in CHECKS if name.startswith("dns-")),
        "tls-invalid",
    }


def test_the_shell_offers_subjects_and_checks() -> None:
    assert completion.checks("egg") == ["egg", "egg-missing", "egg-stray"]


def test_a_wrong_word_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'redis-open'"):
        wanted_checks(["redis-opn"])


def test_only_the_sources_of_the_wanted_checks_are_looked_at() -> None:
    assert sources_of(["redis-open", "dns-same"]) == {Source.REDIS, Source.NAMES}
    assert Source.HOSTS in sources_of(["software-old"])


def test_every_check_is_judged_somewhere_and_every_judgement_is_a_check() -> None:
    folder = Path(toolkit.doctor.__file__).parent
    text = "".join(path.read_text() for path in folder.glob("*.py") if path.name != "checks.py")
    used = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text))
    assert CHECKS.keys() - used == set()
    assert set(re.findall(r'found\(\s*"([^"]+)"', text)) <= CHECKS.keys()


def test_the_worst_comes_first_then_the_order_of_the_table_then_the_node() -> None:
    judged = [
        found("redis-open", NOTE, "a"),
        found("node-open", ERROR, "b", node=NodeName("node-2")),
        found("node-open", ERROR, "b", node=NodeName("node-1")),
        found("dns-same", ERROR, "c"),
        found("redis-slow", WARNING, "d"),
    ]
    order = [(each.finding.check, each.finding.node) for each in worst_first(judged)]
    assert order == [
        ("dns-same", None),
        ("node-open", "node-1"),
        ("node-open", "node-2"),
        ("redis-slow", None),
        ("redis-open", None),
    ]


def test_few_of_many_are_named() -> None:
    assert named(["a"]) == "a"
    assert named(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
