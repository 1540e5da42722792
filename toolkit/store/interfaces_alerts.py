"""What the store promises about alerts: the rules and sinks, and who tells which sink how far. `redis_alerts.py`.

As in `interfaces.py`: every operation is one atomic step by Redis' own clock, and may raise `StoreUnreachableError`.
Any thread may call; nothing here may be called from a reactor's thread, since it waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from toolkit.model.alerts import Alerts, Failed, Progressed, Silence, SinkLease, SinkState
from toolkit.model.events import Event

MAX_FAILED = 1000
"""How many messages that were given up are remembered, the newest ones."""

MAX_HELD = 1000
"""How many events are held back for one sink at most; one more is given up."""


class AlertStore(Protocol):
    """The alerts of a cluster. Secrets of sinks are there for nodes and operators, and for nobody else."""

    def revision(self) -> int:
        """Return a number that rises with every change of rules and sinks; 0: there never were any."""

    def read(self) -> Alerts:
        """Return rules and sinks."""

    def put(self, alerts: Alerts, *, by: str) -> int:
        """Make these the rules and sinks, all of them; return the revision now. A new sink begins with what comes next.

        What is known of a sink that is there no more is forgotten, with the events held for it.
        """

    def take(self, sinks: Sequence[str], *, holder: str, term_s: float) -> SinkLease | None:
        """Take the lease of the first of these sinks that nobody holds, under a token larger than any before."""

    def renew(self, lease: SinkLease, *, term_s: float) -> SinkLease | None:
        """Keep the lease for another term, and see what is known now; `None`: it is not ours any more."""

    def advance(self, lease: SinkLease, step: Progressed, *, term_s: float) -> SinkLease | None:
        """Note a step of telling the sink and keep the lease; `None`: nothing was changed, it is not ours any more."""

    def give_back(self, lease: SinkLease) -> None:
        """Let others tell the sink at once; none is none."""

    def news(self, after: str, *, wait_s: float, limit: int = 100) -> tuple[str, Sequence[Event]]:
        """Return the events after an id, oldest first, and the id of the last that was looked at.

        It waits for a first one, for no longer than half of what an answer may take.
        """

    def hurry(self, sinks: Sequence[str]) -> None:
        """Let the next attempts follow at once, whatever pause there was: somebody has mended something."""

    def states(self, sinks: Sequence[str]) -> Mapping[str, SinkState]:
        """Return how sinks fare."""

    def silence(self, rule: str, *, for_s: float, by: str) -> Silence:
        """Tell nobody of a rule for so long; what happens meanwhile is never told. The latest word counts."""

    def unsilence(self, rule: str) -> bool:
        """Take a silence back; `False`: there was none."""

    def silences(self) -> Sequence[Silence]:
        """Return the silences that are not over, sorted by rule."""

    def failed(self, *, limit: int = 100) -> Sequence[Failed]:
        """Return the messages that were given up, newest first."""
