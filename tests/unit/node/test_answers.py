"""What a node answers when it is asked: parts of its jobs' files and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from toolkit.model.calls import Question
from toolkit.model.errors import RefusedError
from toolkit.model.names import NodeName
from toolkit.model.nodes import Whereabouts
from toolkit.node.answers import answers, folder_of
from toolkit.node.present import present_address
from toolkit.store.wire_calls import read_head

JOB = {"project": "shop", "spider": "books", "job": "3f2a"}


def asked(folder: Path, args: Mapping[str, str], *, what: str = "log", items_dir: str = "") -> list[bytes]:
    known = answers(logs_dir=folder, items_dir=items_dir)
    return list(known[what](Question("1", NodeName("node-1"), what, args)))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    (folder / "shop" / "books").mkdir(parents=True)
    (folder / "shop" / "books" / "3f2a.log").write_bytes(b"0123456789" * 20_000)
    (tmp_path / "secret.log").write_text("a secret")
    (folder / "shop" / "books" / "link.log").symlink_to(tmp_path / "secret.log")
    (folder / "shop" / "books" / "folder.log").mkdir()
    return folder


def test_a_file_comes_in_pieces_after_a_head(logs: Path) -> None:
    head, *pieces = asked(logs, JOB)
    read = read_head(head)
    assert (read.begins_at, read.size) == (0, 200_000)
    assert read.written_at is not None
    assert read.written_at.endswith("GMT")
    assert [len(piece) for piece in pieces] == [64_000, 64_000, 64_000, 8_000]


@pytest.mark.parametrize(
    ("span", "begins_at", "content"),
    [
        ({"begin": "199995"}, 199_995, b"56789"),
        ({"begin": "7", "most": "3"}, 7, b"789"),
        ({"end": "yes", "most": "4"}, 199_996, b"6789"),
        ({"begin": "200000"}, 200_000, b""),
        ({"begin": "300000"}, 300_000, b""),
    ],
)
def test_any_part_of_it_may_be_asked_for(logs: Path, span: dict[str, str], begins_at: int, content: bytes) -> None:
    head, *pieces = asked(logs, {**JOB, **span})
    assert read_head(head).begins_at == begins_at
    assert b"".join(pieces) == content


def test_a_file_that_is_not_there_has_no_size(logs: Path) -> None:
    (head,) = asked(logs, {**JOB, "job": "other"})
    assert read_head(head).size is None
    (head,) = asked(logs, JOB, what="items")
    assert read_head(head).size is None


@pytest.mark.parametrize(
    "names",
    [
        {"project": "..", "spider": "..", "job": "secret"},
        {"project": "shop", "spider": "../..", "job": "secret"},
        {"project": "", "spider": "books", "job": "3f2a"},
        {"project": "shop", "spider": "books", "job": "a\0b"},
        {"project": "shop", "spider": "books", "job": "link"},
        {},
    ],
)
def test_no_name_leads_out_of_the_folder(logs: Path, names: dict[str, str]) -> None:
    with pytest.raises(RefusedError):
        asked(logs, names)


def test_what_is_no_file_or_no_number_is_refused(logs: Path) -> None:
    with pytest.raises((RefusedError, OSError)):
        asked(logs, {**JOB, "job": "folder"})
    for span in ({"begin": "-1"}, {"begin": "x"}, {"most": "1e3"}, {"begin": "9" * 40}):
        with pytest.raises(RefusedError, match="whole number"):
            asked(logs, {**JOB, **span})


def test_a_pipe_that_a_spider_laid_in_a_logs_place_holds_up_nobody(logs: Path) -> None:
    os.mkfifo(logs / "shop" / "books" / "pipe.log")
    with pytest.raises(RefusedError, match="no file"):
        asked(logs, {**JOB, "job": "pipe"})


def test_items_that_go_elsewhere_are_not_here(tmp_path: Path) -> None:
    assert folder_of("") is None
    assert folder_of(f"file://{tmp_path}/items") == tmp_path / "items"
    assert folder_of("/srv/items") == Path("/srv/items")
    with pytest.raises(RefusedError, match="s3://"):
        folder_of("s3://bucket/items")


def test_what_is_installed_is_told_by_name(tmp_path: Path) -> None:
    found = json.loads(b"".join(asked(tmp_path, {}, what="software")))
    assert found["Scrapy"].startswith("2.")


@pytest.mark.parametrize(
    ("configured", "local", "told"),
    [
        ("0.0.0.0:6800", "10.0.0.5", "10.0.0.5:6800"),
        ("[::]:6800", "2001:db8::5", "[2001:db8::5]:6800"),
        ("[::]:6800", "10.0.0.5", "10.0.0.5:6800"),
        ("0.0.0.0:6800", "127.0.0.1", "0.0.0.0:6800"),
        ("0.0.0.0:6800", None, "0.0.0.0:6800"),
        ("127.0.0.1:6800", "10.0.0.5", "127.0.0.1:6800"),
        ("node-3.example.com:80", "10.0.0.5", "node-3.example.com:80"),
    ],
)
def test_a_node_that_listens_everywhere_tells_the_address_it_uses(configured: str, local: str, told: str) -> None:
    assert present_address(configured, Whereabouts(local)) == told
