"""The log of a node's service: systemd's journal, or the file that Scrapyd writes; read over SSH, merged by time."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from toolkit.model.errors import HostRefusedError, HostUnauthorizedError
from toolkit.model.executed import LogLine
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.model.outcomes import Outcomes
from toolkit.provision.by_shell import ByShell
from toolkit.provision.credentials import NODES_FOLDER
from toolkit.provision.everywhere import everywhere
from toolkit.provision.places import OWN_FOLDER, SYSTEM_FOLDER, UNIT, Places

NO_LOG = 44
DEFAULT_LINES = 100
_DOING = "read the node's log"

_TELL = rf"""
unit=$1 home=$2 lines=$3 since=$4 follow=$5
shift 5
own=
[ -e "/etc/systemd/system/$unit.service" ] && own=-u
[ -z "$own" ] && [ -e "$home/.config/systemd/user/$unit.service" ] && own=--user-unit
if [ -n "$own" ] && command -v journalctl >/dev/null 2>&1; then
  [ -z "$since" ] || since="--since=-${{since}}s"
  [ -z "$follow" ] || follow=-f
  exec journalctl --quiet --no-pager --no-hostname --utc -o short-iso $own "$unit" -n "$lines" $since $follow
fi
log=
for each in "$@"; do [ -z "$log" ] && [ -r "$each" ] && log=$each; done
[ -n "$log" ] || exit {NO_LOG}
size=$(wc -c <"$log")
if [ -n "$since" ]; then
  from=$(date -u -d "@$(($(date +%s) - since))" +%Y-%m-%dT%H:%M:%S)
  head -c "$size" "$log" | awk -v from="$from" '$1 ~ /^[0-9-]+T/ {{ on = $1 >= from }} on' | tail -n "$lines"
else
  head -c "$size" "$log" | tail -n "$lines"
fi
[ -z "$follow" ] || exec tail -c "+$((size + 1))" -F "$log" 2>/dev/null
"""
"""Prints the last lines of the service's log, then goes on if asked to; nothing in between is missed or told twice."""

_TIME = re.compile(r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)")


@dataclass(frozen=True, slots=True)
class LogWish:
    """What is wanted of each log: its last lines, none older than `since_s` seconds, and with `follow` all to come."""

    lines: int = DEFAULT_LINES
    since_s: int | None = None
    follow: bool = False


def tell_logs(
    hosts: Sequence[Host],
    connect: Callable[[Host], ByShell],
    wish: LogWish,
    *,
    state_folder: Path,
    on_line: Callable[[LogLine], object] | None = None,
    parallel: int | None = None,
) -> Outcomes[list[str]]:
    """Return the lines of each host's log; with `on_line` they are handed on as they come and not kept.

    Raises:
        InterruptedFanOutError: Ctrl-C came, as it does to end the following.

    """

    def act(remote: ByShell, _say: Callable[[str], None]) -> list[str]:
        lines: list[str] = []
        name = remote.host.name
        take = lines.append if on_line is None else lambda line: on_line(LogLine(name, line))
        _tell(remote, wish, state_folder, take)
        return lines

    # Whoever follows holds a connection for good, so all must have one.
    return everywhere(hosts, connect, act, parallel=parallel or len(hosts))


def _tell(remote: ByShell, wish: LogWish, state_folder: Path, take: Callable[[str], object]) -> None:
    host = remote.host
    home = remote.check(["sh", "-c", "cd && pwd"], doing=_DOING).strip() or "/"
    files = log_files(host, home, state_folder)
    words = ["sh", "-c", _TELL, "crawlctl", UNIT, home, str(wish.lines), str(wish.since_s or ""), "1" * wish.follow]
    errors: list[str] = []
    exit_code = remote.watch(
        [*words, *files], doing=_DOING, on_out=take, on_err=errors.append, as_root=_may_be_root(remote)
    )
    if exit_code == NO_LOG:
        places = f"neither a service {UNIT} nor a file {' or '.join(files)} that may be read"
        hint = f"crawlctl nodes provision --on {host.name} makes it a node"
        raise HostRefusedError(host.name, _DOING, f"there is {places}", hint=hint)
    if exit_code != 0:
        raise HostRefusedError(host.name, _DOING, errors[-1] if errors else f"exit code {exit_code}")


def log_files(host: Host, home: str, state_folder: Path) -> list[str]:
    """Return where Scrapyd's log may be, the likeliest first."""
    wished = [host.provision.folder] if host.provision.folder else [SYSTEM_FOLDER, OWN_FOLDER]
    folders = [f"{home}/{each[2:]}" if each.startswith("~/") else each for each in wished]
    files = [Places(folder, home).log for folder in folders]
    if host.is_local:  # one that `crawlctl up` started
        files.append(str(state_folder / NODES_FOLDER / host.name / "scrapyd.log"))
    return files


def _may_be_root(remote: ByShell) -> bool:
    """Tell whether root's eyes can be had; without them the log may be readable all the same."""
    try:
        return remote.run(["true"], doing=_DOING, as_root=True).ok
    except HostUnauthorizedError:
        return False


def merged(outcomes: Outcomes[list[str]]) -> Iterator[LogLine]:
    """Return the lines of all hosts in the order of their times; a line without one belongs to the one before it."""
    streams = [_timed(outcome.node, outcome.value or ()) for outcome in outcomes]
    return (line for _, line in heapq.merge(*streams, key=lambda pair: pair[0]))


def _timed(host: NodeName, lines: Iterable[str]) -> Iterator[tuple[datetime, LogLine]]:
    at = datetime.min.replace(tzinfo=UTC)
    for text in lines:
        at = time_of(text) or at
        yield at, LogLine(host, text)


def time_of(line: str) -> datetime | None:
    """Return the time with which a line begins; without an offset it is UTC."""
    found = _TIME.match(line)
    try:
        at = datetime.fromisoformat(found[1].replace(",", ".")) if found else None
    except ValueError:
        return None
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)
