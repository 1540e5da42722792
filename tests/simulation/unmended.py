"""Mends that can be taken back one at a time, to show that the histories find the fault that each of them ended.

Each is a change of the text of a copy of the package. A text that is not there, or there twice, is a mistake here: who
changes such a place says anew how its mend is taken back, or takes it off the list.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import toolkit

PACKAGE = Path(toolkit.__file__).parent
COMMIT, RULES, QUEUE = "store/lua/crawl_commit.lua", "store/lua/crawl_rules.lua", "store/lua/queue_rules.lua"


@dataclass(frozen=True)
class Mend:
    """What was promised; how it is taken back: file, text, what stands there instead; and by which faults it shows."""

    promise: str
    changes: tuple[tuple[str, str, str], ...]
    is_of_crawls: bool = False
    kinds: tuple[str, ...] = ()

    def take_back(self, root: Path) -> None:
        """Write a copy of the package without this mend below `root`."""
        shutil.copytree(PACKAGE, root / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        for name, text, instead in self.changes:
            path = root / PACKAGE.name / name
            found = path.read_text()
            if found.count(text) != 1:
                raise ValueError(f"{name} has this {found.count(text)} times: {text}")
            path.write_text(found.replace(text, instead))


MENDS = {
    "tokens": Mend(
        "A node does not claim a job of which it still has a process, and stops only the run that is stale",
        (
            ("store/lua/claim.lua", "  if has_process[id] then", "  if false then"),
            (
                QUEUE,
                "local was_taken_from_it = number and is_pending(job) and job.token == token",
                "local was_taken_from_it = false",
            ),
            (
                "node/launcher.py",
                "if run.claim.token in stale and run.stopped_for is not Cause.STALE:",
                "if run.claim.job_id in {e.claim.job_id for e in self.processes.values() if e.claim.token in stale}:",
            ),
        ),
        kinds=("cut", "cut near a lease"),
    ),
    "forgotten-claims": Mend(
        "What a node holds and Redis has forgotten is taken up again under the same token",
        ((QUEUE, "local is_forgotten = number and number > (job.last_claim or 0)", "local is_forgotten = false"),),
    ),
    "tell-first": Mend(
        "No node claims before it has told what it holds and what has ended",
        (
            ("store/lua/claim.lua", 'ZSCORE", beats, node) or 0) < back_ms', 'ZSCORE", beats, node) or 0) < 0'),
            ("store/lua/claim.lua", "if now_ms < back_ms + back_lease_ms / 2 then", "if false then"),
        ),
        kinds=("Redis older", "Redis away and older"),
    ),
    "all-tell-first": Mend(
        "No job is begun before every node that lives has told what Redis may have forgotten",
        (("store/lua/claim.lua", "if now_ms < back_ms + back_lease_ms / 2 then", "if false then"),),
        kinds=("Redis older",),
    ),
    "last-attempts-wait": Mend(
        "A job that may be begun only once more waits for a lease after Redis has come back",
        (
            (
                "store/lua/claim.lua",
                "local wait_of_last_ms = back_ms + back_lease_ms - now_ms",
                "local wait_of_last_ms = 0",
            ),
            ("store/lua/claim.lua", "if now_ms < back_ms + back_lease_ms / 2 then", "if false then"),
        ),
        kinds=("Redis older", "cut"),
    ),
    "ends-told-again": Mend(
        "The end of a job that Redis has forgotten is told again",
        (("store/lua/beat.lua", "local is_forgetful = now_ms - back_ms", "local is_forgetful = now_ms"),),
    ),
    "cancels": Mend(
        "A cancel that Redis has forgotten, and the node has heard of, goes on",
        (
            ("store/lua/beat.lua", '  if ARGV[at + 3] ~= "" and not', "    if false and not"),
            ("store/lua/finish.lua", 'if ARGV[9] == "1" then', "if false then"),
        ),
        kinds=("Redis older", "Redis away and older"),
    ),
    "unknown-jobs": Mend(
        "A job that Redis has forgotten altogether is brought back by the node that runs it",
        (
            ("node/launcher.py", "if claim.token in unknown and job is not None:", "if False and job is not None:"),
            ("store/lua/finish.lua", '  return "unknown"', "  return nil"),
        ),
    ),
    "grace": Mend(
        "After Redis has come back, every job's lease gets a full term",
        (
            (QUEUE, 'redis.call("HSET", clock, "grace_ms", now_ms + lease_ms)', "lease_ms = lease_ms"),
            ("store/lua/requeue_expired.lua", "if now_ms - asked_ms > lease_ms * 0.6 then", "if false then"),
        ),
    ),
    "arguments": Mend(
        "A crawl is one spider with one set of arguments",
        (
            (
                "model/names.py",
                "return crawl_of_digest(spider, digest_of(arguments)) if arguments else CrawlId(spider)",
                "return CrawlId(spider)",
            ),
            (
                "store/lua/crawl_join.lua",
                'if is_begun and (other.digest or "") ~= "" and other.digest ~= mine.digest then',
                "if false then",
            ),
        ),
        is_of_crawls=True,
    ),
    "start-role": Mend(
        "Only the worker that has the role of running start() may end it",
        (
            (
                COMMIT,
                'if string.find(marks, "E", 1, true) and st.start == worker then',
                'if string.find(marks, "E", 1, true) then',
            ),
        ),
        is_of_crawls=True,
    ),
    "start-again": Mend(
        "A start() whose requests Redis has forgotten, and nobody can send again, is run again",
        (
            (
                "spider/exchange.py",
                "if not is_whole and (self._start_ended is None or known < self._start_ended):",
                "if False:",
            ),
        ),
        is_of_crawls=True,
    ),
    "lapsed-journal": Mend(
        "A lapsed worker that Redis has rolled back sends again what it had sent",
        (
            (
                "spider/exchange.py",
                "            self._take_batch_back()\n        self._bring_back(known)\n",
                "            self._take_batch_back()\n",
            ),
        ),
        is_of_crawls=True,
    ),
    "over": Mend(
        "A crawl that is over, and has something to do again, is not over",
        ((COMMIT, "if st.was_over == 1 and (#leased > 0 or n_pushes > #duplicates) then", "if false then"),),
        is_of_crawls=True,
    ),
    "flush": Mend(
        "A crawl is begun anew only where nobody who may be alive works on it",
        (("store/lua/crawl_join.lua", "  if wait_ms > 0 then", "  if false then"),),
        is_of_crawls=True,
    ),
    "full-term": Mend(
        "After any absence of Redis every worker gets a full term, whatever its first answer is",
        ((RULES, "if silent_ms > math.max(1000, st.ttl_ms / 3) or silent_ms < -1000 then", "if false then"),),
        is_of_crawls=True,
    ),
    "many-items": Mend(
        "A page whose items went ahead is done again where Redis has forgotten some of them",
        ((COMMIT, 'tonumber(redis.call("HGET", staging, entry) or 0) ~= ahead then', "false then"),),
        is_of_crawls=True,
    ),
}
