"""Nodes tell sinks what happens: each once at a time, in order, and whoever dies."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.certificates import make_certificate
from support.desk import Desk
from support.hook_server import HookServer
from support.mail_server import MailServer
from support.plugin_node import PluginNode, running_plugin_nodes, shared_of, shared_store
from support.redis_server import RedisServer
from support.waiting import wait_until

from toolkit.cluster.alerts import try_sink
from toolkit.model.alerts import Alerts, Rule, Sink, SinkKind
from toolkit.model.events import Event, EventKind
from toolkit.model.hosts import Secret
from toolkit.store.interfaces import Shared

SOON_S = 60.0
KEY = Secret("a secret of sixteen")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("alerts")


@pytest.fixture(scope="module")
def nodes(redis_server: RedisServer, folder: Path) -> Iterator[list[PluginNode]]:
    redis_server.flush()
    code = f"import sys; open({str(folder / 'paged')!r}, 'ab').write(sys.stdin.buffer.read() + bytes([10]))"
    (folder / "page.py").write_text(code)
    own = {"alert_commands": f"page={sys.executable} -S {folder / 'page.py'}"}
    with running_plugin_nodes(2, redis_url=redis_server.url, folder=folder, own=own) as nodes:
        yield nodes


@pytest.fixture
def shared(nodes: list[PluginNode], redis_server: RedisServer, tmp_path: Path) -> Iterator[Shared]:
    for node in nodes:
        if not node.is_running:
            node.start()
    with shared_store(redis_server.url, tmp_path) as store:
        yield shared_of(store)
        shared_of(store).alerts.put(Alerts(), by="test")


def told(shared: Shared, *subjects: str) -> str:
    """Let jobs fail; return the id of the last event."""
    about = {"project": "shop", "spider": "books"}
    return [shared.events.note(Event(EventKind.JOB_FAILED, subject, about)) for subject in subjects][-1]


def every_failure(*sinks: Sink) -> Alerts:
    rule = Rule("failures", tuple(sink.name for sink in sinks), events=("job.failed",))
    return Alerts({sink.name: sink for sink in sinks}, {"failures": rule})


def test_every_kind_of_sink_is_told_and_one_that_is_away_blocks_no_other(
    shared: Shared, folder: Path, tmp_path: Path
) -> None:
    certificate = make_certificate(tmp_path)
    authority = certificate[0].read_text()
    with (
        HookServer(certificate=certificate, answers=[500, 503]) as hook,
        HookServer() as slack,
        MailServer(login=("crawl", "hunter2"), certificate=certificate) as mail,
    ):
        alerts = every_failure(
            Sink("hook", SinkKind.WEBHOOK, url=Secret(hook.url), secret=KEY, ca=authority),
            Sink("team", SinkKind.SLACK, url=Secret(slack.url)),
            Sink(
                *("mail", SinkKind.EMAIL),
                server="127.0.0.1",
                port=mail.port,
                username="crawl",
                password=Secret("hunter2"),
                sender="crawl@example.com",
                recipients=("ann@example.com",),
                ca=authority,
            ),
            Sink("pager", SinkKind.COMMAND, program="page"),
            Sink("away", SinkKind.WEBHOOK, url=Secret("http://127.0.0.1:9/x")),
            Sink("nobody", SinkKind.COMMAND, program="what no node permits"),
        )
        shared.alerts.put(alerts, by="ann")
        told(shared, "j1", "j2")
        wait_until(lambda: len(hook.taken) == 2 and len(slack.posted) == 2, deadline_s=SOON_S, what="both hooks")
        wait_until(lambda: len(mail.mails) == 2, deadline_s=SOON_S, what="the mails")
        wait_until(
            lambda: (folder / "paged").exists() and len((folder / "paged").read_bytes().splitlines()) == 2,
            deadline_s=SOON_S,
            what="the program",
        )
        # What failed was tried again under the same key, and nothing went before it.
        assert [each.status for each in hook.posted] == [500, 503, 204, 204]
        assert len({each.key for each in hook.posted[:3]}) == 1
        assert [each.subjects for each in hook.taken] == [["j1"], ["j2"]]
        assert [json.loads(line)["events"][0]["subject"] for line in (folder / "paged").read_bytes().splitlines()] == [
            *("j1", "j2")
        ]
        # Nodes take one sink after the other, in any order: the one that is away may be the last.
        wait_until(lambda: shared.alerts.states(["away"])["away"].tries, deadline_s=SOON_S, what="a try of the third")
        states = shared.alerts.states(list(alerts.sinks))
        assert states["away"].error is not None
        assert states["nobody"].by is None
        assert try_sink(shared, "hook", by="ann", timeout_s=SOON_S) < SOON_S


def test_a_message_is_never_twice_under_way_and_none_is_lost_when_its_teller_is_killed(
    shared: Shared, nodes: list[PluginNode]
) -> None:
    subjects = [f"j{number}" for number in range(1, 13)]
    with HookServer(takes_s=0.2) as hook:
        alerts = every_failure(Sink("hook", SinkKind.WEBHOOK, url=Secret(hook.url), timeout_s=5.0))
        shared.alerts.put(alerts, by="ann")
        told(shared, *subjects)
        wait_until(lambda: len(hook.posted) >= 3, deadline_s=SOON_S, what="the first messages")
        teller = next(node for node in nodes if node.name == shared.alerts.states(["hook"])["hook"].by)
        teller.kill()
        wait_until(lambda: hook.taken[-1].subjects == subjects[-1:], deadline_s=SOON_S, what="the last message")
        assert shared.alerts.states(["hook"])["hook"].by not in {None, teller.name}
        # What was under way when its teller died may come once more, in its place.
        once = list(dict.fromkeys(each.subjects[0] for each in hook.posted))
        assert once == subjects
        assert len(hook.posted) <= len(subjects) + 1
        assert set(hook.most_at_once.values()) == {1}
        assert shared.alerts.failed() == ()
        # One that is stopped in order gives the sink back, instead of letting the lease run out.
        nodes[0 if teller is nodes[1] else 1].stop()
        assert shared.alerts.states(["hook"])["hook"].by is None


ALERTS = """
alerts:
  sinks:
    hook: {kind: webhook, url: {env: HOOK_URL}, secret: {env: HOOK_SECRET}}
    refusing: {kind: slack, url: {env: REFUSING_URL}}
  rules:
    failures: {events: [job.failed], to: [hook], severity: critical}
    slow: {no_progress: 15m, to: [hook], quiet: "22:00-07:00 Europe/Berlin"}
"""


def test_an_operator_applies_tries_and_silences_and_no_secret_is_shown(
    shared: Shared, nodes: list[PluginNode], redis_server: RedisServer, tmp_path: Path
) -> None:
    secrets = ["a secret of sixteen", "T0P-S3CRET"]
    with HookServer() as hook, HookServer(answers=[403] * 50) as refusing:
        desk = Desk.of(nodes, redis_server.url, tmp_path / "desk", secrets=secrets)
        environ = {"HOOK_URL": hook.url, "HOOK_SECRET": secrets[0], "REFUSING_URL": refusing.url}
        assert "no section alerts" in desk.error("alerts", "apply", exit_code=3)
        inventory = desk.folder / "inventory.yaml"
        inventory.write_text(json.dumps(yaml.safe_load(inventory.read_text()) | yaml.safe_load(ALERTS)))
        desk.run("jobs", "list")  # wants no secret of a sink
        assert "HOOK_URL is not set" in desk.run("alerts", "apply", "--dry-run", exit_code=3).err
        planned = desk.json("alerts", "apply", "--dry-run", env=environ)
        assert [each["name"] for each in planned] == ["hook", "refusing", "failures", "slow"]
        assert desk.json("alerts")["sinks"] == []
        assert desk.json("alerts", "apply", env=environ) == planned
        assert desk.json("alerts", "apply", env=environ) == []
        assert desk.json("alerts", "test", "hook")["delivered"]
        assert hook.posted[0].json["events"][0]["kind"] == "alert.firing"
        assert "answers 403" in desk.run("alerts", "test", "refusing", exit_code=4).err
        refusing.mend()
        assert desk.json("alerts", "test", "refusing")["delivered"]
        assert "did you mean 'hook'" in desk.run("alerts", "test", "hok", exit_code=7).err
        desk.run("alerts", "silence", "failures", "--for", "1h")
        passed = told(shared, "j1")
        wait_until(lambda: shared.alerts.states(["hook"])["hook"].cursor >= passed, deadline_s=SOON_S, what="silence")
        told_of = desk.json("alerts", "list")
        assert [rule["silent_until"] is not None for rule in told_of["rules"]] == [True, False]
        assert desk.json("alerts", "unsilence", "failures") == {"rule": "failures", "was_silent": True}
        told(shared, "j2")
        wait_until(lambda: len(hook.taken) == 2, deadline_s=SOON_S, what="the failure")
        assert hook.taken[1].subjects == ["j2"]
        # A message is noted as delivered once the hook has answered, which is after it has come.
        both = ["hook", "refusing"]
        wait_until(
            lambda: all(state.delivered == 2 for state in shared.alerts.states(both).values()),
            deadline_s=SOON_S,
            what="the deliveries to be noted",
        )
        sinks = {sink["name"]: sink for sink in desk.json("alerts")["sinks"]}
        assert sinks["hook"]["where"] == hook.url.partition("/hooks")[0] + "/***"
        assert [(sinks[name]["delivered"], sinks[name]["error"]) for name in sinks] == [(2, None), (2, None)]
        for words in (["alerts"], ["alerts", "show", "hook"], ["alerts", "failed"]):
            desk.run(*words)
        done = [(entry["action"], entry["result"]) for entry in reversed(desk.json("audit"))]
        assert ("alerts apply", "done") in done
        assert ("alerts silence", "done") in done
