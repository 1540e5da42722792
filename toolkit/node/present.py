"""Where this node is now: the address that it tells the cluster, which follows the machine when that one moves."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

from twisted.logger import Logger

from toolkit.model.nodes import NodeReport, Whereabouts
from toolkit.store.interfaces import Shared

_log = Logger()


class Present:
    """The node's present address, learned anew whenever its connection to Redis is a new one."""

    def __init__(self, configured: str) -> None:
        self._configured = configured
        self.where = Whereabouts()

    def learn(self, shared: Shared) -> bool:
        """Look where this machine is; only in a thread. Tell whether that is new; a change is logged.

        Raises:
            StoreUnreachableError: Redis does not answer.

        """
        before, self.where = self.where, shared.nodes.whereabouts()
        if before == self.where:
            return False
        if before != Whereabouts():
            _log.warn(
                "This node's address has changed: {old} is {new} now, and Redis sees it come from {outside}",
                old=before.local,
                new=self.where.local,
                outside=self.where.outside or "an address that it does not tell",
            )
        return True

    def of(self, report: NodeReport) -> NodeReport:
        """Return the report with the present address in it."""
        return replace(report, address=present_address(self._configured, self.where), outside=self.where.outside)


def present_address(configured: str, where: Whereabouts) -> str:
    """Return where others reach a node that listens there: for all addresses at once, it is the machine's own. Pure."""
    host, _, port = configured.rpartition(":")
    host = host.strip("[]")
    if not _is_any(host) or where.local is None or is_loopback(where.local):
        return configured
    return f"[{where.local}]:{port}" if ":" in where.local else f"{where.local}:{port}"


def is_loopback(host: str) -> bool:
    """Tell whether the address leads nowhere but to its own machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_any(host: str) -> bool:
    try:
        return host == "" or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
