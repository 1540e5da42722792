"""A node's folder: one identity for good, one process at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret
from toolkit.node.home import Home


def test_the_identity_is_made_once_and_kept(tmp_path: Path) -> None:
    first = Home(tmp_path / "node")
    made = first.id
    first.leave()

    assert Home(tmp_path / "node").id == made
    assert Home(tmp_path / "other").id != made


def test_nobody_else_lives_there_meanwhile(tmp_path: Path) -> None:
    first = Home(tmp_path)
    with pytest.raises(ConfigurationError, match="another Scrapyd already lives in state_dir"):
        Home(tmp_path)

    first.leave()
    assert Home(tmp_path).id == first.id


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError, match="cannot be used"):
        Home(tmp_path / "file" / "node")


def test_a_copy_of_the_folder_on_another_machine_has_another_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Home(tmp_path)
    original.leave()
    monkeypatch.setattr("platform.node", lambda: "another-machine")

    assert Home(tmp_path).id != original.id


def test_with_a_node_id_the_folder_is_known_on_another_machine_and_no_other_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Home(tmp_path / "node", node_id="worker-1")
    original.leave()
    monkeypatch.setattr("platform.node", lambda: "another-container")
    again = Home(tmp_path / "node", node_id="worker-1")
    again.leave()

    assert again.id == original.id
    others = Home(tmp_path / "node", node_id="worker-2"), Home(tmp_path / "other", node_id="worker-1")
    assert original.id not in {other.id for other in others}


def test_the_url_of_redis_is_kept_for_its_owner_alone_and_written_anew_at_each_start(tmp_path: Path) -> None:
    home = Home(tmp_path)
    path = home.keep_redis(Secret("redis://one:1/0"))
    assert home.keep_redis(Secret("redis://other:1/0")) == path

    assert path.read_text() == "redis://other:1/0\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.glob("*draft*")] == []
