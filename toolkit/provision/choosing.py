"""Who chooses the versions of packages: one host of a kind, for all that are provisioned in the same run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Choosing:
    """What is chosen in one run, by kind of host and by what is asked for; any thread may ask."""

    _locks: dict[tuple[str, str], threading.Lock] = field(default_factory=dict)
    _done: set[tuple[str, str]] = field(default_factory=set)
    _failed: set[tuple[str, str]] = field(default_factory=set)
    _own: threading.Lock = field(default_factory=threading.Lock)

    def of(self, kind: str, inputs: str) -> threading.Lock:
        """Return what is held while versions of that kind are looked up, chosen or kept."""
        with self._own:
            return self._locks.setdefault((kind, inputs), threading.Lock())

    def done(self, kind: str, inputs: str) -> None:
        """Note that this run has chosen."""
        self._done.add((kind, inputs))

    def is_done(self, kind: str, inputs: str) -> bool:
        """Tell whether this run has chosen."""
        return (kind, inputs) in self._done

    def once(
        self,
        kind: str,
        inputs: str,
        *,
        known: Callable[[], str | None],
        choose: Callable[[], str],
        keep: Callable[[str], object],
    ) -> str:
        """Return the versions that are known, else those that one host chooses while the others wait for it.

        Where that host fails, the others do not wait in a line to fail one after the other: each tries at once, and the
        first to succeed has chosen for all.
        """
        with self.of(kind, inputs):
            found = known()
            if found is None and (kind, inputs) not in self._failed:
                try:
                    found = choose()
                except BaseException:
                    self._failed.add((kind, inputs))
                    raise
                keep(found)
        if found is not None:
            return found
        chosen = choose()
        with self.of(kind, inputs):
            found = known()
            if found is None:
                keep(chosen)
        return found or chosen
