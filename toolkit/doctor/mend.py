"""Does the safe remedies of `--fix`: each looks again before it acts, and nothing that a job may need is taken away."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import resources

from toolkit.cluster.registry import Registry
from toolkit.doctor.examine import Patient
from toolkit.doctor.judged import BringEgg, EndOrphan, Judged, RemoveStrays, WithdrawOffer
from toolkit.model.errors import CrawlctlError, HostRefusedError, NodesFailedError, NotFoundError, RefusedError
from toolkit.model.names import ProjectName
from toolkit.rollout.lock import holding_lock
from toolkit.rollout.plugged import bring, end_offers
from toolkit.rollout.prune import prune
from toolkit.rollout.push import push
from toolkit.rollout.shipment import cargo_of
from toolkit.rollout.targets import Target, targets_of
from toolkit.store.interfaces import Shared, Store

WHY = "doctor --fix"
ALL_RELEASES = sys.maxsize
GONE_WITHIN_S = 10.0


def remedies(judged: Sequence[Judged]) -> list[Judged]:
    """Return the findings that `--fix` can do something about. Pure."""
    return [each for each in judged if each.remedy is not None]


def said_of(each: Judged) -> str:
    """Say in a few words what would be done. Pure."""
    match each.remedy:
        case BringEgg(node, project, version):
            return f"bring {project} {version} to {node}, from the store"
        case RemoveStrays(project):
            return f"remove the versions of {project} that no release knows and no job needs, from every node picked"
        case WithdrawOffer(project):
            return f"take back what a killed deploy of {project} left on offer"
        case EndOrphan(node, pid):
            return f"ask process {pid} on {node} to end (SIGINT): its job is recorded as ended"
        case None:
            return ""


def mend(patient: Patient, chosen: Sequence[Judged], *, on_step: Callable[[str], object]) -> list[Judged]:
    """Do the remedies of these findings, one after another; return each as it is now.

    A finding that was mended says how in `fixed`; another one says in its text why not, and stays what it was.
    """
    mended: list[Judged] = []
    for each in chosen:
        on_step(said_of(each))
        try:
            done = _do(patient, each)
            finding = replace(each.finding, fixed=done)
        except CrawlctlError as error:
            finding = replace(each.finding, text=f"{each.finding.text}; could not be mended: {error.message}")
        mended.append(replace(each, finding=finding))
    return mended


def with_mended(judged: Sequence[Judged], mended: Iterable[Judged]) -> list[Judged]:
    """Return all findings, those that were treated as they are now. Pure."""
    treated = {each.remedy: each for each in mended}
    return [treated.get(each.remedy, each) if each.remedy is not None else each for each in judged]


def _do(patient: Patient, each: Judged) -> str:
    match each.remedy:
        case BringEgg() as egg:
            return _bring(patient, egg)
        case RemoveStrays(project):
            return _remove_strays(patient, project)
        case WithdrawOffer(project):
            return _withdraw(patient, project)
        case EndOrphan() as orphan:
            return _end(patient, orphan)
    raise AssertionError(f"no remedy for {each.finding.check}")


def _bring(patient: Patient, egg: BringEgg) -> str:
    store = patient.open_store()
    shared = _shared(store)
    with holding_lock(store.releases, egg.project, why=WHY):
        release = store.releases.active(egg.project)
        if release is None or release.version != egg.version:
            raise RefusedError(f"{egg.project} {egg.version} is not the active release any more")
        content = shared.eggs.fetch(release.digest)
        if content is None:
            raise NotFoundError(
                f"the store has no egg of {egg.project} {egg.version}", hint="crawlctl deploy brings it"
            )
        cargo = cargo_of(store, release, content)
        target = _target(patient, store, egg)
        pushed = (
            bring(target, cargo, Registry(store), on_step=_quietly)
            if target.record is not None
            else push(patient.nodes[egg.node], cargo, on_step=_quietly)
        )
    if not pushed.result.is_proven:
        raise pushed.error or NodesFailedError(f"{egg.node}: {pushed.result.error}")
    return f"{egg.node} holds {egg.project} {egg.version} now ({pushed.result.step})"


def _remove_strays(patient: Patient, project: ProjectName) -> str:
    store = patient.open_store()
    if store.rollouts.open(project) is not None:
        raise RefusedError(f"a rollout of {project} has begun meanwhile")
    pruned = prune(patient.nodes, store, project, keep=ALL_RELEASES, takes_strays=True)
    if pruned.errors:
        node, why = pruned.errors[0]
        raise NodesFailedError(f"{node}: {why}")
    if not pruned.removed:
        raise RefusedError("jobs need them, or the nodes that hold them were not picked")
    return f"removed {', '.join(pruned.removed)}"


def _withdraw(patient: Patient, project: ProjectName) -> str:
    store = patient.open_store()
    shared = _shared(store)
    with holding_lock(store.releases, project, why=WHY):
        if store.rollouts.open(project) is not None:
            raise RefusedError(f"a rollout of {project} has begun meanwhile")
        end_offers(shared.eggs, project)
        shared.eggs.drop_unused()
    return "it is no longer on offer"


def _end(patient: Patient, orphan: EndOrphan) -> str:
    host = next(host for host in patient.hosts if host.name == orphan.node)
    if patient.connect is None:
        raise RefusedError("nothing is done over SSH with --no-ssh")
    remote = patient.connect(host)
    try:
        words = [host.provision.python, "-", str(orphan.pid), orphan.start, f"{GONE_WITHIN_S:g}"]
        doing = f"ending process {orphan.pid}"
        script = resources.files("toolkit.doctor").joinpath("end_script.py").read_bytes()
        ran = remote.run(words, doing=doing, as_root=orphan.as_root, stdin=script, timeout_s=3 * GONE_WITHIN_S)
        if not ran.ok:
            raise HostRefusedError(host.name, doing, ran.last_words)
        return ran.stdout.strip()
    finally:
        remote.close()


def _target(patient: Patient, store: Store, egg: BringEgg) -> Target:
    found = targets_of(patient.nodes.only([egg.node]), store, is_whole=False)
    if not found:
        raise NotFoundError(f"{egg.node} is not among the picked hosts")
    return found[0]


def _shared(store: Store) -> Shared:
    if store.shared is None:
        raise RefusedError("there is no Redis that keeps eggs")
    return store.shared


def _quietly(_node: str, _step: str) -> None:
    """Nobody is told of the steps of one node."""
