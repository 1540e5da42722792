"""The JSON contract of rollouts in waves and of the audit. A field once shipped keeps its name and meaning."""

from __future__ import annotations

from typing import Any

from toolkit.model.audit import AuditEntry
from toolkit.model.rollouts import Wave, WaveRollout
from toolkit.views.contract import node_result_row, time_text


def wave_rollout_row(rollout: WaveRollout, *, is_left: bool) -> dict[str, Any]:
    """Show a rollout in waves; `wave` is the one that it is in, counted from 1, null when all have passed."""
    return {
        "id": rollout.id,
        "project": rollout.project,
        "version": rollout.version,
        "former": rollout.former,
        "state": "left" if is_left else rollout.state.value,
        "wave": None if rollout.place is None else rollout.place + 1,
        "waves": len(rollout.waves),
        "nodes": len(rollout.nodes),
        "tried": len(rollout.results),
        "failed": sum(not each.ok for each in rollout.results),
        "why": rollout.why,
        "by": rollout.who,
        "began_at": time_text(rollout.began_at),
        "changed_at": time_text(rollout.changed_at),
    }


def wave_rollout_object(rollout: WaveRollout, *, is_left: bool) -> dict[str, Any]:
    """Show all that is known of a rollout in waves; `waves` are the waves themselves."""
    rules, check = rollout.rules, rollout.rules.check
    return wave_rollout_row(rollout, is_left=is_left) | {
        "digest": rollout.release.digest,
        "max_failures": str(rules.failures),
        "pause_s": rules.pause_s,
        "hold": rules.holds,
        "check": None
        if check is None
        else {"spider": check.spider, "timeout_s": check.timeout_s, "items": check.min_items},
        "waves": [wave_object(wave) for wave in rollout.waves],
    }


def wave_object(wave: Wave) -> dict[str, Any]:
    """Show one wave: its nodes, what those that were tried said, and what the gate said."""
    smoke = wave.smoke
    return {
        "state": wave.state.value,
        "accepted": wave.is_accepted,
        "why": wave.why,
        "nodes": list(wave.nodes),
        "results": [node_result_row(each) for each in wave.results],
        "check": None
        if smoke is None
        else {
            "node": smoke.node,
            "job": smoke.job,
            "items": smoke.items,
            "finish_reason": smoke.finish_reason,
            "error": smoke.error,
        },
    }


def audit_row(entry: AuditEntry) -> dict[str, Any]:
    """Show one entry of the audit."""
    return {
        "id": entry.id,
        "at": time_text(entry.at),
        "who": entry.who,
        "action": entry.action,
        "subject": entry.subject,
        "nodes": list(entry.nodes),
        "result": entry.result,
        "detail": entry.detail,
    }
