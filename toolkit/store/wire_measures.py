"""How the queue's own counts look at rest: one hash, whose fields Lua counts up (`queue_rules.lua`, `claim.lua`). Pure.

| field | counts |
|---|---|
| `claims:<bound>` | claims of jobs that had waited so many milliseconds at most, and more than the bound before |
| `claims:more` | claims of jobs that had waited longer |
| `waited_ms` | the milliseconds that all claimed jobs had waited |
| `started`, `requeued`, `leases_lost` | processes begun, jobs put back after they had begun, leases that ended |
| `ended:<state>:<project>` | jobs that came to this final state |
| `pages`, `items`, `errors` | what all jobs had done when they were last sampled, or ended |
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from toolkit.model.jobs import JobState
from toolkit.model.measures import CLAIM_BOUNDS_S
from toolkit.model.names import ProjectName


def read_claims(counts: Mapping[str, str]) -> dict[float, int]:
    """Return how many claims fell to each bound in seconds, those without any too."""
    fields = {bound_s: f"claims:{round(bound_s * 1000)}" for bound_s in CLAIM_BOUNDS_S} | {math.inf: "claims:more"}
    return {bound_s: read_count(counts, name) for bound_s, name in fields.items()}


def read_ended(counts: Mapping[str, str]) -> dict[tuple[ProjectName, JobState], int]:
    """Return how many jobs of each project came to each final state."""
    ended = {}
    for name in counts:
        kind, _, rest = name.partition(":")
        state, _, project = rest.partition(":")
        if kind == "ended" and state in set(JobState):
            ended[ProjectName(project), JobState(state)] = read_count(counts, name)
    return ended


def read_count(counts: Mapping[str, str], name: str) -> int:
    """Return one count; what was never counted is zero."""
    return int(counts.get(name) or 0)
