"""The names of all keys in Redis, in one place. Lua makes only those of a line and of a job's samples.

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
| `changes` | string | a number that rises whenever what the nodes should hold changes |
| `offers` | hash | project and version → release (JSON) that nodes may install before it is active |
| `egg:<digest>` | string | an egg |
| `eggs` | set | the digests of the eggs there are |
| `jobs` | hash | job id → its facts (JSON) |
| `jobs:orders` | hash | job id → its arguments and settings (JSON); they never change |
| `jobs:owners` | hash | id of an active job → the token of its claim |
| `jobs:leases` | sorted set | id of an active job → when its lease ends, in milliseconds |
| `jobs:progress` | hash | id of an active job → what its spider last said (JSON) |
| `jobs:wishes` | hash | id of an active job → what operators want of it (JSON) |
| `jobs:delayed` | sorted set | id of a pending job → when it may be taken, in milliseconds |
| `jobs:lost` | sorted set | id of a lost job → when it was lost, in milliseconds |
| `jobs:same` | hash | fingerprint of project, spider and arguments → how many such jobs are not final |
| `lines` | set | the lines that are not empty |
| `line:<line>` | sorted set | ids of the pending jobs that may be taken, in the order of taking |
| `places` | hash | short name → the nodes that `--on` picked (JSON) |
| `busy` | hash | project, spider, and either on a node → how many jobs are active |
| `caps` | hash | project, spider, and either for each node → how many may be |
| `clock` | hash | `asked_ms`, `grace_ms`, `lease_ms`: when the leases were last looked at, and grace after a silence; |
| | | `seq`: how many jobs ever came, which gives each its age; `open`, `ended`: how many are not final, and are; |
| | | `kept`: how many steps replicas were waited for, if there were any |
| `nodes` | hash | node → its last report (JSON) |
| `nodes:beats` | sorted set | node → its last heartbeat, in milliseconds |
| `nodes:sessions` | hash | node → whose the name is (JSON: session, home), and when it last named all its claims |
| `nodes:room` | sorted set | node that may take jobs → share of its slots that is taken |
| `nodes:draining` | hash | node → who drained it, and when (JSON) |
| `nodes:clashes` | hash | node → who else claimed its name, and when (JSON) |
| `wake` | channel | `queue`, `releases`, the name of the node that shall look, or `?` and the name: it is asked |
| `nodes:redials` | sorted set | node that changes its address now → when its place is free again, in milliseconds |
| `questions:<node>` | list | questions that the node has not taken (JSON); expires with the last of them |
| `asker:<question>` | string | is there while somebody waits for the answer; expires by itself |
| `answer:<question>` | list | pieces of the answer that wait for who asked; expires by itself |
| `rollouts` | hash | id → a rollout in waves (JSON) |
| `rollouts:order` | sorted set | id of a rollout in waves → when it began, in milliseconds |
| `rollouts:open` | hash | project → its rollout that is running or held (JSON: id, digest) |
| `audit` | stream | entries of the audit (field `entry`, JSON); the ids are Redis' own time |
| `events` | stream | what changed (fields: kind, subject, about as JSON); the ids are Redis' own time |
| `watched` | hash | watched thing → the state that was last told of |
| `duty:<duty>` | string | is there while no other turn is taken at a duty that one node in a while is enough for |
| `crons` | hash | cron → its definition (JSON) |
| `crons:state` | hash | cron → when it is due next, its last firing and jobs, what waits for their end (JSON) |
| `crons:due` | sorted set | cron, or a firing that came by a job's end → when it fires next, in milliseconds |
| `crons:followers` | hash | project/spider → the crons that follow its jobs (JSON); + and a cron → when its last good |
| | | firing was due, in milliseconds |
| `crons:history:<cron>` | list | what became of its due times (JSON), newest first |
| `measures` | hash | what the queue counts of itself, for `/metrics` |
| `samples:turn` | hash | `number`, `at_ms`: the last turn at sampling; what had been counted by then |
| `samples:job:<job>` | string | how far a job was at moments of the past (records of `wire_samples.py`) |
| `samples:cluster` | list | what the cluster did at moments of the past (records), oldest first |
| `alerts` | hash | `body` (JSON: sinks, rules, with their secrets), `revision`, `by`, `at_ms`; |
| | | `since:<sink>`: the newest event when it came |
| `alerts:silences` | hash | rule → until when nobody is told of it, and who said so (JSON) |
| `alerts:failed` | list | messages that were given up (milliseconds, JSON), newest first |
| `alerts:sink:<sink>` | hash | how far a sink is told, whose its lease is, and how the last attempts went |
| `alerts:held:<sink>` | sorted set | event and rule (JSON) → when the sink is told of it, in milliseconds |
| `logs:<job>` | hash | node → what it has shipped of the job's log (JSON); expires by itself |
| `logs:parts:<job>` | hash | node and offset → a part of that log, packed by gzip; expires by itself |
| `logs:all:order` | sorted set | job with a shipped log → when anything of it was shipped last, in milliseconds |
| `logs:all:ended` | sorted set | the same for those whose logs are complete: they make room first |
| `logs:all:sizes` | hash | job → the bytes that its log takes in this Redis; `*`: of all of them |
| `jobs:unfinished` | sorted set | job ids by `scheduled_at` in microseconds (0: unknown), state not final |
| `jobs:final` | sorted set | the same for jobs in a final state; a job is in exactly one of the two |
| `jobs:ids` | sorted set | all job ids with score 0, for finding one by its first characters |
"""

from __future__ import annotations

import re

from toolkit.model.errors import ConfigurationError
from toolkit.model.names import DEFAULT_CLUSTER, JobId, LineName, NodeName, ProjectName

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
        self.orders = f"{self.prefix}jobs:orders"
        self.owners = f"{self.prefix}jobs:owners"
        self.leases = f"{self.prefix}jobs:leases"
        self.progress = f"{self.prefix}jobs:progress"
        self.wishes = f"{self.prefix}jobs:wishes"
        self.delayed = f"{self.prefix}jobs:delayed"
        self.lost = f"{self.prefix}jobs:lost"
        self.same = f"{self.prefix}jobs:same"
        self.lines = f"{self.prefix}lines"
        self.line_prefix = f"{self.prefix}line:"
        self.places = f"{self.prefix}places"
        self.busy = f"{self.prefix}busy"
        self.caps = f"{self.prefix}caps"
        self.clock = f"{self.prefix}clock"
        self.nodes = f"{self.prefix}nodes"
        self.beats = f"{self.prefix}nodes:beats"
        self.sessions = f"{self.prefix}nodes:sessions"
        self.room = f"{self.prefix}nodes:room"
        self.draining = f"{self.prefix}nodes:draining"
        self.clashes = f"{self.prefix}nodes:clashes"
        self.redials = f"{self.prefix}nodes:redials"
        self.wake = f"{self.prefix}wake"
        self.changes = f"{self.prefix}changes"
        self.offers = f"{self.prefix}offers"
        self.digests = f"{self.prefix}eggs"
        self.audit = f"{self.prefix}audit"
        self.events = f"{self.prefix}events"
        self.watched = f"{self.prefix}watched"
        self.crons_due = f"{self.prefix}crons:due"
        self.cron_followers = f"{self.prefix}crons:followers"
        self.measures = f"{self.prefix}measures"
        self.logs_order = f"{self.prefix}logs:all:order"
        self.logs_ended = f"{self.prefix}logs:all:ended"
        self.logs_sizes = f"{self.prefix}logs:all:sizes"
        self.samples_prefix = f"{self.prefix}samples:job:"
        self.rollouts = f"{self.prefix}rollouts"
        self.rollouts_by_begin = f"{self.prefix}rollouts:order"
        self.open_rollouts = f"{self.prefix}rollouts:open"

    @property
    def queue(self) -> tuple[str, ...]:
        """The keys that every script of the queue gets first, in the order of `lua/queue_rules.lua`."""
        return (
            *(self.jobs, self.orders, self.unfinished_jobs, self.final_jobs, self.job_ids),
            *(self.owners, self.leases, self.progress, self.wishes),
            *(self.lines, self.line_prefix, self.delayed, self.same),
            *(self.busy, self.caps, self.tokens, self.room, self.beats, self.clock, self.wake, self.lost),
            *(self.events, self.cron_followers, self.crons_due, self.measures),
        )

    @property
    def crons(self) -> str:
        """The hash of the crons' definitions."""
        return f"{self.prefix}crons"

    @property
    def cron_states(self) -> str:
        """The hash of the crons' states."""
        return f"{self.prefix}crons:state"

    @property
    def cron_history_prefix(self) -> str:
        """What the name of a list of a cron's firings begins with."""
        return f"{self.prefix}crons:history:"

    def line(self, name: LineName) -> str:
        """Name the sorted set of a line's pending jobs."""
        return f"{self.line_prefix}{name}"

    def duty(self, duty: str) -> str:
        """Name the string that is there until another turn at the duty may be taken."""
        return f"{self.prefix}duty:{duty}"

    @property
    def sampling(self) -> str:
        """Name the hash of the turns at sampling."""
        return f"{self.prefix}samples:turn"

    @property
    def cluster_samples(self) -> str:
        """Name the list of the cluster's samples."""
        return f"{self.prefix}samples:cluster"

    def samples_of(self, job_id: JobId) -> str:
        """Name the string of a job's samples."""
        return f"{self.samples_prefix}{job_id}"

    @property
    def alerting(self) -> tuple[str, ...]:
        """The keys that every script of the alerts gets first, in the order of `lua/sink_rules.lua`."""
        return (self.alerts, self.silences, self.tokens, self.events, self.failed_alerts)

    @property
    def alerts(self) -> str:
        """Name the hash of the sinks and rules."""
        return f"{self.prefix}alerts"

    @property
    def silences(self) -> str:
        """Name the hash of the rules of which nobody is told for a while."""
        return f"{self.prefix}alerts:silences"

    @property
    def failed_alerts(self) -> str:
        """Name the list of the messages that were given up."""
        return f"{self.prefix}alerts:failed"

    def sink(self, name: str) -> str:
        """Name the hash of how far a sink of the alerts is told."""
        return f"{self.prefix}alerts:sink:{name}"

    def held_for(self, sink: str) -> str:
        """Name the sorted set of the events that a sink is told of later."""
        return f"{self.prefix}alerts:held:{sink}"

    def questions(self, node: NodeName) -> str:
        """Name the list of the questions that wait for a node."""
        return f"{self.prefix}questions:{node}"

    def asker(self, question: str) -> str:
        """Name the string that is there while somebody waits for the answer to a question."""
        return f"{self.prefix}asker:{question}"

    def answer(self, question: str) -> str:
        """Name the list of the pieces of an answer that wait for who asked."""
        return f"{self.prefix}answer:{question}"

    def log(self, job: JobId) -> str:
        """Name the hash of what is known of a job's shipped logs; an id has no colon."""
        return f"{self.prefix}logs:{job}"

    def log_parts(self, job: JobId) -> str:
        """Name the hash of the parts of a job's shipped logs."""
        return f"{self.prefix}logs:parts:{job}"

    def egg(self, digest: str) -> str:
        """Name the string that is an egg."""
        return f"{self.prefix}egg:{digest}"

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

    def cron_history(self, name: str) -> str:
        """Name the list of what became of a cron's due times."""
        return f"{self.cron_history_prefix}{name}"
