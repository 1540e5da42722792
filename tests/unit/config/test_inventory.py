"""What a right inventory means."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.config.inventory import Inventory, find, load
from toolkit.config.paths import sample_file
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Host, Secret, SshAddress


def read(folder: Path, text: str, *, resolve: bool = True, environ: dict[str, str] | None = None) -> Inventory:
    path = folder / "inventory.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, resolve=resolve, environ=environ or {})


def only(inventory: Inventory) -> Host:
    (host,) = inventory.hosts
    return host


def test_the_sample_is_three_local_nodes() -> None:
    inventory = load(sample_file("inventory.yaml"))
    assert [(host.name, host.url) for host in inventory.hosts] == [
        ("node-1", "http://127.0.0.1:6801"),
        ("node-2", "http://127.0.0.1:6802"),
        ("node-3", "http://127.0.0.1:6803"),
    ]
    assert all(host.is_local and host.password is None and host.slots for host in inventory.hosts)
    assert inventory.redis == Secret("redis://127.0.0.1:6390/0")
    assert inventory.groups["laptop"] == ("node-1", "node-2", "node-3")


def test_relative_paths_of_files_start_at_the_inventory_s_folder(tmp_path: Path) -> None:
    text = "hosts: {a: {ssh: {key: keys/id, config: /etc/c}, provision: {wheelhouse: ~/wheels, requirements: r.txt}}}"
    host = read(tmp_path, text).hosts[0]
    assert (host.ssh.key, host.ssh.config) == (str(tmp_path / "keys" / "id"), "/etc/c")
    assert (host.provision.wheelhouse, host.provision.requirements) == ("~/wheels", str(tmp_path / "r.txt"))
    assert host.provision.constraints is None


def test_what_the_sample_shows_in_comments_is_right_too(tmp_path: Path) -> None:
    text = sample_file("inventory.yaml").read_text(encoding="utf-8")
    examples = text[text.index("# hosts:") :].replace("[pass, show, ", "[echo, pw, ")
    secret = tmp_path / "secrets" / "by-address.password"
    secret.parent.mkdir()
    secret.write_text("from a file\n")
    secret.chmod(0o600)
    shown = "".join(line.removeprefix("# ").removeprefix("#") for line in examples.splitlines(keepends=True))
    inventory = read(tmp_path, shown, environ={"CRAWLER_PASSWORD": "from outside", "PATH": "/usr/bin:/bin"})
    assert len(inventory.hosts) == 43
    passwords = {None, Secret("from outside"), Secret("pw scrapyd/node-a"), Secret("from a file")}
    assert {host.password for host in inventory.hosts} == passwords
    assert inventory.hosts[0].ssh.sudo_password == Secret("pw crawlers/sudo")
    assert len(inventory.groups["fleet"]) == 41


def test_a_host_without_variables_is_reached_by_its_name(tmp_path: Path) -> None:
    host = only(read(tmp_path, "hosts:\n  crawler.example.com:\n"))
    assert host == Host(name=host.name, address="crawler.example.com")


def test_every_variable_arrives(tmp_path: Path) -> None:
    text = """
hosts:
  a:
    address: 192.0.2.1
    port: 443
    scheme: https
    path: /scrapyd/
    username: me
    password: "12345"
    timeout_s: 2.5
    slots: 4
    labels: {gpu: yes, zone: 7}
    connection: ssh
    ssh: {user: deploy, port: 2222, key: ~/.ssh/id}
"""
    host = only(read(tmp_path, text))
    assert host.url == "https://192.0.2.1:443/scrapyd"
    assert (host.username, host.password, host.timeout_s, host.slots) == ("me", Secret("12345"), 2.5, 4)
    assert host.labels == {"gpu": "yes", "zone": "7"}
    assert host.ssh == SshAddress(user="deploy", port=2222, key="~/.ssh/id")


def test_a_local_host_listens_on_loopback(tmp_path: Path) -> None:
    assert only(read(tmp_path, "hosts: {a: {connection: local}}")).address == "127.0.0.1"


def test_a_range_makes_a_host_of_each_name(tmp_path: Path) -> None:
    inventory = read(tmp_path, "hosts:\n  crawler-[01:40].example.com: {port: 6801}\n")
    assert [host.address for host in inventory.hosts][::39] == ["crawler-01.example.com", "crawler-40.example.com"]
    assert {host.port for host in inventory.hosts} == {6801}


def test_the_nearer_level_wins_and_labels_merge_key_by_key(tmp_path: Path) -> None:
    text = """
defaults: {timeout_s: 1, slots: 1, port: 1, username: d, labels: {a: d, b: d, c: d, e: d}, ssh: {user: d, port: 1}}
hosts:
  h: {username: h, labels: {c: h}}
groups:
  child: {hosts: [h], vars: {port: 3, username: c, labels: {b: c, c: c}, ssh: {port: 3}}}
  parent: {children: [child], vars: {slots: 2, port: 2, labels: {a: p, b: p, c: p}}}
"""
    host = only(read(tmp_path, text))
    assert (host.timeout_s, host.slots, host.port, host.username) == (1.0, 2, 3, "h")
    assert host.labels == {"a": "p", "b": "c", "c": "h", "e": "d"}
    assert host.ssh == SshAddress(user="d", port=3)
    assert host.groups == {"child", "parent"}


def test_of_groups_that_are_no_kin_the_later_wins(tmp_path: Path) -> None:
    groups = "groups: {b: {hosts: [h], vars: {port: 1}}, a: {hosts: [h], vars: {port: 2}}}"
    assert only(read(tmp_path, f"hosts: {{h: }}\n{groups}")).port == 2


def test_a_group_holds_the_hosts_of_its_children_in_file_order(tmp_path: Path) -> None:
    text = "hosts: {z: , y: , x: }\ngroups: {a: {children: [b, c]}, b: {hosts: [x]}, c: {hosts: [y, x], children: [b]}}"
    assert read(tmp_path, text).groups == {"a": ("y", "x"), "b": ("x",), "c": ("y", "x")}


def test_null_takes_back_what_a_group_said(tmp_path: Path) -> None:
    text = "defaults: {username: u, password: p}\nhosts: {a: {username: null, password: ~}}"
    host = only(read(tmp_path, text))
    assert (host.username, host.password) == (None, None)


def test_anchors_and_merge_keys_work(tmp_path: Path) -> None:
    text = "hosts:\n  a: &base {port: 1, slots: 3}\n  b:\n    <<: *base\n    port: 2\n"
    assert [(host.port, host.slots) for host in read(tmp_path, text).hosts] == [(1, 3), (2, 3)]


def test_the_inventory_picks_by_pattern(tmp_path: Path) -> None:
    inventory = read(tmp_path, "hosts: {a: , b: , c: }\ngroups: {ab: {hosts: [a, b]}}")
    assert [host.name for host in inventory.pick("ab:!a")] == ["b"]
    assert inventory.pick(None) == inventory.hosts


def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    inventory = read(tmp_path, "redis: redis://:pw1@h/0\nhosts: {a: {username: u, password: pw2}}")
    assert inventory.redis is not None
    assert inventory.redis.reveal() == "redis://:pw1@h/0"
    assert "pw1" not in repr(inventory)
    assert "pw2" not in repr(inventory)


@settings(deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(["port", "slots"]), st.integers(1, 9), max_size=2), min_size=4, max_size=4)
)
def test_whatever_the_levels_say_the_nearest_wins(levels: list[dict[str, int]]) -> None:
    defaults, parent, child, own = levels
    text = (
        f"defaults: {defaults}\nhosts: {{h: {own}}}\n"
        f"groups: {{c: {{hosts: [h], vars: {child}}}, p: {{children: [c], vars: {parent}}}}}\n"
    )
    # Hypothesis runs the body many times in one test, so a file of its own is simplest.
    from tempfile import TemporaryDirectory  # noqa: PLC0415 - see above

    with TemporaryDirectory() as folder:
        host = only(read(Path(folder), text.replace("'", "")))
    merged = {**defaults, **parent, **child, **own}
    assert (host.port, host.slots) == (merged.get("port", 6800), merged.get("slots"))


class TestFinding:
    def test_what_is_named_comes_first(self, tmp_path: Path) -> None:
        for name in ("a.yaml", "b.yaml", "inventory.yaml"):
            (tmp_path / name).touch()
        environ = {"CRAWLCTL_INVENTORY": "b.yaml"}
        assert find(Path("a.yaml"), start=tmp_path, environ=environ).name == "a.yaml"
        assert find(None, start=tmp_path, environ=environ).name == "b.yaml"
        assert find(None, start=tmp_path, environ={}).name == "inventory.yaml"

    def test_it_is_found_in_a_folder_above(self, tmp_path: Path) -> None:
        (tmp_path / "inventory.yaml").touch()
        inner = tmp_path / "a" / "b"
        inner.mkdir(parents=True)
        assert find(None, start=inner, environ={"CRAWLCTL_INVENTORY": ""}) == tmp_path / "inventory.yaml"

    def test_one_that_is_named_but_absent_says_who_named_it(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"from -i\) does not exist"):
            find(Path("x.yaml"), start=tmp_path, environ={})
        with pytest.raises(ConfigurationError, match=r"from CRAWLCTL_INVENTORY\) is a folder"):
            find(None, start=tmp_path, environ={"CRAWLCTL_INVENTORY": str(tmp_path)})

    def test_without_any_the_hint_is_to_make_one(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError) as caught:
            find(None, start=tmp_path, environ={})
        assert "crawlctl init" in (caught.value.hint or "")
