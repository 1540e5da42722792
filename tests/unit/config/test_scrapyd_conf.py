"""Scrapyd reads back what was given, the comments stay, and the sample names every option and every part of a node."""

from __future__ import annotations

import contextlib
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.require import require

from toolkit.config.options import Scope, options
from toolkit.config.paths import sample_file
from toolkit.config.scrapyd_conf import render, render_stock
from toolkit.config.values import parse_value
from toolkit.model.errors import ConfigurationError

Sections = dict[str, dict[str, str]]


def read_back(folder: Path, text: str) -> Sections:
    """Let Scrapyd itself read the file, on top of its own defaults."""
    require(find_spec("scrapyd"), "Scrapyd is not installed: pip install 'crawlctl[local]'")
    # Imported here, since a test without Scrapyd skips.
    from scrapyd.config import Config  # noqa: PLC0415 - see above

    (folder / "scrapyd.conf").write_text(text, encoding="utf-8")
    with contextlib.chdir(folder):
        config = Config()
    return {section: dict(config.items(section)) for section in config.cp.sections()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conf")


def test_the_sample_is_valid_and_holds_no_credentials(folder: Path) -> None:
    read = read_back(folder, render({}, crawlctl={}))
    assert render({}, crawlctl={}) == sample_file("scrapyd.conf").read_text(encoding="utf-8")
    assert (read["scrapyd"]["username"], read["scrapyd"]["password"]) == ("", "")
    assert "redis" not in read["crawlctl"]
    assert read["scrapyd"]["bind_address"] == "127.0.0.1"


def test_every_option_of_the_sample_is_one_of_scrapyd(folder: Path) -> None:
    defaults = read_back(folder, "")
    assert set(read_back(folder, render({}, crawlctl={}))["scrapyd"]) == {*defaults["scrapyd"], "node_name"}


def test_the_sample_has_every_option_of_a_node_with_its_default(folder: Path) -> None:
    written = read_back(folder, render({}, crawlctl={}))["crawlctl"]
    table = {each.name: each for each in options(Scope.NODE)}
    # A URL belongs into a file: the sample only says that it may stand there too.
    assert set(written) == set(table) - {"redis"}
    for name, text in written.items():
        if name == "redis_file":
            assert text == "redis.url"
        elif table[name].default is None:
            assert text == ""
        else:
            assert parse_value(table[name], text) == table[name].default, name


def test_the_sample_names_every_component_that_the_plug_in_insists_on(folder: Path) -> None:
    read = read_back(folder, render({}, crawlctl={}))["scrapyd"]
    # Imported here, since it needs Scrapyd.
    from toolkit.node.application import COMPONENTS  # noqa: PLC0415 - see above

    assert COMPONENTS.items() <= read.items()


def test_the_sample_names_every_endpoint_of_the_plug_in_and_every_one_of_scrapyd(folder: Path) -> None:
    services = read_back(folder, render({}, crawlctl={}))["services"]
    # Imported here, since it needs Scrapyd.
    from toolkit.node import webservice  # noqa: PLC0415 - see above

    assert {path.rpartition(".")[2] for path in services.values()} == set(webservice.__all__)
    assert set(services) == {*read_back(folder, "")["services"], "crawlctl.json"}


@pytest.mark.parametrize("section", ["scrapyd", "services"])
def test_every_part_of_a_node_that_the_sample_names_is_there(folder: Path, section: str) -> None:
    for path in read_back(folder, render({}, crawlctl={}))[section].values():
        if path == "toolkit.node.runner":
            assert find_spec(path)
        elif path.startswith("toolkit."):
            module, _, name = path.rpartition(".")
            assert callable(getattr(import_module(module), name)), path


def test_a_stock_node_has_nothing_of_the_plug_in(folder: Path) -> None:
    stock = render_stock({"http_port": "6801"})
    assert "toolkit" not in stock
    assert "crawlctl.json" not in stock
    read = read_back(folder, stock)
    assert set(read) == {"scrapyd", "services"}
    assert read["scrapyd"]["launcher"] == "scrapyd.launcher.Launcher"
    assert read["scrapyd"]["http_port"] == "6801"
    assert render({"http_port": "6801"}, crawlctl={}).startswith(stock.rstrip("\n"))


def test_given_values_are_read_back_and_others_stay(folder: Path) -> None:
    given_values = {
        "password": "50%off;#x = [y] %(a)s",
        "http_port": "6801",
        "unix_socket_path": "/x",
        "node_name": "n",
    }
    of_node = {"labels": "a=50%, b=c", "cluster": "two", "redis": "redis://:p%2F@h"}
    read = read_back(folder, render(given_values, crawlctl=of_node))
    assert given_values.items() <= read["scrapyd"].items()
    assert of_node.items() <= read["crawlctl"].items()
    assert read["scrapyd"]["eggs_dir"] == "eggs"
    assert read["crawlctl"]["lease_s"] == "15"
    assert given_values.items() <= read_back(folder, render_stock(given_values))["scrapyd"].items()


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_read_back_or_refused(folder: Path, text: str) -> None:
    try:
        rendered = render({"password": text, "prefix_header": text}, crawlctl={"labels": text, "redis": text})
    except ConfigurationError:
        assert text != text.strip() or not text.isprintable()
        return
    read = read_back(folder, rendered)
    assert (read["scrapyd"]["password"], read["scrapyd"]["prefix_header"]) == (text, text)
    assert (read["crawlctl"]["labels"], read["crawlctl"]["redis"]) == (text, text)


def test_the_comments_stay() -> None:
    def comments(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith("#")]

    rendered = render({"http_port": "1", "webroot": "x"}, crawlctl={"lease_s": "2", "redis": "x"})
    assert comments(rendered) == comments(render({}, crawlctl={}))


def test_every_line_of_the_sample_stands_below_a_comment() -> None:
    blocks = re.split(r"\n\s*\n", sample_file("scrapyd.conf").read_text(encoding="utf-8"))
    bare = [block for block in blocks if not any(line.startswith("#") for line in block.splitlines())]
    assert bare == []


@pytest.mark.parametrize(
    "values", [{"password": "a\nb"}, {"password": "a\rb"}, {"password": " a"}, {"a b": "x"}, {"": "x"}]
)
def test_what_the_file_cannot_hold_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        render(values, crawlctl={})
    with pytest.raises(ConfigurationError):
        render({}, crawlctl=values)
