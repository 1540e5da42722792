"""What every `Remote` promises, kept by SSH and by this machine itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.require import require
from support.ssh_server import SshServer
from support.waiting import wait_until

from toolkit.model.errors import HostRefusedError, HostUnreachableError
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.provision.connect import connector
from toolkit.provision.remote import Remote

SOON_S = 30.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with SshServer(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(params=["ssh", "local"])
def remote(request: pytest.FixtureRequest) -> Iterator[Remote]:
    if request.param == "ssh":
        host = request.getfixturevalue("server").host()
    else:
        host = Host(NodeName("node-1"), connection="local")
    remote = connector()(host)
    yield remote
    remote.close()


@pytest.fixture
def root() -> None:
    require(os.geteuid() == 0, "only root becomes another user without a password")


def processes_with(word: str) -> list[str]:
    """Return the processes that have this word on their command line, without those of the shells around them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if word in words and "pytest" not in words:
            found.append(" ".join(words))
    return found


def test_words_arrive_as_they_are(remote: Remote) -> None:
    odd = ["a b", "it's", "$HOME", "*", "", "\\", "é", "-n", "`id`", "two\nlines"]
    assert remote.check(["printf", "%s|", *odd], doing="print") == "".join(f"{each}|" for each in odd)


def test_a_bad_end_is_returned_or_raised_with_its_last_words(remote: Remote) -> None:
    words = ["sh", "-c", "echo out; echo why not >&2; exit 7"]
    ran = remote.run(words, doing="try")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (7, "out\n", "why not\n")
    with pytest.raises(HostRefusedError, match="node-1: try: why not"):
        remote.check(words, doing="try")
    assert remote.run(["no-such-program-here"], doing="try").exit_code == 127
    assert remote.run(["sh", "-c", "kill -9 $$"], doing="try").exit_code == 137


def test_input_is_fed_and_ended_and_without_any_there_is_none(remote: Remote) -> None:
    large = os.urandom(3_000_000)
    assert remote.check(["wc", "-c"], doing="count", stdin=large).strip() == "3000000"
    assert remote.check(["sh", "-c", "cat; echo end"], doing="read") == "end\n"
    assert remote.run(["true"], doing="ignore it", stdin=large).ok


def test_large_outputs_of_both_kinds_come_whole(remote: Remote) -> None:
    ran = remote.run(["sh", "-c", "yes a | head -c 4000000; yes b | head -c 3000000 >&2"], doing="write")
    assert (len(ran.stdout), len(ran.stderr)) == (4_000_000, 3_000_000)


def test_a_command_that_outlives_its_time_is_ended_there(remote: Remote) -> None:
    begun = time.monotonic()
    with pytest.raises(HostUnreachableError, match=r"wait: no end after 0\.5 s"):
        remote.run(["sh", "-c", "sleep 4711.5; true"], doing="wait", timeout_s=0.5)
    assert time.monotonic() - begun < 60
    wait_until(lambda: not processes_with("4711.5"), deadline_s=SOON_S, what="the command to be gone")


def test_what_a_command_leaves_in_the_background_is_not_waited_for(remote: Remote) -> None:
    begun = time.monotonic()
    assert remote.check(["sh", "-c", "sleep 60 & echo started"], doing="start") == "started\n"
    assert time.monotonic() - begun < 30


def test_lines_are_followed_as_they_come_until_the_remote_is_closed(remote: Remote) -> None:
    lines: list[str] = []
    ended = threading.Event()

    def follow() -> None:
        script = "echo one; echo two >&2; printf 'gr\\303\\274n'; sleep 4712.5"
        try:
            remote.follow(["sh", "-c", script], doing="follow", on_line=lines.append)
        except HostUnreachableError:
            pass
        finally:
            ended.set()

    threading.Thread(target=follow, daemon=True).start()
    wait_until(lambda: len(lines) == 2, deadline_s=SOON_S, what="two lines")
    assert sorted(lines) == ["one", "two"]
    remote.close()
    assert ended.wait(SOON_S)
    wait_until(lambda: not processes_with("4712.5"), deadline_s=SOON_S, what="the command to be gone")


def test_the_end_of_what_is_followed_is_told(remote: Remote) -> None:
    lines: list[str] = []
    words = ["sh", "-c", "for i in 1 2 3; do echo $i; done; printf last; exit 3"]
    assert remote.follow(words, doing="follow", on_line=lines.append) == 3
    assert lines == ["1", "2", "3", "last"]


def test_an_error_of_who_listens_comes_out_as_it_is(remote: Remote) -> None:
    def broken(line: str) -> None:
        raise BrokenPipeError(line)

    with pytest.raises(BrokenPipeError, match="one"):
        remote.follow(["echo", "one"], doing="follow", on_line=broken)


@pytest.mark.usefixtures("root")
def test_a_file_is_put_in_place_with_its_mode_and_owner_and_read_again(remote: Remote, tmp_path: Path) -> None:
    path = tmp_path / "a 'file'"
    content = bytes(range(256)) * 10
    remote.write(str(path), content, mode=0o640, owner="nobody", as_root=True)
    status = path.stat()
    assert (status.st_mode & 0o7777, status.st_uid) == (0o640, 65534)
    assert remote.read(str(path)) == content
    remote.write(str(path), b"", mode=0o600)
    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (b"", 0o600)
    assert list(tmp_path.iterdir()) == [path]
    assert remote.read(str(tmp_path / "none")) is None


def test_what_cannot_be_written_or_read_is_refused_and_leaves_nothing(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(HostRefusedError, match="it is a folder"):
        remote.write(str(tmp_path / "folder"), b"x", mode=0o600)
    with pytest.raises(HostRefusedError, match="No such file"):
        remote.write(str(tmp_path / "none" / "file"), b"x", mode=0o600)
    with pytest.raises(HostRefusedError, match="nobody-of-that-name"):
        remote.write(str(tmp_path / "file"), b"x", mode=0o600, owner="nobody-of-that-name")
    with pytest.raises(HostRefusedError, match="larger than 10 bytes"):
        remote.read("/etc/passwd", max_bytes=10)
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_a_large_file_is_sent_whole_with_its_mode_and_its_progress(remote: Remote, tmp_path: Path) -> None:
    source, told = tmp_path / "source", list[int]()
    source.write_bytes(os.urandom(5_000_000))
    source.chmod(0o755)
    remote.send(source, str(tmp_path / "there"), on_bytes=told.append)
    assert (tmp_path / "there").read_bytes() == source.read_bytes()
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o755
    assert told == sorted(told)
    assert told[-1] == 5_000_000
    with pytest.raises(HostRefusedError, match="cannot read"):
        remote.send(tmp_path / "none", str(tmp_path / "there"))


@pytest.mark.usefixtures("root")
def test_another_user_s_command_runs_as_that_user(remote: Remote) -> None:
    words = ["sh", "-c", 'id -un; id -gn; pwd; echo "$HOME"; cat']
    said = remote.check(words, doing="ask", as_user="nobody", stdin=b"it's fed").split("\n")
    assert (said[0], said[2], said[4]) == ("nobody", "/", "it's fed")
    assert remote.check(["id", "-u"], doing="ask", as_root=True) == "0\n"


def test_a_full_disk_is_told_and_the_old_file_stays(remote: Remote, tmp_path: Path, small_disk: Path) -> None:
    path = small_disk / "file"
    remote.write(str(path), b"old", mode=0o600)
    with pytest.raises(HostRefusedError, match=f"no space left on its disk for {path}") as told:
        remote.write(str(path), b"x" * 2_000_000, mode=0o600)
    assert told.value.hint == "free some space there, then do it again"
    source = tmp_path / "source"
    source.write_bytes(b"x" * 2_000_000)
    with pytest.raises(HostRefusedError, match="no space left on its disk"):
        remote.send(source, str(small_disk / "other"))
    assert path.read_bytes() == b"old"
    assert list(small_disk.iterdir()) == [path]
    assert shutil.disk_usage(small_disk).used < 100_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False)
    require(mounted.returncode == 0, "a small disk is mounted as root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
