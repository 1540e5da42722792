"""Values that come from the environment, from files and from commands."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from toolkit.config.inventory import Inventory, load, references
from toolkit.model.errors import InventoryError
from toolkit.model.hosts import Secret

ENVIRON = {"PATH": "/usr/bin:/bin", "PORT": "6801", "PASSWORD": "from outside"}


def read(folder: Path, text: str, *, resolve: bool = True) -> Inventory:
    path = folder / "inventory.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, resolve=resolve, environ=ENVIRON)


def mistake(folder: Path, text: str) -> str:
    with pytest.raises(InventoryError) as caught:
        read(folder, text)
    (found,) = caught.value.mistakes
    return found.text


def secret_file(folder: Path, text: str, *, mode: int = 0o600) -> None:
    (folder / "secret").write_text(text)
    (folder / "secret").chmod(mode)


def password(value: str) -> str:
    return f"hosts: {{a: {{username: u, password: {value}}}}}"


def test_a_variable_gives_its_value(tmp_path: Path) -> None:
    (host,) = read(tmp_path, "hosts: {a: {port: {env: PORT}, username: u, password: {env: PASSWORD}}}").hosts
    assert (host.port, host.password) == (6801, Secret("from outside"))


def test_a_variable_that_is_not_set_falls_back(tmp_path: Path) -> None:
    text = """
hosts:
  a:
    port: {env: P, default: 7000}
    username: {env: U, default: null}
    address: {env: A, default: {env: PORT}}
"""
    (host,) = read(tmp_path, text).hosts
    assert (host.port, host.username, host.address) == (7000, None, "6801")


def test_a_label_may_be_called_env(tmp_path: Path) -> None:
    (host,) = read(tmp_path, "hosts: {a: {labels: {env: prod, zone: {env: PORT}}}}").hosts
    assert host.labels == {"env": "prod", "zone": "6801"}


def test_a_file_gives_its_text_without_the_line_break(tmp_path: Path) -> None:
    secret_file(tmp_path, "from a file \n")
    (host,) = read(tmp_path, password("{file: secret}")).hosts
    assert host.password == Secret("from a file ")


def test_a_password_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    secret_file(tmp_path, "x", mode=0o644)
    assert mistake(tmp_path, password("{file: secret}")).endswith(f"chmod 600 {tmp_path}/secret")
    assert "chmod 600" in mistake(tmp_path, "redis: {file: secret}\nhosts: {a: }")


def test_a_file_that_is_no_secret_may_be_open_to_all(tmp_path: Path) -> None:
    secret_file(tmp_path, "me\n", mode=0o644)
    (host,) = read(tmp_path, "hosts: {a: {username: {file: secret}}}").hosts
    assert host.username == "me"


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "gives nothing"), (b"\n", "gives nothing"), (b"\xff", "gives no UTF-8 text"), (b"x" * 70_000, "more than")],
)
def test_a_file_without_a_usable_text_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    secret_file(tmp_path, "")
    (tmp_path / "secret").write_bytes(content)
    assert words in mistake(tmp_path, password("{file: secret}"))


def test_a_file_that_is_missing_or_a_folder_is_refused(tmp_path: Path) -> None:
    assert "No such file" in mistake(tmp_path, password("{file: absent}"))
    assert "is not an ordinary file" in mistake(tmp_path, password("{file: .}"))
    assert "cannot be read" in mistake(tmp_path, password("{file: ~no-such-user/x}"))
    assert "cannot be read" in mistake(tmp_path, password('{file: "a\\0b"}'))


def test_a_command_gives_what_it_prints_and_runs_once_in_the_inventorys_folder(tmp_path: Path) -> None:
    script = "{command: [sh, -c, 'echo x >> runs; pwd']}"
    text = f"hosts: {{a: {{username: u, password: {script}}}, b: {{username: u, password: {script}}}}}"
    assert {host.password for host in read(tmp_path, text).hosts} == {Secret(str(tmp_path))}
    assert (tmp_path / "runs").read_text() == "x\n"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("[sh, -c, 'echo hunter2; exit 3']", "the command sh failed with exit code 3"),
        ("[sh, -c, 'kill -9 $$']", "the command sh was ended by signal 9"),
        ("['true']", "the command true gives nothing"),
        ("[no-such-program]", "the command no-such-program cannot be started: No such file or directory"),
    ],
)
def test_a_command_that_fails_is_a_mistake(tmp_path: Path, argv: str, words: str) -> None:
    assert mistake(tmp_path, password(f"{{command: {argv}}}")) == words


def test_a_command_that_hangs_is_ended_at_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "COMMAND_DEADLINE_S", 0.3)
    started = time.monotonic()
    assert mistake(tmp_path, password("{command: [sleep, '60']}")) == "the command sleep did not end within 0.3 s"
    assert time.monotonic() - started < 10


def test_unresolved_values_keep_their_defaults_and_nothing_is_run(tmp_path: Path) -> None:
    script = "{command: [sh, -c, 'touch ran; echo x']}"
    text = f"redis: {{env: X}}\nhosts: {{a: {{port: {{env: X}}, password: {script}}}, b: {{address: {{file: x}}}}}}"
    inventory = read(tmp_path, text, resolve=False)
    assert [(host.address, host.port, host.password) for host in inventory.hosts] == [
        ("a", 6800, None),
        ("b", 6800, None),
    ]
    assert inventory.redis is None
    assert not (tmp_path / "ran").exists()
