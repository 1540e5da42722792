"""What a release needs, read out of its egg, and judged by what is installed where it is to run."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from email.message import Message
from importlib import metadata
from pathlib import Path

import pytest

from toolkit.config.requirements import (
    ENVIRONMENT_FILE,
    MAX_NEEDS_BYTES,
    NEEDS_FILE,
    Needs,
    in_words,
    lacking,
    lacking_by_version,
    needs_of,
    normalised,
)
from toolkit.model.errors import EggError


class Installed(metadata.Distribution):
    """A package as it would be installed."""

    def __init__(self, version: str, requires: tuple[str, ...] = ()) -> None:
        self._version = version
        self._requires = requires

    def read_text(self, filename: str) -> str | None:
        message = Message()
        message["Version"] = self._version
        for line in self._requires:
            message["Requires-Dist"] = line
        return message.as_string() if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError(path)


HERE: Mapping[str, Installed] = {
    "lxml": Installed("4.9.2"),
    "scrapy": Installed("2.13.3", ("parsel>=1.5",)),
    "requests": Installed("2.32.0", ("urllib3>=1", 'PySocks>=1.5.6; extra == "socks"', "an odd line")),
    "odd": Installed("who knows"),
}


def lacks(*lines: str) -> list[str]:
    return [str(lack) for lack in lacking([normalised(line) for line in lines], find=HERE.get)]


def an_egg(folder: Path, files: Mapping[str, bytes]) -> Path:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    path = folder / "project.egg"
    path.write_bytes(buffer.getvalue())
    return path


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Scrapy >= 2.5 , <3", "scrapy<3,>=2.5"),
        ("scrapy<3,>=2.5", "scrapy<3,>=2.5"),
        ("Requests[Socks,security]", "requests[security,socks]"),
        ("zope.interface", "zope-interface"),
        ('tinydep==1 ; python_version<"3.12"', 'tinydep==1; python_version < "3.12"'),
        ("foo @ https://example.com/foo.whl", "foo @ https://example.com/foo.whl"),
        (
            "foo @ git+ssh://git@example.com/foo ; python_version>'3'",
            'foo @ git+ssh://git@example.com/foo ; python_version > "3"',
        ),
    ],
)
def test_every_spelling_of_a_requirement_has_one_form_that_reads_the_same(text: str, wanted: str) -> None:
    assert normalised(text) == wanted
    assert normalised(wanted) == wanted


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("./here", "no requirement"),
        ("-r other.txt", "no requirement"),
        ("--index-url=https://example.com", "no requirement"),
        ("git+https://ann:secret@example.com/foo", "no requirement"),
        ("foo @ file:///etc/passwd", "this machine's own"),
        ("foo @ https://ann:secret@example.com/foo.whl", "password"),
        ("foo @ https://token@example.com/foo.whl", "password"),
        ("foo @ https://${TOKEN}@example.com/foo.whl", "password"),
    ],
)
def test_what_no_other_machine_may_have_is_no_requirement_and_not_repeated(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word) as refused:
        normalised(text)
    assert "secret" not in str(refused.value)
    assert "token" not in str(refused.value).lower()


def test_a_requirement_is_met_by_what_is_installed_or_said_to_be_lacking_with_what_is_there() -> None:
    assert lacks("scrapy>=2.13", "LXML", "lxml!=5") == []
    assert lacks("lxml>=5", "tinydep==1.0") == ["lxml>=5 (has 4.9.2)", "tinydep==1.0 (has none)"]
    assert lacks("tinydep; python_version < '3'", "tinydep; platform_system == 'Amiga'") == []
    assert lacks("lxml @ https://example.com/lxml.whl") == []
    assert lacks("odd") == []
    assert lacks("odd>=1") == ["odd>=1 (has who knows)"]


def test_an_extra_is_met_when_what_it_brings_is_there() -> None:
    assert lacks("requests") == []
    assert lacks("requests[socks]") == ["PySocks>=1.5.6 (has none)"]
    assert lacks("requests[security]") == []


def test_of_another_machine_names_and_versions_are_enough() -> None:
    found = lacking_by_version(["lxml>=5", "zope-interface", "scrapy>=2"], {"zope.interface": "7", "lxml": "4.9"})
    assert list(map(str, found)) == ["lxml>=5 (has 4.9)", "scrapy>=2 (has none)"]
    assert in_words(found).startswith("lacks lxml>=5 (has 4.9), scrapy>=2 (has none): ")


def test_what_an_egg_says_is_read_back(tmp_path: Path) -> None:
    for needs in (Needs(), Needs(("lxml>=5", "tinydep==1")), Needs(("lxml>=5",), has_environment=True)):
        assert needs_of(an_egg(tmp_path, {"shop/x.py": b"", **needs.files()})) == needs


def test_an_egg_without_requirements_has_no_files_about_them() -> None:
    assert Needs(has_environment=True).files() == {}


@pytest.mark.parametrize(
    "content", [b"--index-url https://example.com\n", b"\xff\xfe", b"foo @ file:///x\n", b"x\n" * MAX_NEEDS_BYTES]
)
def test_an_egg_whose_requirements_are_none_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(EggError, match=NEEDS_FILE):
        needs_of(an_egg(tmp_path, {NEEDS_FILE: content, ENVIRONMENT_FILE: b""}))


def test_what_is_no_egg_needs_nothing(tmp_path: Path) -> None:
    (tmp_path / "no.egg").write_bytes(b"no zip file")
    assert needs_of(tmp_path / "no.egg") == Needs()
    assert needs_of(tmp_path / "absent.egg") == Needs()
