"""What a worker has collected leaves in its order, and an ending never before what its page brought."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.crawls import Done, EntryId, Leased, Push
from toolkit.spider.leases import Lease
from toolkit.spider.outbox import MAX_BYTES, Outbox


def a_lease(number: int = 1) -> Lease:
    return Lease(Leased(EntryId(number.to_bytes(8, "big")), b"body"))


def end(outbox: Outbox, lease: Lease) -> None:
    lease.end()
    outbox.end(lease, Done(lease.entry, items=tuple(lease.items)))


def bring_item(outbox: Outbox, lease: Lease, item: bytes = b"item") -> None:
    assert outbox.items >= 0
    lease.items.append(item)


def test_a_batch_is_a_prefix_and_says_whether_more_is_there() -> None:
    outbox = Outbox(max_size=100)
    for number in range(5):
        outbox.push(Push(b"%d" % number), None)
    batch = outbox.take(3)
    assert [push.body for push in batch.pushes] == [b"0", b"1", b"2"]
    assert batch.has_more
    assert not outbox.take(3).has_more
    assert len(outbox) == 0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["push", "item", "end", "loose"])), max_size=60), st.data()
)
def test_an_ending_never_leaves_before_what_its_page_brought(steps: list[tuple[int, str]], data: st.DataObject) -> None:
    outbox, leases, ends = Outbox(max_size=10), [a_lease(number) for number in range(4)], 0
    for number, step in steps:
        lease = leases[number]
        if step == "loose":
            outbox.item(b"loose")
        elif lease.is_open:
            if step == "push":
                outbox.push(Push(b"%d" % number), lease)
            elif step == "item":
                bring_item(outbox, lease)
            else:
                end(outbox, lease)
                ends += 1
    ended: set[bytes] = set()
    taken = 0
    while outbox:
        batch = outbox.take(data.draw(st.integers(1, 5)))
        assert batch.collected
        for thing in batch.collected:
            taken += isinstance(thing.what, Done)
            if thing.page is not None and not isinstance(thing.what, Done):
                assert thing.page.entry not in ended
        ended |= {done.entry for done in batch.done}
        assert batch.has_more is bool(outbox)
    assert taken == ends
    assert (outbox.pushes, outbox.endings) == (0, 0)
    assert outbox.items == 0


def test_what_is_put_back_comes_first_and_in_its_order() -> None:
    outbox = Outbox(max_size=100)
    lease = a_lease()
    outbox.push(Push(b"a"), lease)
    bring_item(outbox, lease)
    end(outbox, lease)
    batch = outbox.take()
    outbox.push(Push(b"b"), None)
    outbox.put_back(batch.collected)
    assert (outbox.pushes, outbox.endings, outbox.items) == (2, 1, 1)
    again = outbox.take()
    assert [push.body for push in again.pushes] == [b"a", b"b"]
    assert again.done == batch.done


def test_when_the_lease_is_over_only_what_no_page_brought_is_kept() -> None:
    outbox = Outbox(max_size=100)
    ended, working = a_lease(1), a_lease(2)
    outbox.push(Push(b"of a page that ended"), ended)
    bring_item(outbox, ended)
    end(outbox, ended)
    outbox.push(Push(b"of a page"), working)
    outbox.push(Push(b"of start()"), None)
    outbox.item(b"of start()")
    outbox.end_start()
    working.void()
    assert outbox.void_pages() == 3
    batch = outbox.take()
    assert [push.body for push in batch.pushes] == [b"of start()"]
    assert batch.loose_items == (b"of start()",)
    assert batch.has_start_end
    assert (outbox.pushes, outbox.endings, outbox.items) == (0, 0, 0)


def test_it_is_full_by_requests_endings_and_items_together() -> None:
    outbox = Outbox(max_size=3)
    lease = a_lease()
    outbox.push(Push(b"a"), None)
    bring_item(outbox, lease)
    assert not outbox.is_full
    end(outbox, lease)
    assert outbox.is_full
    outbox.take()
    assert not outbox.is_full


def test_a_batch_is_bounded_in_bytes_but_takes_at_least_one_thing() -> None:
    outbox = Outbox(max_size=100)
    for _ in range(3):
        outbox.push(Push(b"x" * (MAX_BYTES - 10)), None)
    outbox.push(Push(b"x"), None)
    assert [len(outbox.take().pushes) for _ in range(3)] == [1, 1, 2]


def test_a_page_with_more_items_than_a_batch_holds_goes_whole() -> None:
    outbox = Outbox(max_size=100)
    lease = a_lease()
    for _ in range(10):
        bring_item(outbox, lease)
    end(outbox, lease)
    assert len(outbox.take(5).done[0].items) == 10
