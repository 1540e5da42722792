"""What the pages are served with: the cluster's desk, the accounts, and under which names they may be asked for."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from toolkit.cluster.desk import Desk
from toolkit.config.log_places import LogAddress
from toolkit.web.accounts import Accounts
from toolkit.web.limits import SignInLimits, Window
from toolkit.web.sessions import Sessions

MAX_STREAMS, MAX_STREAMS_A_USER = 100, 40


@dataclass(frozen=True, slots=True)
class Served:
    """One server of pages. `port` tells the cookies of two servers of one host apart.

    `names` are the host names, in small letters, under which it may be asked for, beside the loopback and the address
    that a connection came to. `setup_key` lets the first user be made; `is_metrics_open` shows the numbers for others
    to anyone who reaches the port. `log_place` is where nodes ship logs to, beside Redis. `stopping` is set when the
    server ends: what streams looks at it.
    """

    desk: Desk
    accounts: Accounts
    sessions: Sessions
    port: int
    cluster: str = "main"
    names: frozenset[str] = frozenset()
    setup_key: str | None = None
    is_metrics_open: bool = False
    log_place: LogAddress | None = None
    limits: SignInLimits = field(default_factory=lambda: SignInLimits(clock=time.monotonic))
    noted_failures: Window = field(default_factory=lambda: Window(clock=time.monotonic))
    stopping: threading.Event = field(default_factory=threading.Event)
