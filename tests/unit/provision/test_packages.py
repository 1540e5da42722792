"""Requirements are read as pip reads them, versions are kept for the hosts to come, and wheels are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.paper_host import bare_facts, wanted, wanted_packages

from toolkit.model.errors import ConfigurationError
from toolkit.provision import own_wheel
from toolkit.provision.facts import EnvironmentFact
from toolkit.provision.packages import PinsFolder, bare_pins, lines_of, odd_pin, platform_of, versions_of, wheels_for
from toolkit.provision.provisioning import Provisioning


def test_files_that_a_file_includes_are_read_in_their_place(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more/base.txt").write_text("requests>=2  # for the shop\n")
    (tmp_path / "all.txt").write_text("-r more/base.txt\n\n# nothing\nlxml; python_version > '3'\n")

    assert list(lines_of(tmp_path / "all.txt")) == ["requests>=2", "lxml; python_version > '3'"]


@pytest.mark.parametrize("line", ["-e .", "./mine", "--index-url https://x:y@z/", "mine @ file:///home/me/mine"])
def test_what_is_on_this_machine_only_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "all.txt").write_text(f"scrapy\n{line}\n")

    with pytest.raises(ConfigurationError, match=r"all.txt:2: .* cannot be carried to a host"):
        list(lines_of(tmp_path / "all.txt"))


def test_versions_are_kept_for_each_kind_of_host_and_preferred_when_wishes_change(tmp_path: Path) -> None:
    pins = PinsFolder(tmp_path)
    pins.put("py3.11-x86_64-glibc", "aaa", "scrapy==2.13.3\n")

    assert pins.get("py3.11-x86_64-glibc", "aaa") == "scrapy==2.13.3\n"
    assert pins.get("py3.12-x86_64-glibc", "aaa") is None
    assert pins.get("py3.11-x86_64-glibc", "bbb") is None
    assert pins.preferences("py3.11-x86_64-glibc") == "scrapy==2.13.3\n"


def test_names_are_the_same_however_they_are_written() -> None:
    assert versions_of("Zope.Interface==8.0\nscrapy_redis==0.9.1 ; x\n# no\n") == {
        "zope-interface": "8.0",
        "scrapy-redis": "0.9.1",
    }


def test_wheels_of_another_machine_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "lxml-6.0-cp311-cp311-manylinux_2_28_aarch64.whl").write_bytes(b"")
    (tmp_path / "zope_interface-8.0-cp311-cp311-manylinux_2_28_x86_64.whl").write_bytes(b"")
    found, missing = wheels_for("lxml==6.0\nzope.interface==8.0\n", tmp_path, "x86_64")

    assert [path.name[:4] for path in found] == ["zope"]
    assert missing == ("lxml==6.0",)


def test_platform_is_the_newest_that_the_host_has() -> None:
    assert platform_of(bare_facts()) == "x86_64-manylinux_2_36"
    assert platform_of(bare_facts(libc_version=(2, 27), machine="aarch64")) == "aarch64-manylinux_2_17"
    assert platform_of(bare_facts(libc="musl")) == "x86_64-unknown-linux-musl"


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://evil.example",
        "-e /tmp/evil",
        "evil @ https://evil.example/e.whl",
        "scrapy==2 --hash=x y",
        "../e",
    ],
)
def test_what_a_host_tells_as_versions_may_be_nothing_but_versions(line: str) -> None:
    asked = "mine @ git+https://git.example/mine@v1\nlxml>=5"
    good = (
        "lxml==5.3.0\n# a remark\nmine @ git+https://git.example/mine@0f1e2d\ntwisted==25.5.0 ; python_version > '3'\n"
    )

    assert odd_pin(good, requirements=asked) is None
    assert odd_pin(f"{good}{line}\n", requirements=asked) == line
    assert bare_pins(f"{good}{line}\n").splitlines()[0] == "lxml==5.3.0"
    assert "evil" not in bare_pins(f"{good}{line}\n")


def test_what_one_host_has_is_kept_there_and_no_other_host_installs_it_unasked(tmp_path: Path) -> None:
    pins = "evil==1\nscrapy==2.13\n"
    facts = bare_facts(environment=EnvironmentFact("e", {}, is_complete=True, inputs="1nputs", pins=pins))
    nothing: Any = None
    provisioning = Provisioning(nothing, tmp_path, scratch=tmp_path, who="ann@pc:1")
    desired = wanted(packages=wanted_packages(pins=None))

    assert provisioning._known(facts, desired, "kind") == pins
    assert provisioning._known(bare_facts(), desired, "kind") is None
    assert PinsFolder(tmp_path).preferences("kind") == pins


def test_two_crawlctls_that_make_the_wheel_at_once_do_not_mix_their_drafts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack, drafts = own_wheel._pack, []

    def seen(path: Path, contents: Mapping[str, bytes]) -> None:
        drafts.append(path)
        if len(drafts) == 1:
            own_wheel.make_own_wheel(tmp_path)
        pack(path, contents)

    monkeypatch.setattr(own_wheel, "_pack", seen)
    made = own_wheel.make_own_wheel(tmp_path)
    assert len(set(drafts)) == 2
    assert [path.name for path in made.path.parent.iterdir()] == [made.path.name]
