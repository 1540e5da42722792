"""What is shipped next of a log that grows, and what is kept of one that is too long (`toolkit/model/shipped.py`)."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.shipped import (
    MAX_PART_BYTES,
    SMALL_BYTES,
    LogPart,
    Shipment,
    left_out_bytes,
    next_shipment,
    part_at,
)

KB = 1024
MB = 1024 * KB


def shipped(sizes: list[int], *, max_bytes: int) -> tuple[LogPart, ...]:
    """Ship a log that is seen at these sizes, each time to its end."""
    parts: tuple[LogPart, ...] = ()
    for size in sizes:
        while (step := next_shipment(parts, size, max_bytes=max_bytes)) is not None:
            parts = step.applied(parts)
    return parts


def test_a_new_log_begins_at_its_begin_and_goes_on_at_its_end() -> None:
    assert next_shipment((), 0, max_bytes=MB) is None
    assert next_shipment((), 40 * KB, max_bytes=MB) == Shipment(LogPart(0, 40 * KB))
    assert next_shipment((LogPart(0, 40 * KB),), 50 * KB, max_bytes=MB) == Shipment(LogPart(40 * KB, 10 * KB))
    assert next_shipment((LogPart(0, 40 * KB),), 40 * KB, max_bytes=MB) is None


def test_a_small_last_part_is_laid_anew_with_what_follows() -> None:
    small = LogPart(40 * KB, SMALL_BYTES - 1)
    step = next_shipment((LogPart(0, 40 * KB), small), 90 * KB, max_bytes=MB)
    assert step == Shipment(LogPart(40 * KB, 50 * KB), (small,))


def test_a_log_that_is_shorter_than_before_was_begun_anew() -> None:
    parts = (LogPart(0, 40 * KB), LogPart(40 * KB, 40 * KB))
    assert next_shipment(parts, 5 * KB, max_bytes=MB) == Shipment(LogPart(0, 5 * KB), parts)


def test_what_nobody_will_read_of_a_long_log_is_not_sent() -> None:
    parts = shipped([100 * MB], max_bytes=4 * MB)
    assert parts[0].begin == 0
    assert parts[-1].end == 100 * MB
    assert left_out_bytes(parts) == 96 * MB
    assert part_at(parts, MB) == LogPart(97 * MB, MAX_PART_BYTES)
    assert part_at(parts, 100 * MB) is None


def test_a_slow_log_has_few_parts() -> None:
    assert len(shipped(list(range(1, 500 * KB, 200)), max_bytes=5 * MB)) <= 500 * KB / SMALL_BYTES + 1


@given(
    st.lists(st.integers(0, 400 * KB), min_size=1, max_size=30),
    st.integers(8 * KB, 300 * KB),
)
def test_head_and_tail_are_always_there_and_never_more_than_allowed(growths: list[int], max_bytes: int) -> None:
    size, sizes = 0, []
    for growth in growths:
        size += growth
        sizes.append(size)
    parts = shipped(sizes, max_bytes=max_bytes)
    kept = {(part.begin, part.end) for part in parts}
    assert sum(part.length for part in parts) <= max_bytes
    assert all(one.end <= other.begin for one, other in pairwise(parts))
    assert all(0 < part.length <= MAX_PART_BYTES for part in parts)
    assert (parts[-1].end if parts else 0) == size
    head = min(size, max_bytes // 4)
    assert sum(min(end, head) - begin for begin, end in kept if begin < head) == head
