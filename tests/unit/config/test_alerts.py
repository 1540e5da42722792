"""The section `alerts` of an inventory: what it means, and every mistake at its place."""

from __future__ import annotations

import json
from datetime import time
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from toolkit.config.inventory import load
from toolkit.config.inventory.alerts import load_alerts
from toolkit.config.inventory.schema import json_schema
from toolkit.model.alerts import Action, InQuiet, MailTls, Quiet, RuleKind, Severity, SinkKind
from toolkit.model.errors import InventoryError
from toolkit.model.hosts import Secret

HOSTS = "hosts: {node-1: }\n"
WHOLE = """
alerts:
  sinks:
    hook: {kind: webhook, url: {env: HOOK_URL}, secret: {env: HOOK_SECRET}, give_up: 1h30m}
    team: {kind: slack, url: "https://hooks.example/x"}
    mail:
      kind: email
      server: mail.example
      tls: implicit
      username: crawl
      password: {file: mail.password}
      sender: crawl@example.com
      recipients: [ann@example.com, bob@example.com]
    pager: {kind: command, program: page, timeout_s: 30}
  rules:
    failures: {events: [job.failed, node.*], project: shop, to: [hook, team], every: 10m, severity: critical}
    slow: {no_progress: 15m, do: pause, to: mail, quiet: "22:00-07:00 Europe/Berlin", when_quiet: drop}
    errors: {errors_per_minute: 20, within: 5m, to: [mail], tell_over: no}
    few: {items_below: 50%, of_last: 5, spider: "b*", quiet: "12:00-13:00"}
    waiting: {waiting_longer_than: 10m, to: pager}
"""
ENVIRON = {"HOOK_URL": "https://hook.example/T0P", "HOOK_SECRET": "a secret of sixteen"}


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "inventory.yaml"
    path.write_text(HOSTS + WHOLE)
    (tmp_path / "mail.password").write_text("hunter2\n")
    (tmp_path / "mail.password").chmod(0o600)
    return path


def test_a_whole_section_is_read(inventory: Path) -> None:
    alerts = load_alerts(inventory, environ=ENVIRON)
    assert alerts is not None
    hook, team, mail, pager = alerts.sinks.values()
    assert (hook.kind, hook.url, hook.secret) == (
        SinkKind.WEBHOOK,
        Secret(ENVIRON["HOOK_URL"]),
        Secret(ENVIRON["HOOK_SECRET"]),
    )
    assert hook.give_up_s == 5400
    assert team.kind is SinkKind.SLACK
    assert (mail.tls, mail.password, mail.recipients) == (
        MailTls.IMPLICIT,
        Secret("hunter2"),
        ("ann@example.com", "bob@example.com"),
    )
    assert (pager.program, pager.timeout_s) == ("page", 30.0)
    failures, slow, errors, few, waiting = alerts.rules.values()
    assert (failures.events, failures.to, failures.every_s) == (("job.failed", "node.*"), ("hook", "team"), 600)
    assert (failures.severity, failures.project, failures.do) == (Severity.CRITICAL, "shop", Action.NONE)
    assert (slow.kind, slow.within_s, slow.do, slow.to) == (RuleKind.PROGRESS, 900, Action.PAUSE, ("mail",))
    assert (slow.quiet, slow.in_quiet) == (Quiet(time(22), time(7), "Europe/Berlin"), InQuiet.DROP)
    assert (errors.threshold, errors.within_s, errors.tells_over) == (20, 300, False)
    assert (few.threshold, few.of_last, few.spider, few.quiet) == (0.5, 5, "b*", Quiet(time(12), time(13)))
    assert (waiting.kind, waiting.within_s) == (RuleKind.WAITING, 600)


def test_no_other_command_needs_the_secrets_of_sinks(inventory: Path) -> None:
    assert load(inventory, environ={}).has_alerts
    with pytest.raises(InventoryError, match="HOOK_URL is not set"):
        load_alerts(inventory, environ={})
    assert load_alerts(inventory, resolve=False, environ={}) is not None


def test_it_may_stand_in_a_file_of_its_own(inventory: Path) -> None:
    (inventory.parent / "alerts.yaml").write_text("\n".join(line[2:] for line in WHOLE.splitlines()[2:]))
    whole = load_alerts(inventory, environ=ENVIRON)
    inventory.write_text(f"{HOSTS}alerts: alerts.yaml\n")
    assert load_alerts(inventory, environ=ENVIRON) == whole
    inventory.write_text(HOSTS)
    assert load_alerts(inventory, environ=ENVIRON) is None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("sinks: {a: {kind: webhok}}", "kind is webhook or slack or email or command, not 'webhok': did you mean"),
        ("sinks: {a: {url: 'http://x'}}", "sink a has no kind"),
        ("sinks: {a: {kind: webhook}}", "sink a has no url: a sink of kind webhook needs one"),
        ("sinks: {a: {kind: slack, url: 'https://x', server: m}}", "a sink of kind slack has no server"),
        ("sinks: {a: {kind: webhook, url: 'ftp://T0P'}}", "url is a URL that begins with https:// or http://"),
        ("sinks: {a: {kind: webhook, url: 'http://x:99999/T0P'}}", "url cannot be read: its host or its port is none"),
        ("sinks: {a: {kind: webhook, url: 'http://x', secret: short}}", "secret is a text of at least 16 characters"),
        ("sinks: {a: {kind: email, server: m, sender: a@b, recipients: [bob]}}", "'bob' is no mail address"),
        ("sinks: {a: {kind: email, server: m, sender: 'Ann <a@b', recipients: c@d}}", "'Ann <a@b' is no mail address"),
        ("sinks: {a: {kind: email, server: m, sender: a@b, recipients: []}}", "recipients is an empty list"),
        (
            "sinks: {a: {kind: email, server: m, sender: a@b, recipients: c@d, username: x}}",
            "one of username and password",
        ),
        (
            "sinks: {a: {kind: email, server: m, sender: a@b, recipients: c@d, username: x, password: y, tls: none}}",
            "would send its password in the clear",
        ),
        ("sinks: {a b: {kind: command, program: x}}", "'a b' cannot be a name"),
        ("sinks: {a: {kind: command, program: 'rm -rf /'}}", "program is up to 100 letters"),
        ("rules: {r: {to: [a]}}", "rule r watches one of events, errors_per_minute"),
        ("rules: {r: {events: [job.failed], no_progress: 5m}}", "not events and no_progress"),
        ("rules: {r: {events: [job.faild]}}", "no event is of a kind 'job.faild': did you mean 'job.failed'?"),
        (
            "sinks: {hook: {kind: command, program: x}}\n  rules: {r: {no_progress: 5m, to: hok}}",
            "did you mean 'hook'?",
        ),
        ("rules: {r: {no_progress: soon}}", "no_progress is a span of time, as in 30s"),
        ("rules: {r: {events: [job.*], do: pause}}", "do has no meaning beside events"),
        ("rules: {r: {items_below: 0.5}}", "items_below is a share in per cent, as in 50%"),
        ("rules: {r: {no_progress: 5m, quiet: '22:00-25:00'}}", "quiet is a time of day and a zone"),
        ("rules: {r: {no_progress: 5m, quiet: '22:00-07:00 Europe/Berln'}}", "no zone 'Europe/Berln'"),
        ("rules: {r: {no_progress: 5m, quiet: '07:00-07:00'}}", "quiet begins when it ends"),
        ("rule: {}", "unknown key 'rule': did you mean 'rules'?"),
    ],
)
def test_a_mistake_is_told_where_it_stands_and_shows_no_secret(line: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(f"{HOSTS}alerts:\n  {line}\n")
    with pytest.raises(InventoryError) as caught:
        load_alerts(path, environ={})
    assert says in caught.value.message
    assert f"{path}:" in caught.value.message
    assert "T0P" not in caught.value.message


def test_the_schema_knows_the_section() -> None:
    validator = Draft202012Validator(json_schema())
    whole = yaml.safe_load(HOSTS + WHOLE)
    whole["alerts"]["rules"]["errors"]["tell_over"] = "no"
    assert list(validator.iter_errors(whole)) == []
    for wrong in ('{"sinks": {"a": {"kind": "smtp"}}}', '{"rules": {"r": {"every": "soon"}}}', '{"rulez": {}}'):
        assert list(validator.iter_errors({"hosts": {"a": None}, "alerts": json.loads(wrong)}))
