"""A node's redial: when it may, what runs, and what it tells of it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from toolkit.model.calls import Question, Redialled, RedialPlace
from toolkit.model.errors import RefusedError, StoreUnreachableError
from toolkit.model.names import NodeName
from toolkit.model.nodes import Whereabouts
from toolkit.node import redial as module
from toolkit.node.redial import REDIALS, Redialler, run_command
from toolkit.node.redialling import is_old, share_of, tell, wish_of
from toolkit.runs.folder import REDIAL, REDIALLED, RunFolder


class Desk:
    """A node, and what Redis says: from where it sees it come, look by look (`None`: Redis is away)."""

    def __init__(self, *outsides: str | None, command: str = "dial", fails: str | None = None) -> None:
        self.outsides = list(outsides)
        self.ran: list[tuple[Sequence[str], str | None]] = []
        self.shares: list[float] = []
        self.place = RedialPlace(is_ours=True, taken=1, places=1)
        self.given_back: list[str] = []
        settings = SimpleNamespace(
            name="node-1",
            redial_command=tuple(command.split()),
            redial_share=10.0,
            redial_min_interval_s=60.0,
            redial_timeout_s=5.0,
            lease_s=15.0,
        )
        self.member: Any = SimpleNamespace(settings=settings, redials=None, wake=lambda: None)
        nodes = SimpleNamespace(whereabouts=self._whereabouts, look_anew=lambda: None)
        redials = SimpleNamespace(begin=self._begin, end=self.given_back.append)
        self.shared: Any = SimpleNamespace(nodes=nodes, redials=redials)

        def run(words: Sequence[str], _: float) -> str | None:
            self.ran.append((words, self.member.redials))
            return fails

        self.redialler = Redialler(cast("Any", self.member), run=run)

    def _whereabouts(self, *, anew: bool = False) -> Whereabouts:
        del anew
        outside = self.outsides.pop(0) if len(self.outsides) > 1 else self.outsides[0]
        if outside is None:
            raise StoreUnreachableError("away")
        return Whereabouts("10.0.0.5", outside)

    def _begin(self, _: str, *, share: float, term_s: float) -> RedialPlace:
        assert term_s == 20.0
        self.shares.append(share)
        return self.place


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    monkeypatch.setattr(module, "SETTLE_S", 0.05)


def test_another_address_is_told_with_the_one_before() -> None:
    desk = Desk("1.1.1.1", None, "1.1.1.1", "2.2.2.2", command="dial --now")
    told = desk.redialler.redial(desk.shared)
    assert (told.old, told.new, told.why, told.again_s) == ("1.1.1.1", "2.2.2.2", None, None)
    # It takes no job meanwhile, and its place is free afterwards.
    assert desk.ran == [(("dial", "--now"), REDIALS)]
    assert desk.member.redials is None
    assert desk.given_back == ["node-1"]
    assert desk.shares == [0.1]


def test_the_same_address_is_told_as_such() -> None:
    desk = Desk("1.1.1.1")
    told = desk.redialler.redial(desk.shared)
    assert (told.old, told.new) == ("1.1.1.1", "1.1.1.1")
    assert told.why == "its address is the same as before"


def test_a_command_that_failed_is_told_with_its_last_words() -> None:
    desk = Desk("1.1.1.1", fails="dial ended with 1: no carrier")
    assert desk.redialler.redial(desk.shared).why == "dial ended with 1: no carrier"


def test_a_node_without_a_command_says_so() -> None:
    desk = Desk("1.1.1.1", command="")
    assert desk.redialler.redial(desk.shared).why == "it has no redial_command"
    assert desk.shares == []


def test_an_address_is_kept_for_a_while() -> None:
    desk = Desk("1.1.1.1", "2.2.2.2", "3.3.3.3")
    desk.redialler.redial(desk.shared)
    told = desk.redialler.redial(desk.shared)
    assert told.again_s is not None
    assert 50 < told.again_s <= 60
    assert len(desk.ran) == 1


def test_a_node_whose_share_is_at_it_waits() -> None:
    desk = Desk("1.1.1.1")
    desk.place = RedialPlace(is_ours=False, taken=4, places=4)
    told = desk.redialler.redial(desk.shared, share=0.25)
    assert (told.why, told.again_s) == ("4 of 4 that may are at it", 1.0)
    assert (desk.shares, desk.ran, desk.given_back) == ([0.25], [], [])


def test_where_redis_stays_away_the_place_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk("1.1.1.1", None)
    desk.member.settings.redial_timeout_s = 0.05
    monkeypatch.setattr(desk.shared.redials, "begin", lambda *_, **__: desk.place)
    assert desk.redialler.redial(desk.shared).why == "Redis is not reached since: away"


def test_a_command_is_words_without_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPYD_PASSWORD", "a secret")
    code = "import os, sys; print(sys.argv[1:], os.environ.get('SCRAPYD_PASSWORD')); sys.exit(3)"
    why = run_command([sys.executable, "-c", code, "$HOME; rm -r *"], 20)
    assert why == f"{sys.executable} ended with 3: ['$HOME; rm -r *'] None"
    assert run_command([sys.executable, "-c", ""], 20) is None
    assert run_command([str(tmp_path / "none")], 20) == f"{tmp_path / 'none'} cannot be run: No such file or directory"
    assert run_command([sys.executable, "-c", "import time; time.sleep(60)"], 0.2) is not None


def test_a_wish_is_answered_once_and_grows_old(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert wish_of(folder) is None
    folder.write(REDIAL, {"number": 1, "why": "banned", "at": 100.0})
    wish = wish_of(folder)
    assert wish is not None
    assert not is_old(wish, now=399.0)
    assert is_old(wish, now=401.0)
    assert is_old({"number": 1}, now=0.0)
    tell(folder, wish, Redialled("1.1.1.1", "2.2.2.2", 3.0))
    assert wish_of(folder) is None
    assert folder.read(REDIALLED) == {
        "number": 1,
        "old": "1.1.1.1",
        "new": "2.2.2.2",
        "seconds": 3.0,
        "why": None,
        "again_s": None,
    }
    folder.write(REDIAL, {"number": 2, "why": "banned", "at": 100.0})
    assert wish_of(folder) is not None


@pytest.mark.parametrize(("args", "share"), [({}, None), ({"share": "0.25"}, 0.25), ({"share": "1"}, 1.0)])
def test_an_operator_may_name_the_share(args: dict[str, str], share: float | None) -> None:
    assert share_of(args) == share


@pytest.mark.parametrize("text", ["2", "-1", "all", "nan", ""])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(RefusedError):
        share_of(Question("1", NodeName("node-1"), "redial", {"share": text}).args)


def test_a_command_that_is_not_ours_to_end_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ours: list[int] = []

    def of_root(pid: int, _: int) -> None:
        ours.append(pid)
        raise PermissionError

    killpg = os.killpg
    monkeypatch.setattr(os, "killpg", of_root)
    begun = time.monotonic()
    why = run_command([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)
    killpg(ours[0], signal.SIGKILL)
    assert str(why).endswith("took longer than 0.2 s, and cannot be ended by us")
    assert time.monotonic() - begun < 20
