"""Scrapyd reads back what was given, and the comments stay."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.require import require

from toolkit.config.paths import sample_file
from toolkit.config.scrapyd_conf import render
from toolkit.model.errors import ConfigurationError


def read_back(folder: Path, text: str) -> dict[str, str]:
    """Let Scrapyd itself read the file, on top of its own defaults."""
    require(find_spec("scrapyd"), "Scrapyd is not installed: pip install 'crawlctl[local]'")
    # Imported here, since a test without Scrapyd skips.
    from scrapyd.config import Config  # noqa: PLC0415 - see above

    path = folder / "scrapyd.conf"
    path.write_text(text, encoding="utf-8")
    return dict(Config(extra_sources=(str(path),)).items("scrapyd"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conf")


def test_the_sample_is_valid_and_holds_no_credentials(folder: Path) -> None:
    options = read_back(folder, render({}))
    assert render({}) == sample_file("scrapyd.conf").read_text(encoding="utf-8")
    assert (options["username"], options["password"]) == ("", "")
    assert options["bind_address"] == "127.0.0.1"
    assert options["jobstorage"] == "scrapyd.jobstorage.SqliteJobStorage"


def test_every_option_of_the_sample_is_one_of_scrapyd(folder: Path) -> None:
    defaults = read_back(folder, "")
    assert set(read_back(folder, render({}))) == {*defaults, "node_name"}


def test_given_values_are_read_back_and_others_stay(folder: Path) -> None:
    given_values = {
        "password": "50%off;#x = [y] %(a)s",
        "http_port": "6801",
        "unix_socket_path": "/x",
        "node_name": "n",
    }
    options = read_back(folder, render(given_values))
    assert given_values.items() <= options.items()
    assert options["eggs_dir"] == "eggs"


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_read_back_or_refused(folder: Path, text: str) -> None:
    try:
        rendered = render({"password": text, "runner": text})
    except ConfigurationError:
        assert text != text.strip() or not text.isprintable()
        return
    options = read_back(folder, rendered)
    assert (options["password"], options["runner"]) == (text, text)


def test_the_comments_stay() -> None:
    def comments(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith("#")]

    assert comments(render({"http_port": "1", "webroot": "x"})) == comments(render({}))


@pytest.mark.parametrize(
    "values", [{"password": "a\nb"}, {"password": "a\rb"}, {"password": " a"}, {"a b": "x"}, {"": "x"}]
)
def test_what_the_file_cannot_hold_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        render(values)
