"""The one table from an error to its exit code and hint: every class has its place."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from toolkit.cli.errors import INTERRUPTED, MEANINGS, TABLE, ExitCode, described
from toolkit.model import errors

NOW = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
MISTAKE = errors.Mistake("inventory.yaml", 1, 2, "unknown key")

# Every class of the tree, with an example, its code and its kind. A new class must be put here, and into the table.
EVERY: dict[type[errors.CrawlctlError], tuple[errors.CrawlctlError, int, str]] = {
    errors.CrawlctlError: (errors.CrawlctlError("x"), 1, "error"),
    errors.UsageError: (errors.UsageError("x"), 2, "usage"),
    errors.ConfigurationError: (errors.ConfigurationError("x"), 3, "configuration"),
    errors.InventoryError: (errors.InventoryError([MISTAKE]), 3, "inventory"),
    errors.InventoryMissingError: (errors.InventoryMissingError("x"), 3, "configuration"),
    errors.ProjectError: (errors.ProjectError("x"), 3, "project"),
    errors.EggError: (errors.EggError("x"), 3, "egg"),
    errors.MissingExtraError: (errors.MissingExtraError("psutil", "local"), 3, "configuration"),
    errors.UnwritableError: (errors.UnwritableError("x", field="meta", kind="object"), 1, "error"),
    errors.NodeError: (errors.NodeError("a", "b", "c"), 4, "node"),
    errors.NodeUnreachableError: (errors.NodeUnreachableError("a", "b", "c"), 5, "unreachable"),
    errors.NodeBrokenError: (errors.NodeBrokenError("a", "b", "c"), 5, "unreachable"),
    errors.NodeTimeoutError: (errors.NodeTimeoutError("a", "b", "c"), 5, "timeout"),
    errors.NodeUnauthorizedError: (errors.NodeUnauthorizedError("a", "b", "c"), 4, "unauthorized"),
    errors.NodeAnswerError: (errors.NodeAnswerError("a", "b", "c"), 4, "node"),
    errors.NodeRefusedError: (errors.NodeRefusedError("a", "b", "c"), 4, "node"),
    errors.HostError: (errors.HostError("a", "b", "c"), 4, "host"),
    errors.HostUnreachableError: (errors.HostUnreachableError("a", "b", "c"), 5, "host_unreachable"),
    errors.HostTimeoutError: (errors.HostTimeoutError("a", "b", "c"), 5, "host_unreachable"),
    errors.HostKeyError: (errors.HostKeyError("a", "b", "c"), 6, "host_key"),
    errors.HostUnauthorizedError: (errors.HostUnauthorizedError("a", "b", "c"), 4, "host_unauthorized"),
    errors.HostRefusedError: (errors.HostRefusedError("a", "b", "c"), 4, "host"),
    errors.NodesFailedError: (errors.NodesFailedError("x"), 4, "nodes_failed"),
    errors.NothingReachableError: (errors.NothingReachableError("x"), 5, "nothing_reachable"),
    errors.StoreUnreachableError: (errors.StoreUnreachableError("x"), 5, "store_unreachable"),
    errors.StoreUnreadableError: (errors.StoreUnreadableError("x"), 5, "store_unreachable"),
    errors.DatabaseUnreachableError: (errors.DatabaseUnreachableError("x"), 5, "database_unreachable"),
    errors.SinkError: (errors.SinkError("x"), 4, "sink"),
    errors.RefusedError: (errors.RefusedError("x"), 6, "refused"),
    errors.LockHeldError: (errors.LockHeldError("shop", who="ann", since=NOW, why="deploy"), 6, "locked"),
    errors.ConflictError: (errors.ConflictError("x"), 6, "conflict"),
    errors.UntrustedError: (errors.UntrustedError("x"), 6, "refused"),
    errors.NotFoundError: (errors.NotFoundError("x"), 7, "not_found"),
    errors.JobFailedError: (errors.JobFailedError("x"), 8, "job_failed"),
}


def tree(kind: type[errors.CrawlctlError]) -> set[type[errors.CrawlctlError]]:
    return {kind} | {each for child in kind.__subclasses__() for each in tree(child)}


def test_every_class_of_the_tree_is_looked_at_here() -> None:
    of_the_tree = {kind for kind in tree(errors.CrawlctlError) if kind.__module__ == errors.__name__}
    assert of_the_tree == set(EVERY)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_an_error_has_its_own_code_and_kind(kind: type[errors.CrawlctlError]) -> None:
    error, code, name = EVERY[kind]
    assert type(error) is kind
    found, told = described(error)
    assert (found, told["kind"], told["message"]) == (code, name, error.message)
    assert list(told) == ["kind", "message", "hint"]


def test_an_error_of_a_class_that_is_not_in_the_table_is_told_as_its_nearest() -> None:
    class NewError(errors.ConflictError):
        pass

    assert described(NewError("x"))[0] is ExitCode.REFUSED


def test_an_errors_own_hint_is_told_before_the_tables() -> None:
    assert described(errors.UsageError("x", hint="do this"))[1]["hint"] == "do this"
    assert "--help" in (described(errors.UsageError("x"))[1]["hint"] or "")


def test_no_row_of_the_table_stands_behind_a_more_general_one() -> None:
    kinds = [row[0] for row in TABLE]
    for place, kind in enumerate(kinds):
        assert not any(issubclass(kind, earlier) for earlier in kinds[:place]), kind


def test_every_code_has_a_meaning_and_keeps_its_number() -> None:
    assert set(MEANINGS) == set(ExitCode)
    assert [code.value for code in ExitCode] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 130]


def test_an_interruption_is_told_like_an_error() -> None:
    assert list(INTERRUPTED) == ["kind", "message", "hint"]
