"""A host on paper: facts that a plan is performed on, so that what a plan leads to is seen without any machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolkit.model.hosts import Host, Provisioning, Secret
from toolkit.model.names import NodeName
from toolkit.provision.desired import Desired, Packages, desired_state
from toolkit.provision.facts import EnvironmentFact, Facts, FileFact, PythonFact, ServiceFact
from toolkit.provision.host_plan import HostPlan, Step, StepKind
from toolkit.provision.node_security import NodeSecurity
from toolkit.provision.packages import versions_of
from toolkit.provision.places import Places
from toolkit.provision.plan import recorded

PINS = "redis==6.4.0\nscrapy==2.13.3\nscrapyd==1.6.0\nuv==0.9.1\n"
REDIS = Secret("redis://:letmein@10.0.0.9:6379/0")


def bare_facts(**changes: Any) -> Facts:
    """Return the facts of a fresh Debian host, with sudo and systemd, but for the changes."""
    given: dict[str, Any] = {
        "host": NodeName("node-1"),
        "places": Places("/opt/crawlctl", "/home/deploy"),
        "user": "deploy",
        "is_root": True,
        "service_user": "crawlctl",
        "has_service_user": False,
        "python": PythonFact("/usr/bin/python3", (3, 11, 2)),
        "clock_s": 1_800_000_000.0,
        "disk_free_mb": 10_000,
        "has_cron": True,
        "redis": {"10.0.0.9:6379": None},
    }
    return Facts(**{**given, **changes})


def wanted_packages(**changes: Any) -> Packages:
    """Return packages whose versions are chosen, but for the changes."""
    wheel = Path("/wheels/crawlctl-1.0-py3-none-any.whl")
    return replace(Packages(wheel, "0wn", "1nputs", pins=PINS), **changes)


def wanted(
    host: Mapping[str, Any] | None = None,
    provision: Mapping[str, Any] | None = None,
    *,
    redis: Secret | None = REDIS,
    packages: Packages | None = None,
    security: NodeSecurity | None = None,
) -> Desired:
    """Return the desired state of a host, a node of the shared queue unless there is no Redis."""
    plain = Host(NodeName("node-1"), "10.0.0.1", username="crawlctl", password=Secret("hunter2"))
    changed = replace(plain, **{**(host or {}), "provision": Provisioning(**(provision or {}))})
    own = packages or wanted_packages()
    return desired_state(changed, own, redis=redis, cluster="main", security=security or NodeSecurity())


def after(facts: Facts, desired: Desired, plan: HostPlan, *, steps: int | None = None) -> Facts:
    """Return the facts once these many steps of the plan, all unless given, were performed."""
    for step in plan.steps[:steps]:
        facts = _stepped(facts, desired, plan, step)
    return facts


def _stepped(facts: Facts, desired: Desired, plan: HostPlan, step: Step) -> Facts:
    carried = [each.target for each in step.carries]
    wheels = {part for path in carried if path.startswith(facts.places.wheels) for part in path.split("/")[4:5]}
    facts = replace(facts, wheels=facts.wheels | wheels, uv="0.9.1" if facts.places.uv in carried else facts.uv)
    for operation in step.operations:
        facts = _done(facts, plan, operation)
    if step.kind is StepKind.RECORD:
        facts = replace(facts, record=json.loads(json.dumps(recorded(facts, desired, plan.manager))))
    return facts


def _done(facts: Facts, plan: HostPlan, operation: Mapping[str, Any]) -> Facts:
    act = {
        "user": lambda: replace(facts, has_service_user=True),
        "folder": lambda: _with_folder(facts, operation),
        "file": lambda: _with_file(facts, operation),
        "remove": lambda: replace(facts, is_restart_due=False),
        "program_of_wheel": lambda: replace(facts, uv="0.9.1"),
        "environment": lambda: facts,
        "link": lambda: _with_environment(facts, operation, plan),
        "command": lambda: _commanded(facts, plan, list(operation["words"])),
        "crontab": lambda: replace(facts, crontab="".join(f"{line}\n" for line in operation["lines"])),
        "answers": lambda: facts,
    }
    return act[operation["do"]]()


def _with_folder(facts: Facts, made: Mapping[str, Any]) -> Facts:
    return replace(facts, folders={**facts.folders, made["path"]: FileFact("", made["mode"], made["owner"])})


def _with_file(facts: Facts, written: Mapping[str, Any]) -> Facts:
    if written["path"] == facts.places.restart_due:
        return replace(facts, is_restart_due=True)
    digest = hashlib.sha256(written["text"].encode()).hexdigest()
    file = FileFact(digest, written["mode"], written["owner"], Secret(written["text"]))
    return replace(facts, files={**facts.files, written["path"]: file})


def _with_environment(facts: Facts, linked: Mapping[str, Any], plan: HostPlan) -> Facts:
    made = next(each for step in plan.steps for each in step.operations if each["do"] == "environment")
    noted = made["noted"]
    name = linked["target"].rpartition("/")[2]
    packages = versions_of(noted["pins"])
    found = EnvironmentFact(
        name, packages, is_complete=True, inputs=noted["inputs"], pins=noted["pins"], own_digest=noted["own"]
    )
    return replace(facts, environment=found)


def _commanded(facts: Facts, plan: HostPlan, words: list[str]) -> Facts:
    if "enable-linger" in words:
        return replace(facts, lingers=True)
    found = facts.service(plan.manager) or ServiceFact(plan.manager, is_active=False, is_enabled=False)
    if "daemon-reload" in words:
        found = replace(found, needs_reload=False)
    if "enable" in words:
        found = replace(found, is_enabled=True)
    if {"start", "restart"} & set(words):
        found = replace(found, is_active=True, is_enabled=found.is_enabled or plan.manager == "supervisor")
    return replace(facts, services=(found,))
