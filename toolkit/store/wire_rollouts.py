"""How a rollout in waves looks at rest."""

from __future__ import annotations

from typing import Any

from toolkit.model.names import JobId, NodeName, SpiderName, VersionName
from toolkit.model.rollouts import (
    Allowance,
    GateRules,
    RolloutState,
    Smoke,
    SmokeCheck,
    Wave,
    WaveRollout,
    WaveState,
)
from toolkit.store.envelope import read, write
from toolkit.store.fields import Fields
from toolkit.store.wire import release_body, release_in, result_body, results_in, time_text

_WHAT = "rollout in waves"


def write_wave_rollout(rollout: WaveRollout) -> str:
    """Return the rollout as JSON."""
    return write(
        {
            "id": rollout.id,
            "release": release_body(rollout.release),
            "former": rollout.former,
            "state": rollout.state.value,
            "rules": _rules_body(rollout.rules),
            "waves": [_wave_body(wave) for wave in rollout.waves],
            "who": rollout.who,
            "began_at": time_text(rollout.began_at),
            "changed_at": time_text(rollout.changed_at),
            "token": rollout.token,
            "why": rollout.why,
        }
    )


def read_wave_rollout(body: str | bytes) -> WaveRollout:
    """Return the rollout that the JSON describes.

    Raises:
        StoreUnreadableError: it is no rollout, or of a newer wire version.

    """
    fields = read(body, _WHAT)
    former = fields.maybe_text("former")
    return WaveRollout(
        id=fields.text("id"),
        release=release_in(fields.part("release")),
        former=None if former is None else VersionName(former),
        state=fields.choice("state", RolloutState),
        rules=_rules_in(fields.part("rules")),
        waves=tuple(_wave_in(wave) for wave in fields.parts("waves")),
        who=fields.text("who"),
        began_at=fields.time("began_at"),
        changed_at=fields.time("changed_at"),
        token=fields.whole("token"),
        why=fields.maybe_text("why"),
    )


def _rules_body(rules: GateRules) -> dict[str, Any]:
    check = rules.check
    return {
        "failures": rules.failures.count,
        "failures_percent": rules.failures.percent,
        "pause_s": rules.pause_s,
        "holds": rules.holds,
        "check": check and {"spider": check.spider, "timeout_s": check.timeout_s, "min_items": check.min_items},
    }


def _rules_in(fields: Fields) -> GateRules:
    check = fields.part("check") if fields.has("check") else None
    return GateRules(
        failures=Allowance(fields.whole("failures"), fields.maybe_number("failures_percent")),
        check=None
        if check is None
        else SmokeCheck(SpiderName(check.text("spider")), check.number("timeout_s"), check.whole("min_items")),
        pause_s=fields.number("pause_s"),
        holds=fields.flag("holds"),
    )


def _wave_body(wave: Wave) -> dict[str, Any]:
    smoke = wave.smoke
    return {
        "nodes": list(wave.nodes),
        "state": wave.state.value,
        "results": [result_body(result) for result in wave.results],
        "taken": list(wave.taken),
        "why": wave.why,
        "is_accepted": wave.is_accepted,
        "smoke": smoke
        and {
            "node": smoke.node,
            "job": smoke.job,
            "items": smoke.items,
            "finish_reason": smoke.finish_reason,
            "error": smoke.error,
        },
    }


def _wave_in(fields: Fields) -> Wave:
    smoke = fields.part("smoke") if fields.has("smoke") else None
    return Wave(
        nodes=tuple(map(NodeName, fields.texts("nodes"))),
        state=fields.choice("state", WaveState),
        results=results_in(fields),
        taken=tuple(map(NodeName, fields.texts("taken"))),
        smoke=None
        if smoke is None
        else Smoke(
            node=NodeName(smoke.text("node")),
            job=JobId(smoke.text("job")),
            items=smoke.maybe_whole("items"),
            finish_reason=smoke.maybe_text("finish_reason"),
            error=smoke.maybe_text("error"),
        ),
        why=fields.maybe_text("why"),
        is_accepted=fields.maybe_flag("is_accepted"),
    )
