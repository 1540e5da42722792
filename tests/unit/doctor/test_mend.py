"""What `--fix` does: it looks again before it acts, and says why where it could not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.stores import SHOP, V1, a_lock

from toolkit.cluster.nodes import Nodes
from toolkit.config.inventory import Inventory
from toolkit.doctor.examine import Patient
from toolkit.doctor.judged import WARNING, BringEgg, EndOrphan, Judged, Remedy, WithdrawOffer, found
from toolkit.doctor.mend import mend, remedies, said_of, with_mended
from toolkit.model.hosts import Host, Provisioning
from toolkit.model.names import NodeName
from toolkit.provision.connect import connector
from toolkit.runs.process import start_of
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store

HERE = Host(NodeName("node-1"), connection="local", provision=Provisioning(python=sys.executable))


@contextmanager
def patient_of(folder: Path, *hosts: Host) -> Iterator[tuple[Patient, Store]]:
    store = open_store(None, folder)
    patient = Patient(Inventory(folder / "i.yaml", None, hosts, {}), hosts, Nodes([]), lambda: store, None, folder)
    try:
        yield patient, store
    finally:
        store.close()


def a_finding(remedy: Remedy | None) -> Judged:
    return found("host-orphan", WARNING, "runs what nobody knows", node=NodeName("node-1"), remedy=remedy)


def treated(patient: Patient, remedy: Remedy) -> Judged:
    steps: list[str] = []
    (done,) = mend(patient, [a_finding(remedy)], on_step=steps.append)
    assert steps == [said_of(a_finding(remedy))]
    return done


def test_only_what_has_a_remedy_is_treated_and_the_rest_stays() -> None:
    orphan = EndOrphan(NodeName("node-1"), 7, "boot:1", as_root=False)
    other, one = a_finding(None), a_finding(orphan)
    assert remedies([other, one]) == [one]
    assert with_mended([other, one], [one]) == [other, one]
    assert one.finding.is_fixable
    assert not other.finding.is_fixable


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_an_orphan_is_asked_to_close_and_another_process_of_its_id_is_not(tmp_path: Path) -> None:
    with patient_of(tmp_path, HERE) as (without_way, _), subprocess.Popen(["sleep", "60"]) as sleeper:
        patient = Patient(
            without_way.inventory,
            without_way.hosts,
            without_way.nodes,
            without_way.open_store,
            connector(tmp_path),
            tmp_path,
        )
        other = EndOrphan(HERE.name, sleeper.pid, "another boot:1", as_root=False)
        assert treated(patient, other).finding.fixed == "it had ended by itself"
        assert sleeper.poll() is None
        orphan = EndOrphan(HERE.name, sleeper.pid, str(start_of(sleeper.pid)), as_root=False)
        failed = treated(without_way, orphan).finding
        assert failed.fixed is None
        assert "could not be mended" in failed.text
        assert treated(patient, orphan).finding.fixed == "it has ended"
        assert sleeper.wait(20)


def test_nothing_is_done_while_somebody_else_works_on_the_project(tmp_path: Path) -> None:
    with patient_of(tmp_path) as (patient, store):
        a_lock(store)
        done = treated(patient, WithdrawOffer(SHOP)).finding
        assert done.fixed is None
        assert "there is no Redis" in done.text or "locked" in done.text


def test_what_would_be_done_is_said_beforehand() -> None:
    told = said_of(a_finding(BringEgg(NodeName("node-1"), SHOP, V1)))
    assert told == f"bring {SHOP} {V1} to node-1, from the store"
    assert said_of(a_finding(None)) == ""
