"""What a worker and Redis each believe to be in the worker's hands, brought to one state. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolkit.model.crawls import Disposition, Done, EntryId, Taken
from toolkit.spider.leases import Lease, Leases
from toolkit.spider.outbox import Outbox


def taken_again(
    leases: Leases, outbox: Outbox, fingerprint: Callable[[Lease], bytes], *, is_all_sent_again: bool
) -> Sequence[Taken]:
    """Return what the worker wants to keep in a Redis that came back older.

    Where that is as it was before the crawl began, and everything is sent again (`is_all_sent_again`), what has no
    fingerprint is left out: Redis could not see that it is pushed a second time.
    """
    held = {lease.entry: lease for lease in (*leases, *outbox.ending()) if not lease.is_void}
    taken = [Taken(lease.leased, fingerprint(lease)) for lease in held.values()]
    if is_all_sent_again:
        return [each for each in taken if each.fingerprint or each.leased.is_seed]
    return taken


def agree(leases: Leases, outbox: Outbox, held: Sequence[EntryId]) -> int:
    """Bring the worker to what Redis has in its hands; return how many collected things were dropped for it.

    What only Redis knows of goes back: an answer that leased it was lost, or Redis gave it to others and has forgotten
    that. What only the worker knows of is void: others have it and do it again, with all that its page brings.
    """
    there = frozenset(held)
    for lease in (*leases, *outbox.pages()):
        if lease.entry not in there:
            lease.void()
    leases.drop_void()
    dropped = outbox.drop_void()
    for entry in there - {lease.entry for lease in (*leases, *outbox.ending()) if not lease.is_void}:
        outbox.end(None, Done(entry, Disposition.BACK))
    return dropped
