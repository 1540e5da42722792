"""A fleet's nodes misbehave one by one, as told, and the others go on."""

from __future__ import annotations

import hashlib
import http.client
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import http_calls
from support.eggs import small_egg
from support.fleet import Fleet, address_of
from support.waiting import wait_until


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet(nodes=3, slow_s=0.3, project="shop", spiders=("products", "prices"), finished=2) as fleet:
        yield fleet


@pytest.fixture(autouse=True)
def mended(fleet: Fleet) -> Iterator[None]:
    yield
    for host in fleet.hosts:
        fleet.set_faults(host.name, {})


def test_every_node_has_an_address_of_its_own() -> None:
    addresses = [address_of(i) for i in range(1_000)]
    assert len(set(addresses)) == 1_000
    assert (addresses[0], addresses[250], addresses[999]) == ("127.64.0.1", "127.64.1.1", "127.64.3.250")


def test_what_every_node_holds_from_the_start_is_there(fleet: Fleet) -> None:
    for url in fleet.urls:
        assert http_calls.get(f"{url}/listspiders.json", {"project": "shop"}).json()["spiders"] == [
            "products",
            "prices",
        ]
        assert http_calls.get(f"{url}/daemonstatus.json").json()["finished"] == 2


@pytest.mark.parametrize(("fault", "status"), [("500", 500), ("401", 401), ("html", 200), ("error", 200)])
def test_a_fault_is_one_nodes_own(fleet: Fleet, fault: str, status: int) -> None:
    fleet.set_faults("sim-002", {"*": fault})
    answers = [http_calls.get(f"{url}/listprojects.json") for url in fleet.urls]
    assert [answer.status for answer in answers] == [200, status, 200]
    assert [b'"shop"' in answer.body for answer in answers] == [True, False, True]


def test_a_fault_can_be_one_endpoints_own(fleet: Fleet) -> None:
    fleet.set_faults("sim-001", {"addversion.json": "reset"})
    with pytest.raises(ConnectionResetError):
        http_calls.post(f"{fleet.urls[0]}/addversion.json", files={"egg": small_egg()})
    assert http_calls.get(f"{fleet.urls[0]}/listprojects.json").status == 200


def test_a_hanging_node_answers_nothing(fleet: Fleet) -> None:
    fleet.set_faults("sim-003", {"*": "hang"})
    with pytest.raises(TimeoutError):
        http_calls.get(f"{fleet.urls[2]}/daemonstatus.json", timeout_s=0.3)


def test_a_dripping_node_takes_its_time(fleet: Fleet) -> None:
    fleet.set_faults("sim-003", {"*": "drip"})
    with pytest.raises(TimeoutError):
        http_calls.get(f"{fleet.urls[2]}/daemonstatus.json", timeout_s=0.3)


def test_half_an_answer_is_half_an_answer(fleet: Fleet) -> None:
    fleet.set_faults("sim-001", {"*": "half"})
    with pytest.raises(http.client.IncompleteRead):
        http_calls.get(f"{fleet.urls[0]}/daemonstatus.json")


def test_a_slow_node_is_late_and_right(fleet: Fleet) -> None:
    fleet.set_faults("sim-001", {"*": "slow"})
    began = time.monotonic()
    assert http_calls.get(f"{fleet.urls[0]}/daemonstatus.json").json()["status"] == "ok"
    assert time.monotonic() - began >= 0.3


def test_an_upload_is_kept_by_digest_and_its_spiders_are_found() -> None:
    egg = small_egg(("omega", "alpha"))
    with Fleet(nodes=1) as fleet:
        fields = {"project": "small", "version": "v1"}
        assert http_calls.post(f"{fleet.urls[0]}/addversion.json", fields, files={"egg": egg}).json()["spiders"] == 2
        spiders = http_calls.get(f"{fleet.urls[0]}/listspiders.json", {"project": "small"}).json()["spiders"]
        report = fleet.report("sim-001")
    assert spiders == ["alpha", "omega"]
    assert report["eggs"] == {"small": {"v1": {"digest": hashlib.sha256(egg).hexdigest(), "size": len(egg)}}}
    assert report["calls"] == {"addversion.json": 1, "listspiders.json": 1}


def test_uploads_take_their_time_on_all_nodes_at_once() -> None:
    with Fleet(nodes=20, addversion_s=1.0) as fleet, ThreadPoolExecutor(20) as pool:
        fields, files = {"project": "small", "version": "v1"}, {"egg": small_egg()}
        began = time.monotonic()
        answers = pool.map(lambda url: http_calls.post(f"{url}/addversion.json", fields, files=files), fleet.urls)
        assert all(answer.json()["status"] == "ok" for answer in answers)
        # One after the other they would take twenty seconds.
        assert 1.0 <= time.monotonic() - began < 15
        assert fleet.calls("addversion.json") == 20


def test_a_job_waits_for_a_slot_runs_and_finishes() -> None:
    with Fleet(nodes=1, slots=1, job_s=600, project="shop") as fleet:
        for duration_s in ("0.2", "600"):
            fields = {"project": "shop", "spider": "products", "duration_s": duration_s}
            http_calls.post(f"{fleet.urls[0]}/schedule.json", fields)
        url = f"{fleet.urls[0]}/daemonstatus.json"
        wait_until(lambda: http_calls.get(url).json()["finished"], deadline_s=30, what="the short job to finish")
        counts = http_calls.get(url).json()
    assert (counts["pending"], counts["running"], counts["finished"]) == (0, 1, 1)


def test_a_thousand_nodes_are_up_in_seconds() -> None:
    with Fleet(nodes=1_000) as fleet, ThreadPoolExecutor(16) as pool:
        names = pool.map(lambda url: http_calls.get(f"{url}/daemonstatus.json").json()["node_name"], fleet.urls)
        assert list(names) == [host.name for host in fleet.hosts]
