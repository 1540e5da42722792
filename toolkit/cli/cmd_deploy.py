"""The commands about releases: build, deploy, releases, rollback, prune."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.command import RELEASES, OnOption, ProjectOption, command
from toolkit.cli.session import Session
from toolkit.cli.waves import (
    CanaryOption,
    CheckItemsOption,
    CheckOption,
    CheckTimeoutOption,
    HoldOption,
    MaxFailuresOption,
    PauseOption,
    WavesOption,
    WaveWishes,
    planned_waves,
    roll_out,
)

if TYPE_CHECKING:
    from toolkit.cluster.nodes import Nodes
    from toolkit.config.project import ScrapyProject
    from toolkit.model.names import NodeName, ProjectName
    from toolkit.model.releases import DeployResult, NodeResult
    from toolkit.rollout.egg import Egg, Treatment
    from toolkit.rollout.preflight import Preflight
    from toolkit.rollout.push import Cargo

ProjectFolder = Annotated[
    Path,
    typer.Argument(metavar="PROJECT_DIR", help="The folder of scrapy.cfg, or one below it.", show_default="here"),
]
IncludeDependencies = Annotated[
    bool, typer.Option("--include-dependencies", help="Pack what requirements.txt asks for into the egg.")
]
SyncDeps = Annotated[
    bool, typer.Option("--sync-deps", help="Let each node run it in an environment of its own with its requirements.")
]
NoCheckDeps = Annotated[
    bool, typer.Option("--no-check-deps", help="Leave its requirements out: no node looks whether it has them.")
]
StealOption = Annotated[bool, typer.Option("--steal", help="Take the lock over from the rollout that holds it.")]


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    command(app, "crawlctl build", "crawlctl build projects/shop -o shop.egg --check", panel=RELEASES)(build)
    command(
        app,
        "crawlctl deploy",
        "crawlctl deploy projects/shop --on eu --dry-run",
        "crawlctl deploy --egg shop.egg -p shop --version 2026-11-21",
        "crawlctl deploy --canary 1 --waves 10%,50%,100% --pause 2m --max-failures 5% --check products",
        panel=RELEASES,
        audit="deploy",
    )(deploy)
    command(app, "crawlctl releases", "crawlctl releases shop --history", panel=RELEASES)(releases)
    command(
        app, "crawlctl rollback", "crawlctl rollback 20261120-101500-9f3c2a1 -p shop", panel=RELEASES, audit="rollback"
    )(rollback)
    command(app, "crawlctl prune --keep 5", "crawlctl prune -p shop --strays --dry-run", panel=RELEASES, audit="prune")(
        prune
    )


def build(
    session: Session,
    project_dir: ProjectFolder = Path(),
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where to write the egg.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="List its spiders as a node would; without -o, write no file.")
    ] = False,
    include_dependencies: IncludeDependencies = False,
    sync_deps: SyncDeps = False,
    no_check_deps: NoCheckDeps = False,
) -> None:
    """Build a project's egg: the same source gives the same bytes, and your folder stays untouched."""
    from toolkit.config.project import find_project
    from toolkit.rollout.egg import build_egg, write_egg
    from toolkit.rollout.preflight import preflight
    from toolkit.views.rollouts import egg_view

    project = find_project(project_dir)
    treatment = _treatment(sync_deps=sync_deps, no_check_deps=no_check_deps, is_packed=include_dependencies)
    egg = build_egg(project, include_dependencies=include_dependencies, treatment=treatment)
    spiders = preflight(project.root, egg, environ=os.environ) if check else None
    path = None if check and out is None else out or Path(f"{project.name}.egg")
    if path is not None:
        write_egg(egg, path)
    shown = {
        "project": project.name,
        "digest": egg.digest,
        "size_bytes": len(egg.content),
        "files": egg.files,
        "builder": egg.builder,
        "left_out": list(egg.left_out),
        "needs": list(egg.needs),
        "environment": egg.has_environment,
        "remarks": list(egg.remarks),
        "spiders": None if spiders is None else list(spiders),
        "file": str(path) if path else None,
    }
    session.printer.show(egg_view(shown))


def deploy(
    session: Session,
    project_dir: ProjectFolder = Path(),
    on: OnOption = None,
    project: ProjectOption = None,
    version: Annotated[
        str | None, typer.Option(help="The version's name; made from time and content otherwise.")
    ] = None,
    egg: Annotated[
        Path | None, typer.Option("--egg", metavar="FILE", help="Use this egg instead of building one.")
    ] = None,
    include_dependencies: IncludeDependencies = False,
    sync_deps: SyncDeps = False,
    no_check_deps: NoCheckDeps = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen on each node, and change nothing.")
    ] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Activate on the nodes that took it, even if others failed.")
    ] = False,
    canary: CanaryOption = None,
    waves: WavesOption = None,
    pause: PauseOption = None,
    max_failures: MaxFailuresOption = None,
    check: CheckOption = None,
    check_timeout: CheckTimeoutOption = None,
    check_items: CheckItemsOption = None,
    hold: HoldOption = False,
    steal: StealOption = False,
) -> None:
    """Ship a project to every node, read it back from each, and make it the active release; or undo it all."""
    from toolkit.rollout.preflight import begin_preflight

    wishes = WaveWishes(canary, waves, pause, max_failures, check, check_timeout, check_items, hold)
    wishes.refuse_mixture(keep_going=keep_going)
    treatment = _treatment(sync_deps=sync_deps, no_check_deps=no_check_deps, is_packed=include_dependencies)
    scrapy_project, built = _egg(project_dir, project, egg, include_dependencies=include_dependencies, how=treatment)
    with begin_preflight(scrapy_project.root, built, environ=os.environ) as tried:
        # All this takes about as long as the project's own Python needs to list the spiders beside it.
        from toolkit.cli.concluding import conclude, end_by
        from toolkit.rollout.deploy import InterruptedDeployError, plan
        from toolkit.rollout.version import source_revision
        from toolkit.views.rollouts import deploy_view, plan_view

        session.printer.get_ready()
        nodes = session.nodes(on)
        revision = None if egg else source_revision(scrapy_project.root)
        cargo = _cargo(session, scrapy_project, built, version, tried)
    session.audit(f"{cargo.project} {cargo.version}", nodes=nodes.names)
    if dry_run:
        session.audit_nothing()
        outcomes = plan(nodes, session.store, cargo, is_whole=on is None)
        planned = planned_waves(session, nodes, cargo, wishes, is_whole=on is None)
        session.printer.show(plan_view(cargo.project, cargo.version, cargo.digest, outcomes, waves=planned))
        end_by(session, [outcome.error for outcome in outcomes.failed], len(outcomes), f"deploying {cargo.project}")
        return
    if wishes.are_any:
        roll_out(session, nodes, cargo, wishes, revision=revision, steal=steal, is_whole=on is None)
        return
    try:
        choices = {"keep_going": keep_going, "steal": steal, "is_whole": on is None}
        result = _with_progress(session, nodes, cargo, revision=revision, **choices)
    except InterruptedDeployError as interrupted:
        session.printer.show(deploy_view(interrupted.result))
        session.printer.say(f"what had been brought was taken back; {cargo.project} is as it was before")
        raise session.interrupted() from None
    except KeyboardInterrupt:
        session.printer.say(
            f"interrupted again, before everything was taken back: {cargo.version} may still be on some nodes; "
            f"crawlctl prune -p {cargo.project} --strays takes it off"
        )
        raise
    session.audit(nodes=[each.node for each in result.results])
    session.printer.show(deploy_view(result))
    conclude(session, result, "deploy")


def releases(
    session: Session,
    project: Annotated[
        str | None, typer.Argument(metavar="PROJECT", help="Only this project.", autocompletion=completion.projects)
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show every rollout instead: who, when, on which nodes.")
    ] = False,
) -> None:
    """List the releases, newest first: which is active, who made it from what, which nodes hold it."""
    from toolkit.model.errors import NotFoundError
    from toolkit.views.rollouts import history_view, releases_view

    store = session.store.releases
    known = store.projects()
    if project is not None and project not in known:
        raise NotFoundError(f"no release of {project!r} is known", hint="crawlctl deploy makes the first one")
    chosen = [name for name in known if project in {None, name}]
    if history:
        entries = [entry for name in chosen for entry in store.history(name)]
        session.printer.show(history_view(sorted(entries, key=lambda entry: entry.at, reverse=True)))
        return
    active = {name: release.version for name, release in store.actives().items()}
    session.printer.show(
        releases_view(
            [
                (release, active.get(name) == release.version, sorted(store.holders(name, release.version)))
                for name in chosen
                for release in store.releases(name)
            ]
        )
    )


def rollback(
    session: Session,
    version: Annotated[
        str | None,
        typer.Argument(
            metavar="VERSION",
            help="The release to return to; the one before the active one unless given.",
            autocompletion=completion.versions,
        ),
    ] = None,
    project: ProjectOption = None,
    on: OnOption = None,
    steal: StealOption = False,
) -> None:
    """Make an earlier release active again: one write, once every node that answers has shown that it holds it."""
    from toolkit.cli.concluding import conclude
    from toolkit.model.names import VersionName
    from toolkit.rollout.rollback import rollback as roll_back
    from toolkit.views.rollouts import deploy_view

    name = _project_name(session, project)
    target = None if version is None else VersionName(version)
    session.audit(f"{name} to {version or 'the release before'}")
    result = roll_back(session.nodes(on), session.store, name, to=target, steal=steal, is_whole=on is None)
    session.audit(f"{name} to {result.version}", nodes=[each.node for each in result.results])
    session.printer.show(deploy_view(result))
    conclude(session, result, "rollback")


def prune(
    session: Session,
    keep: Annotated[int, typer.Option(min=1, help="How many of the newest releases stay.")] = 5,
    project: ProjectOption = None,
    strays: Annotated[
        bool, typer.Option("--strays", help="Also versions that no release knows, as a killed deploy leaves them.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    steal: StealOption = False,
) -> None:
    """Take old releases off the nodes; never the active one, nor one that runs or waits to run."""
    from toolkit.model.errors import NodesFailedError
    from toolkit.rollout.prune import prune as take_off
    from toolkit.views.rollouts import prune_view

    name = _project_name(session, project)
    nodes = session.nodes()
    session.audit(name)
    if dry_run:
        session.audit_nothing()
    pruned = take_off(nodes, session.store, name, keep=keep, takes_strays=strays, is_dry_run=dry_run, steal=steal)
    session.audit(detail=f"{len(pruned.removed)} version(s) removed", nodes=nodes.names if pruned.removed else ())
    session.printer.show(prune_view(pruned, is_dry_run=dry_run))
    if pruned.errors:
        why = "; ".join(f"{node}: {error}" for node, error in pruned.errors)
        raise session.failed(NodesFailedError(f"not everything could be removed: {why}", hint="run it again later"))


def _treatment(*, sync_deps: bool, no_check_deps: bool, is_packed: bool) -> Treatment:
    """Return how the project's requirements are treated."""
    from toolkit.model.errors import UsageError
    from toolkit.rollout.egg import Treatment

    if sync_deps and (no_check_deps or is_packed):
        other = "--no-check-deps" if no_check_deps else "--include-dependencies"
        raise UsageError(f"--sync-deps and {other} exclude each other")
    return Treatment.INSTALL if sync_deps else Treatment.IGNORE if no_check_deps else Treatment.CHECK


def _egg(
    folder: Path, project: str | None, file: Path | None, *, include_dependencies: bool, how: Treatment
) -> tuple[ScrapyProject, Egg]:
    """Build the egg, or read the one given; the project's name comes from its scrapy.cfg unless `-p` says otherwise."""
    from toolkit.config.project import ScrapyProject, find_project
    from toolkit.model.names import check_project
    from toolkit.rollout.egg import build_egg, read_egg, with_needs

    named = None if project is None else check_project(project)
    if file is not None:
        egg = with_needs(read_egg(file), how)
        name = named or check_project(egg.settings_module.partition(".")[0])
        return ScrapyProject(file.parent.resolve(), name, egg.settings_module), egg
    found = find_project(folder)
    found = replace(found, name=named or found.name)
    return found, build_egg(found, include_dependencies=include_dependencies, treatment=how)


def _cargo(session: Session, project: ScrapyProject, egg: Egg, version: str | None, tried: Preflight) -> Cargo:
    """Name the egg's version, and wait for its trial to end well: no node is touched before that."""
    from toolkit.model.names import check_version, spider_problem
    from toolkit.rollout.deploy import choose_version
    from toolkit.rollout.push import Cargo
    from toolkit.rollout.signing import signed

    wanted = None if version is None else check_version(version)
    for name in egg.left_out:
        session.printer.say(f"left out of the egg, since it looks like a secret: {name}", style="yellow")
    for remark in egg.remarks:
        session.printer.say(remark, style="yellow")
    chosen = choose_version(session.store, project.name, egg.digest, wanted=wanted)
    spiders = tried.spiders()
    for spider in spiders:
        if problem := spider_problem(spider):
            session.printer.say(f"Scrapyd cannot run the spider {spider!r}: {problem}", style="yellow")
    cargo = Cargo(project.name, chosen, egg.content, egg.digest, spiders, egg.needs, egg.has_environment)
    return signed(session.store, cargo, session.keyring.signing_key())


def _with_progress(
    session: Session,
    nodes: Nodes,
    cargo: Cargo,
    *,
    revision: str | None,
    keep_going: bool,
    steal: bool,
    is_whole: bool,
) -> DeployResult:
    from toolkit.rollout.deploy import deploy as roll_out
    from toolkit.views.rollouts import steps_table

    steps: dict[NodeName, str] = {}
    done: dict[NodeName, NodeResult] = {}
    session.printer.say(f"{cargo.project} {cargo.version}: {len(cargo.spiders)} spider(s), {len(nodes)} node(s)")
    # Nodes that only the registry knows follow those of the inventory, as they come.
    with session.printer.live(lambda: steps_table([*dict.fromkeys([*nodes.names, *steps])], steps, done)):
        return roll_out(
            nodes,
            session.store,
            cargo,
            revision=revision,
            keep_going=keep_going,
            steal=steal,
            is_whole=is_whole,
            on_step=steps.__setitem__,
            on_done=lambda result: done.__setitem__(result.node, result),
        )


def _project_name(session: Session, project: str | None) -> ProjectName:
    """Return the project that is meant: the one named, this folder's, or the only one with releases."""
    from toolkit.config.project import find_project
    from toolkit.model.errors import ProjectError, UsageError
    from toolkit.model.names import check_project

    if project is not None:
        return check_project(project)
    known = session.store.releases.projects()
    if len(known) == 1:
        return known[0]
    try:
        return find_project(Path()).name
    except ProjectError:
        names = ", ".join(known) or "none has a release yet"
        raise UsageError("which project?", hint=f"name one with -p: {names}") from None
