"""The commands that reach hosts over SSH and change nothing by themselves: nodes exec, nodes logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.command import OnOption, command
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from toolkit.cli.printer import Printer
    from toolkit.model.executed import LogLine
    from toolkit.model.hosts import Host
    from toolkit.model.outcomes import Outcomes
    from toolkit.provision.connect import Door

TrustOption = Annotated[
    bool, typer.Option("--trust-new-keys", help="Take the keys of hosts that were never seen before, and keep them.")
]
ParallelOption = Annotated[int, typer.Option(metavar="N", min=1, help="How many hosts are worked on at once.")]


def add_to_nodes(nodes: typer.Typer) -> None:
    """Register these commands."""
    command(
        nodes,
        "crawlctl nodes exec -- df -h /",
        "crawlctl nodes exec --on eu --root -- 'journalctl --disk-usage | tail -1'",
        name="exec",
        passes_on=True,
        audit="nodes exec",
    )(exec_)
    command(nodes, "crawlctl nodes logs --on node-1 --since 10m", "crawlctl nodes logs -f")(logs)


def exec_(
    session: Session,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="-- CMD...", help="The command's words, run as they are; a single one is a line for the host's sh."
        ),
    ],
    on: OnOption = None,
    root: Annotated[bool, typer.Option("--root", help="Run it as root, by sudo where the login is not root.")] = False,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long it may run; then it is ended there.")
    ] = None,
    parallel: ParallelOption = 32,
    trust_new_keys: TrustOption = False,
) -> None:
    """Run a command on hosts over SSH, and show what it writes as it comes, each line after its host's name."""
    from toolkit.cli.durations import seconds
    from toolkit.cli.prefixed import PrefixedLines
    from toolkit.cluster.fanout import InterruptedFanOutError
    from toolkit.provision.executing import execute
    from toolkit.views.hosts import is_good

    timeout_s = None if timeout is None else float(seconds(timeout))
    hosts = session.hosts(on)
    session.audit(nodes=[host.name for host in hosts], detail="as root" if root else None)
    lines = PrefixedLines(session.printer, [host.name for host in hosts])
    try:
        done = execute(
            hosts,
            _door(session, trust_new_keys=trust_new_keys),
            words,
            on_line=lines.print,
            as_root=root,
            timeout_s=timeout_s,
            parallel=parallel,
        )
    except InterruptedFanOutError as interrupted:
        _show_ends(session, interrupted.outcomes)
        raise
    _show_ends(session, done)
    _end_by(session, done, [outcome.node for outcome in done if not is_good(outcome)], "the command failed on")


def logs(
    session: Session,
    on: OnOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=0, help="The last N lines of each; 100 unless given, 10 with -f.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Only what is not older, as in 10m, 2h.")
    ] = None,
    trust_new_keys: TrustOption = False,
) -> None:
    """Print what nodes' own services log, read over SSH: Scrapyd's log, not that of jobs (crawlctl logs)."""
    from toolkit.cli.durations import seconds
    from toolkit.provision.service_logs import DEFAULT_LINES, LogWish, merged, tell_logs

    count = (10 if follow else DEFAULT_LINES) if lines is None else lines
    wish = LogWish(count, None if since is None else seconds(since), follow=follow)
    hosts = session.hosts(on)
    door, out = _door(session, trust_new_keys=trust_new_keys), _LogLines(session.printer, hosts)
    told = tell_logs(hosts, door, wish, state_folder=session.state_folder, on_line=out.show_one if follow else None)
    if not follow:
        out.show(list(merged(told)))
    for error in (outcome.error for outcome in told.failed):
        session.printer.say(f"{error} ({error.hint})" if error and error.hint else str(error), style="red")
    _end_by(session, told, [outcome.node for outcome in told.failed], "there is no log of")


class _LogLines:
    """Shows lines of logs: to people with a prefix, to programs as objects."""

    def __init__(self, printer: Printer, hosts: Sequence[Host]) -> None:
        from toolkit.cli.prefixed import PrefixedLines

        self._printer = printer
        self._prefixed = PrefixedLines(printer, [host.name for host in hosts])

    def show_one(self, line: LogLine) -> None:
        """Show a line as it comes, from any thread."""
        from toolkit.views.hosts import log_line_view

        if self._printer.is_for_people:
            self._prefixed.print(line.host, line.text)
        else:
            self._printer.redraw(log_line_view(line))

    def show(self, lines: Sequence[LogLine]) -> None:
        """Show all lines."""
        from toolkit.views.hosts import log_view

        if self._printer.is_for_people:
            for line in lines:
                self._prefixed.print(line.host, line.text)
        else:
            self._printer.show(log_view(lines))


def _door(session: Session, *, trust_new_keys: bool) -> Door:
    from toolkit.provision.connect import connector

    return connector(session.state_folder, trust_new_keys=trust_new_keys, on_new_key=session.printer.say)


def _show_ends(session: Session, done: Outcomes[Any]) -> None:
    """Show the ends: to people beside what was written, on stderr; to programs as the result."""
    from toolkit.views.hosts import executed_view

    view = executed_view(done)
    if session.printer.is_for_people:
        session.printer.err.print(view.table())
    else:
        session.printer.show(view)


def _end_by(session: Session, done: Outcomes[Any], bad: list[str], what: str) -> None:
    """End well, or say on which hosts not."""
    from toolkit.model.errors import HostTimeoutError, HostUnreachableError, NodesFailedError, NothingReachableError

    if not bad:
        return
    errors = [outcome.error for outcome in done]
    if all(isinstance(each, HostUnreachableError) and not isinstance(each, HostTimeoutError) for each in errors):
        message = f"none of {len(done)} host(s) could be reached: {done.each[0].error}"
        raise session.failed(NothingReachableError(message, hint="crawlctl doctor looks at the way"))
    raise session.failed(NodesFailedError(f"{what} {len(bad)} of {len(done)} host(s): {', '.join(bad[:10])}"))
