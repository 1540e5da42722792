"""What the redis library raises becomes one sentence with the place, the reason and a way out."""

from __future__ import annotations

import socket

import pytest
from redis import exceptions

from toolkit.model.hosts import Secret
from toolkit.store.address import parse_address
from toolkit.store.redis_errors import store_error

ADDRESS = parse_address(Secret("redis://user:hunter2@db.example.com:6380/0"))


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (exceptions.ConnectionError("Error 111 connecting to h:1. Connection refused."), "nothing listens there"),
        (exceptions.AuthenticationError("invalid username-password pair or user is disabled."), "refuses the password"),
        (exceptions.AuthenticationError("Authentication required."), "it wants a password and the URL has none"),
        (exceptions.ReadOnlyError("You can't write against a read only replica."), "read-only replica"),
        (exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "memory is full"),
        (exceptions.BusyLoadingError("Redis is loading the dataset in memory"), "still loading"),
        (exceptions.NoPermissionError("this user has no permissions"), "may not do that"),
        (exceptions.MasterDownError("Link with MASTER is down"), "its master is down"),
        (exceptions.ClusterDownError("The cluster is down"), "Redis Cluster is down"),
        (exceptions.MovedError("1234 10.0.0.2:6379"), "wrong node of a Redis Cluster"),
        (exceptions.AskError("1234 10.0.0.2:6379"), "is moving crawlctl's keys"),
        (exceptions.InvalidResponse("Protocol Error: b'HTTP/1.1 400'"), "not a Redis"),
        (exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots"), "cannot write to its disk"),
        (exceptions.ResponseError("BUSY Redis is busy running a script"), "somebody's long script"),
        (exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."), "too few replicas"),
        (exceptions.ResponseError("WRONGTYPE Operation against a key"), "somebody else wrote"),
        (exceptions.ResponseError("DENIED Redis is running in protected mode"), "protected mode"),
        (exceptions.ResponseError("unknown command 'EVALSHA', with args"), "lacks a command"),
        (exceptions.ResponseError("ERR something new"), "it refused: ERR something new"),
        (exceptions.ConnectionError("max number of clients reached"), "no connection left"),
        (exceptions.ConnectionError("Connection reset by peer"), "the connection broke"),
        (exceptions.TimeoutError("Timeout reading from socket"), "no answer within 5.0 s"),
        (socket.gaierror(-2, "Name or service not known"), "host name is unknown"),
        (OSError(113, "No route to host"), "no network leads there"),
        (FileNotFoundError(2, "No such file or directory"), "no such socket"),
    ],
)
def test_every_failure_names_place_reason_and_way_out(error: Exception, why: str) -> None:
    translated = store_error(error, ADDRESS, waited_s=5.0)
    assert translated.message.startswith("the shared store at db.example.com:6380: ")
    assert why in translated.message
    assert translated.hint
    assert "hunter2" not in translated.message + translated.hint


def test_the_cause_that_the_library_hides_is_found() -> None:
    error = exceptions.ConnectionError("Error connecting")
    error.__cause__ = OSError(113, "No route to host")
    assert "no network leads there" in store_error(error, ADDRESS, waited_s=1).message


@pytest.mark.parametrize(
    "error", [exceptions.TimeoutError("Timeout"), exceptions.ConnectionError("Connection closed by server.")]
)
def test_only_a_write_whose_answer_was_lost_is_said_to_be_uncertain(error: Exception) -> None:
    assert "unknown" in store_error(error, ADDRESS, waited_s=5.0, is_write=True).message
    assert "unknown" not in store_error(error, ADDRESS, waited_s=5.0).message
    refused = exceptions.ConnectionError("Error 111 connecting to h:1. Connection refused.")
    assert "unknown" not in store_error(refused, ADDRESS, waited_s=5.0, is_write=True).message
