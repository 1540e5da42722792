"""The names of all keys in Redis, in one place. Lua scripts get theirs from here and build none themselves.

Every key begins with `crawlctl:{<cluster>}:`. The braces are Redis Cluster's hash tag: they put all keys of one cluster
of nodes into one slot, so that a script may touch several. Nothing else of a shared Redis is read or written.

| key | type | holds |
|---|---|---|
| `tokens` | string | the largest fencing token given out |
| `projects` | set | the projects that have any release |
| `active` | hash | project → its active release, the very text that is in `releases:<project>` |
| `lock:<project>` | hash | `token`, `since_ms`, `expires_ms`, `claim` (JSON: who, why); expires by itself |
| `releases:<project>` | hash | version → release (JSON) |
| `holders:<project>` | hash | version → the nodes that held it when it was made active (JSON) |
| `history:<project>` | list | rollouts (JSON), newest first |
| `jobs` | hash | job id → job (JSON) |
| `jobs:unfinished` | sorted set | job ids by `scheduled_at` in microseconds (0: unknown), state not final |
| `jobs:final` | sorted set | the same for jobs in a final state; a job is in exactly one of the two |
| `jobs:ids` | sorted set | all job ids with score 0, for finding one by its first characters |
"""

from __future__ import annotations

import re

from toolkit.model.errors import ConfigurationError
from toolkit.model.names import ProjectName

DEFAULT_CLUSTER = "main"
_CLUSTER_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class Keys:
    """The key names of one cluster.

    Raises:
        ConfigurationError: the cluster's name has a character that would break the hash tag.

    """

    def __init__(self, cluster: str = DEFAULT_CLUSTER) -> None:
        if not _CLUSTER_NAME.fullmatch(cluster):
            raise ConfigurationError(
                f"cluster name {cluster!r} cannot be used: 1 to 100 letters, digits, '_', '-' and '.' only"
            )
        self.cluster = cluster
        self.prefix = f"crawlctl:{{{cluster}}}:"
        self.tokens = f"{self.prefix}tokens"
        self.projects = f"{self.prefix}projects"
        self.active = f"{self.prefix}active"
        self.jobs = f"{self.prefix}jobs"
        self.unfinished_jobs = f"{self.prefix}jobs:unfinished"
        self.final_jobs = f"{self.prefix}jobs:final"
        self.job_ids = f"{self.prefix}jobs:ids"

    def lock(self, project: ProjectName) -> str:
        """Name the hash that is there while somebody holds the project's lock."""
        return f"{self.prefix}lock:{project}"

    def releases(self, project: ProjectName) -> str:
        """Name the hash of the project's releases."""
        return f"{self.prefix}releases:{project}"

    def holders(self, project: ProjectName) -> str:
        """Name the hash of the nodes that held each release when it was made active."""
        return f"{self.prefix}holders:{project}"

    def history(self, project: ProjectName) -> str:
        """Name the list of the project's rollouts."""
        return f"{self.prefix}history:{project}"
