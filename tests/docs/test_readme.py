"""A stranger can follow the README."""

from __future__ import annotations

import re
import tomllib
from xml.etree import ElementTree as ET

from support.documents import ROOT, blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_its_two_commands_are_targets_of_the_makefile() -> None:
    section = README.partition("## Two commands on a fresh machine\n")[2].partition("\n## ")[0]
    assert blocks(section)[0].text == "make demo\nmake test\n"
    for target in re.findall(r"make ([a-z-]+)", README):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


def test_own_hosts_take_ten_lines() -> None:
    section = README.partition("## On your own hosts, in ten lines\n")[2].partition("\n## ")[0]
    assert sum(len(block.text.splitlines()) for block in blocks(section)) == 10


def test_it_names_the_pythons_and_extras_that_the_package_has() -> None:
    minors = [int(tag.rpartition(".")[2]) for tag in PROJECT["classifiers"] if "Python :: 3." in tag]
    *first, last = [f"3.{minor}" for minor in sorted(minors)]
    assert f"Python {', '.join(first)} or {last}" in README
    named = re.findall(r"crawlctl\[([a-z0-9,]+)\]", README)
    assert {extra for extras in named for extra in extras.split(",")} == set(PROJECT["optional-dependencies"])


def test_its_picture_is_a_recording_of_the_demo_that_fetches_nothing() -> None:
    path = re.search(r"!\[[^\]]+\]\(([^)]+\.svg)\)", README)
    assert path is not None
    picture = (ROOT / path[1]).read_text(encoding="utf-8")
    shown = "".join(ET.fromstring(picture).itertext()).replace("\xa0", " ")  # noqa: S314 - our own file
    for line in ("$ crawlctl demo", "$ crawlctl deploy", "$ crawlctl schedule", "$ crawlctl status", "finished"):
        assert line in shown
    assert "url(http" not in picture
    assert "@import" not in picture


def test_the_license_and_the_changelog_agree_with_the_package() -> None:
    assert PROJECT["license"] == "MIT"
    assert "Copyright (c) 2026 crawlctl contributors" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert f"## [{PROJECT['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
