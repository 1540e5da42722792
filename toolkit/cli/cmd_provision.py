"""The commands that make nodes of bare hosts: nodes provision, nodes wheelhouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.command import OnOption, YesOption, command
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolkit.model.hosts import Host
    from toolkit.model.outcomes import Outcomes
    from toolkit.model.provisioning import Provisioned
    from toolkit.provision.provisioning import Provisioning
    from toolkit.provision.remote import Remote

    Work = Callable[[Remote, Callable[[str], object]], Provisioned]

WheelhouseOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Wheels to carry to hosts that reach no package index.", show_default=False),
]
TrustOption = Annotated[
    bool, typer.Option("--trust-new-keys", help="Take the keys of hosts that were never seen before, and keep them.")
]
ParallelOption = Annotated[int, typer.Option(metavar="N", min=1, help="How many hosts are worked on at once.")]


def add_to_nodes(nodes: typer.Typer) -> None:
    """Register these commands."""
    command(
        nodes,
        "crawlctl nodes provision --dry-run",
        "crawlctl nodes provision --on eu --wheelhouse wheels --yes",
        "crawlctl nodes provision --on @failed",
        audit="nodes provision",
    )(provision)
    command(
        nodes,
        "crawlctl nodes wheelhouse wheels",
        "crawlctl nodes wheelhouse wheels --python 3.12 --platform linux-aarch64 -r requirements.txt",
    )(wheelhouse)


def provision(
    session: Session,
    on: OnOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan of each host; change nothing.")] = False,
    wheelhouse: WheelhouseOption = None,
    trust_new_keys: TrustOption = False,
    parallel: ParallelOption = 32,
    yes: YesOption = False,
) -> None:
    """Make nodes of hosts over SSH: user, folders, packages, configuration, service; only what is not so already."""
    from toolkit.model.errors import UsageError
    from toolkit.views.provision import plans_view, provisioned_view

    if not (yes or dry_run or session.printer.is_for_people):
        raise UsageError("--output json asks nothing", hint="say it beforehand: --yes, or --dry-run for the plan alone")
    hosts = session.hosts(on)
    work = _Everywhere(session, trust_new_keys=trust_new_keys, parallel=parallel)
    with provisioning_of(session, wheelhouse) as engine:
        if dry_run or not yes:
            planned = work.on(hosts, engine.dry_run)
            session.audit_nothing()
            session.printer.show(plans_view(planned))
        if dry_run or (not yes and not _is_wanted(session, planned)):
            _end_by(session, planned, "planned")
            return
        session.audit(nodes=[host.name for host in hosts])
        done = work.on(hosts, engine.provision, remembers=True)
    session.printer.show(provisioned_view(done))
    _end_by(session, done, "provisioned")


def wheelhouse(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the wheels go; it is made if need be.")],
    python: Annotated[str, typer.Option(metavar="VERSION", help="The Python of the hosts.")] = "3.11",
    platform: Annotated[
        str, typer.Option(metavar="NAME", help="What the hosts are: linux-x86_64 or linux-aarch64.")
    ] = "linux-x86_64",
    requirements: Annotated[
        Path | None, typer.Option("--requirements", "-r", metavar="FILE", help="What spiders need beside Scrapy.")
    ] = None,
    constraints: Annotated[
        Path | None, typer.Option("--constraints", "-c", metavar="FILE", help="Versions that packages must have.")
    ] = None,
) -> None:
    """Fetch all wheels that a node needs, for hosts that reach no package index; then: nodes provision --wheelhouse."""
    from toolkit.provision.wheelhouse import fill
    from toolkit.views.provision import wheelhouse_view

    with session.printer.busy(lambda: "fetching wheels"):
        filled = fill(folder, python=python, platform=platform, requirements=requirements, constraints=constraints)
    session.printer.show(wheelhouse_view(filled))


@contextmanager
def provisioning_of(session: Session, wheelhouse: Path | None, *, chooses_anew: bool = False) -> Iterator[Provisioning]:
    """Give what provisions the inventory's hosts, and take away afterwards what it needed for that."""
    import tempfile

    from toolkit.provision.provisioning import Provisioning
    from toolkit.rollout.lock import operator

    with tempfile.TemporaryDirectory(prefix="crawlctl-") as scratch:
        yield Provisioning(
            session.inventory,
            session.state_folder,
            scratch=Path(scratch),
            who=operator(),
            wheelhouse=wheelhouse,
            chooses_anew=chooses_anew,
        )


class _Everywhere:
    """Work on hosts with what people see of it meanwhile."""

    def __init__(self, session: Session, *, trust_new_keys: bool, parallel: int) -> None:
        self._session = session
        self._trust_new_keys = trust_new_keys
        self._parallel = parallel

    def on(self, hosts: Sequence[Host], act: Work, *, remembers: bool = False) -> Outcomes[Provisioned]:
        """Do it on all hosts; what failed is remembered for `--on @failed`, also when Ctrl-C came."""
        from toolkit.cli.host_progress import HostProgress
        from toolkit.cluster.fanout import InterruptedFanOutError
        from toolkit.provision.connect import connector
        from toolkit.provision.everywhere import everywhere
        from toolkit.views.provision import provisioned_view

        printer = self._session.printer
        connect = connector(self._session.state_folder, trust_new_keys=self._trust_new_keys, on_new_key=printer.say)
        progress = HostProgress(printer, [host.name for host in hosts])
        try:
            with progress.shown():
                done = everywhere(
                    hosts, connect, act, parallel=self._parallel, on_step=progress.step, on_done=progress.done
                )
        except InterruptedFanOutError as interrupted:
            if remembers:
                self._remember(interrupted.outcomes)
                printer.show(provisioned_view(interrupted.outcomes))
            raise self._session.interrupted() from None
        if remembers:
            self._remember(done)
        return done

    def _remember(self, done: Outcomes[Provisioned]) -> None:
        from toolkit.provision.failed_hosts import remember_failed

        tried = [outcome.node for outcome in done]
        remember_failed(self._session.state_folder, tried=tried, failed=[outcome.node for outcome in done.failed])


def _is_wanted(session: Session, planned: Outcomes[Provisioned]) -> bool:
    changed = [outcome for outcome in planned if outcome.value is not None and outcome.value.is_changed]
    return bool(changed) and session.printer.confirm(f"Change {len(changed)} of {len(planned)} host(s)?")


def _end_by(session: Session, done: Outcomes[Provisioned], what: str) -> None:
    from toolkit.model.errors import HostUnreachableError, NodesFailedError, NothingReachableError

    if not done.failed:
        return
    first = done.failed[0].error
    text = f"{len(done.failed)} of {len(done)} host(s) could not be {what}: {first}"
    hint = (first.hint if first else None) or "crawlctl nodes provision --on @failed tries those again"
    if len(done.failed) == len(done) and all(isinstance(each.error, HostUnreachableError) for each in done):
        raise session.failed(NothingReachableError(text, hint=hint))
    raise session.failed(NodesFailedError(text, hint=hint))
