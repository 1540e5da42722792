"""A plan has what a host lacks and nothing else, survives being cut short anywhere, and shows no secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.paper_host import PINS, after, bare_facts, wanted, wanted_packages

from toolkit.model.hosts import Secret
from toolkit.provision.desired import Desired
from toolkit.provision.facts import Facts, FileFact, ServiceFact
from toolkit.provision.host_plan import StepKind
from toolkit.provision.node_security import NodeSecurity
from toolkit.provision.places import Places
from toolkit.provision.plan import plan

OWN_RIGHTS: dict[str, Any] = {
    "is_root": False,
    "service_user": "deploy",
    "has_service_user": True,
    "places": Places("/home/deploy/.local/share/crawlctl", "/home/deploy"),
    "sudo_error": "deploy may not use sudo",
}
HOSTS = {
    "system": (bare_facts(), wanted()),
    "stock": (bare_facts(redis={}), wanted(redis=None)),
    "user": (bare_facts(**OWN_RIGHTS, has_user_manager=True, can_linger=True), wanted()),
    "supervisor": (bare_facts(has_systemd=False), wanted()),
    "without cron": (bare_facts(**OWN_RIGHTS, has_cron=False), wanted()),
    "secured": (
        bare_facts(),
        wanted(security=NodeSecurity({"trusted.keys": Secret("key")}, {"trusted_keys": "trusted.keys"})),
    ),
}


@pytest.mark.parametrize(("facts", "desired"), HOSTS.values(), ids=HOSTS)
def test_performed_plan_leaves_nothing_to_do(facts: Facts, desired: Desired) -> None:
    first = plan(facts, desired)
    done = after(facts, desired, first)

    assert not first.problems
    assert not plan(done, desired).steps


@pytest.mark.parametrize(("facts", "desired"), HOSTS.values(), ids=HOSTS)
def test_plan_that_was_cut_short_anywhere_is_completed_by_the_next(facts: Facts, desired: Desired) -> None:
    whole = plan(facts, desired)
    for count in range(len(whole.steps)):
        half = after(facts, desired, whole, steps=count)
        rest = plan(half, desired)
        done = after(half, desired, rest)

        assert rest.steps, count
        assert not plan(done, desired).steps, count
        assert [each for each in done.services if each.is_active], count


@pytest.mark.parametrize(("facts", "desired"), HOSTS.values(), ids=HOSTS)
def test_change_that_was_cut_short_still_ends_in_a_restart(facts: Facts, desired: Desired) -> None:
    done = after(facts, desired, plan(facts, desired))
    changed = replace(desired, scrapyd={**desired.scrapyd, "max_proc": "7"})
    whole = plan(done, changed)
    restart = next(number for number, step in enumerate(whole.steps) if step.kind is StepKind.RESTART)
    for count in range(1, restart + 1):
        half = after(done, changed, whole, steps=count)

        assert StepKind.RESTART in {step.kind for step in plan(half, changed).steps}, count


def test_bare_host_gets_everything_in_the_order_in_which_it_is_needed() -> None:
    steps = plan(*HOSTS["system"]).steps

    kinds = list(dict.fromkeys(step.kind for step in steps))
    assert kinds == [
        *(StepKind.USER, StepKind.FOLDER, StepKind.CARRY, StepKind.PACKAGES, StepKind.FILE),
        *(StepKind.SERVICE, StepKind.RESTART, StepKind.RECORD),
    ]


def test_no_secret_is_in_what_a_plan_shows() -> None:
    facts, desired = HOSTS["secured"]
    shown = repr([(step, step.diff) for step in plan(facts, desired).steps])
    facts, desired = HOSTS["system"]
    changed = wanted({"password": Secret("swordfish")})
    again = plan(after(facts, desired, plan(facts, desired)), changed).steps

    for secret in ("hunter2", "letmein", "swordfish"):
        assert secret not in shown
        assert secret not in repr([(step, step.diff) for step in again])
    assert ("(a secret in it is another one)",) in [step.diff for step in again]


def test_changed_line_is_shown_as_a_difference_and_needs_a_restart_only_there() -> None:
    facts, desired = HOSTS["system"]
    done = after(facts, desired, plan(facts, desired))
    steps = plan(done, replace(desired, scrapyd={**desired.scrapyd, "max_proc": "7"})).steps

    assert [step.kind for step in steps] == [StepKind.FILE, StepKind.FILE, StepKind.RESTART, StepKind.RECORD]
    assert "+max_proc          = 7" in steps[0].diff
    assert "running spiders go on" in steps[2].why


def test_file_that_the_node_reads_by_itself_needs_no_restart() -> None:
    facts, desired = HOSTS["secured"]
    done = after(facts, desired, plan(facts, desired))
    steps = plan(done, replace(desired, extra_files={"trusted.keys": Secret("another")})).steps

    assert [step.kind for step in steps] == [StepKind.FILE, StepKind.RECORD]


def test_file_that_others_can_read_is_written_anew() -> None:
    facts, desired = HOSTS["system"]
    done = after(facts, desired, plan(facts, desired))
    path = facts.places.redis_url
    loose = replace(done, files={**done.files, path: replace(done.files[path], mode=0o644)})

    assert plan(loose, desired).steps[0].why == "has mode 0644, to be 0600"


def test_package_that_was_changed_on_the_host_is_named() -> None:
    facts, desired = HOSTS["system"]
    done = after(facts, desired, plan(facts, desired))
    assert done.environment is not None
    odd = replace(done.environment, packages={**done.environment.packages, "scrapy": "2.0", "more": "1"})
    steps = plan(replace(done, environment=odd), desired).steps

    assert steps[0].why == "scrapy 2.0 → 2.13.3"
    assert [step.kind for step in steps] == [StepKind.PACKAGES, StepKind.RESTART, StepKind.RECORD]


def test_other_versions_make_another_environment_and_a_new_patch_of_python_does_not() -> None:
    facts, desired = HOSTS["system"]
    done = after(facts, desired, plan(facts, desired))
    newer = wanted(packages=wanted_packages(pins=PINS.replace("2.13.3", "2.14.0")))
    assert done.python is not None
    patched = replace(done, python=replace(done.python, version=(3, 11, 9)))

    assert plan(done, newer).steps[0].why == "scrapy 2.13.3 → 2.14.0"
    assert not plan(patched, desired).steps


def test_packages_that_a_host_has_are_kept_while_no_versions_are_known() -> None:
    facts, desired = HOSTS["system"]
    done = after(facts, desired, plan(facts, desired))
    unpinned = wanted(packages=wanted_packages(pins=None))

    assert StepKind.PACKAGES not in {step.kind for step in plan(done, unpinned).steps}
    asked = wanted(packages=wanted_packages(pins=None, inputs="others"))
    assert "versions are still to be chosen" in next(
        step.why for step in plan(done, asked).steps if step.kind is StepKind.PACKAGES
    )


def test_only_wheels_that_the_host_lacks_are_carried(tmp_path: Path) -> None:
    for name in (
        "scrapy-2.13.3-py3-none-any.whl",
        "scrapyd-1.6.0-py3-none-any.whl",
        "uv-0.9.1-py3-none-linux_x86_64.whl",
    ):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "redis-6.4.0-py3-none-any.whl").write_bytes(b"")
    (tmp_path / "scrapy-2.12.0-py3-none-any.whl").write_bytes(b"")
    facts = bare_facts(wheels=frozenset({"redis-6.4.0-py3-none-any.whl"}))
    step = next(
        each
        for each in plan(facts, wanted(packages=wanted_packages(wheelhouse=tmp_path))).steps
        if each.kind is StepKind.CARRY
    )

    assert [each.name for each in step.carries] == [
        "crawlctl-1.0-py3-none-any.whl",
        "scrapy-2.13.3-py3-none-any.whl",
        "scrapyd-1.6.0-py3-none-any.whl",
        "uv-0.9.1-py3-none-linux_x86_64.whl",
    ]
    assert [each["do"] for each in step.operations] == ["program_of_wheel"]


def test_stopped_service_is_started_and_a_disabled_one_enabled() -> None:
    facts, desired = HOSTS["system"]
    done = after(facts, desired, plan(facts, desired))
    stopped = replace(done, services=(ServiceFact("system", is_active=False, is_enabled=False),))
    steps = plan(stopped, desired).steps

    assert [(step.kind, step.why) for step in steps[:2]] == [
        (StepKind.SERVICE, "is not enabled"),
        (StepKind.RESTART, "does not run"),
    ]


def test_restart_of_a_stock_node_says_that_its_spiders_end() -> None:
    facts, desired = HOSTS["stock"]
    done = after(facts, desired, plan(facts, desired))
    path = facts.places.configuration
    edited = replace(done, files={**done.files, path: FileFact("0", 0o600, "crawlctl", Secret("[scrapyd]\n"))})

    assert "running spiders end" in next(
        step.why for step in plan(edited, desired).steps if step.kind is StepKind.RESTART
    )
