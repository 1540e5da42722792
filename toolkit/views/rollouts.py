"""How builds, deploys, releases and prunes are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.outcomes import Outcomes
from toolkit.model.releases import DeployResult, NodeResult, Pruned, Release, Rollout
from toolkit.model.rollouts import WaveRollout
from toolkit.views.contract import node_result_row, release_row, rollout_row, time_text
from toolkit.views.view import FittedTable, Styled, View, plain_table

SHORT_DIGEST = 12


def deploy_view(result: DeployResult, *, rollout: WaveRollout | None = None) -> View:
    """Show what a deploy or rollback did, node by node; `rollout` where it was one in waves."""
    data = {
        "project": result.project,
        "version": result.version,
        "digest": result.digest,
        "active": result.is_active,
        "changed": result.is_changed,
        "nodes": [node_result_row(each) for each in result.results],
        "rollout": None if rollout is None else {"id": rollout.id, "state": rollout.state.value, "why": rollout.why},
    }
    return View(data, lambda: results_table(result.results))


def results_table(results: Sequence[NodeResult]) -> FittedTable:
    """Lay out one row a node."""
    rows = [
        (
            each.node,
            _verdict(each),
            each.step,
            f"{each.seconds:.2f}",
            each.spiders,
            each.error,
        )
        for each in results
    ]
    return plain_table(
        "NODE",
        "RESULT",
        "STEP",
        "SECONDS",
        "SPIDERS",
        "WHY",
        rows=rows,
        right=("SECONDS", "SPIDERS"),
        spare=("SECONDS",),
    )


def _verdict(result: NodeResult) -> Styled:
    """Say how a node fared; one that did it right, and gave it back because others did not, has not failed."""
    if result.ok:
        return Styled("ok", "green")
    return Styled("undone", "yellow") if result.step == "undone" else Styled("failed", "red")


def steps_table(
    order: Sequence[NodeName],
    steps: Mapping[NodeName, str],
    done: Mapping[NodeName, NodeResult],
    *,
    stage: str = "",
) -> FittedTable:
    """Lay out a rollout under way: the nodes that are at work first, as many as a screen takes."""
    at_work = [name for name in order if name in steps and name not in done]
    failed = [name for name in order if name in done and not done[name].ok]
    rows: list[tuple[object, object]] = [(name, Styled(steps[name], "cyan")) for name in at_work[:10]]
    rows += [(name, Styled(f"failed: {done[name].step}", "red")) for name in failed[:5]]
    table = plain_table("NODE", "STEP", rows=rows)
    table.caption = f"{len(done)} of {len(order)} done, {len(failed)} failed{f'; {stage}' if stage else ''}"
    return table


def plan_view(
    project: ProjectName,
    version: VersionName,
    digest: str,
    outcomes: Outcomes[str],
    *,
    waves: Mapping[NodeName, int] | None = None,
) -> View:
    """Show what a deploy would do, and in which wave, counted from 1, where there are waves."""
    places = waves or {}
    words = {
        "hold": "nothing: it holds this version",
        "upload": "upload, read back, activate",
        "later": "nothing now: it is lost, and installs it when it is back",
    }
    nodes = [
        {
            "name": each.node,
            "ok": each.ok,
            "step": each.value,
            "error": str(each.error) if each.error else None,
            "wave": places.get(each.node),
        }
        for each in outcomes
    ]
    data = {"project": project, "version": version, "digest": digest, "dry_run": True, "nodes": nodes}
    rows = [
        (each.node, places.get(each.node), words[each.value] if each.value else Styled(f"fail: {each.error}", "red"))
        for each in outcomes
    ]
    return View(data, lambda: plain_table("NODE", "WAVE", "WOULD", rows=rows, optional={"WAVE"}))


def egg_view(egg: Mapping[str, Any]) -> View:
    """Show an egg that was built: project, file, digest, size_bytes, files, builder, left_out, spiders."""
    spiders = egg["spiders"]
    own = " (in an environment of its own)" if egg["environment"] else ""
    rows = [
        ("project", egg["project"]),
        ("file", egg["file"]),
        ("digest", egg["digest"]),
        ("size", f"{egg['size_bytes'] / 1000:.1f} kB in {egg['files']} files, by {egg['builder']}"),
        ("spiders", None if spiders is None else ", ".join(spiders)),
        *(("left out", f"{name} (it looks like a secret)") for name in egg["left_out"]),
        *(("needs", f"{need}{own}") for need in egg["needs"]),
        *(("remark", remark) for remark in egg["remarks"]),
    ]
    return View(dict(egg), lambda: plain_table("EGG", "", rows=rows))


def releases_view(entries: Sequence[tuple[Release, bool, Sequence[NodeName]]]) -> View:
    """Show releases: each with whether it is active and who was proven to hold it."""
    data = [release_row(release, is_active=active, nodes=list(nodes)) for release, active, nodes in entries]
    rows = [
        (
            release.project,
            release.version,
            _release_state(release, is_active=active),
            release.digest[:SHORT_DIGEST],
            (release.revision or "")[:SHORT_DIGEST] or None,
            len(release.spiders),
            time_text(release.created_at),
            release.created_by,
            len(nodes),
        )
        for release, active, nodes in entries
    ]
    columns = ("PROJECT", "VERSION", "STATE", "DIGEST", "REVISION", "SPIDERS", "MADE", "BY", "NODES")
    return View(
        data,
        lambda: plain_table(
            *columns, rows=rows, right=("SPIDERS", "NODES"), spare=("BY", "DIGEST", "REVISION", "SPIDERS")
        ),
    )


def _release_state(release: Release, *, is_active: bool) -> Styled:
    own = "own environment" if release.has_environment else ""
    return Styled(", ".join(filter(None, ["active" if is_active else "", own])), "green" if is_active else "")


def history_view(entries: Sequence[Rollout]) -> View:
    """Show rollouts, newest first, with what each node said."""
    rows = [
        (
            time_text(entry.at),
            entry.kind,
            entry.project,
            entry.version,
            Styled("activated", "green") if entry.activated else Styled("undone", "red"),
            entry.by,
            f"{sum(each.ok for each in entry.results)}/{len(entry.results)}",
            "; ".join(f"{each.node}: {each.error}" for each in entry.results if each.error) or None,
        )
        for entry in entries
    ]
    columns = ("AT", "WHAT", "PROJECT", "VERSION", "RESULT", "BY", "NODES", "WHY")
    return View(
        [rollout_row(entry) for entry in entries], lambda: plain_table(*columns, rows=rows, spare=("BY", "PROJECT"))
    )


def prune_view(pruned: Pruned, *, is_dry_run: bool) -> View:
    """Show what a prune took off, or would."""
    data = {
        "project": pruned.project,
        "removed": list(pruned.removed),
        "kept": list(pruned.kept),
        "dry_run": is_dry_run,
        "errors": [{"name": node, "error": why} for node, why in pruned.errors],
    }
    verb = "would be removed" if is_dry_run else "not removed everywhere" if pruned.errors else "removed"
    rows = [(version, verb) for version in pruned.removed] + [(version, "kept") for version in pruned.kept]
    return View(data, lambda: plain_table("VERSION", "RESULT", rows=rows))
