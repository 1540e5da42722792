"""Projects that no node could run: told at the desk with file and line, and no node hears of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli import NodeEntry
from support.desk import Desk
from support.faulty_server import FaultyNode
from support.scrapy_projects import spider, write_project

pytestmark = pytest.mark.xdist_group("stories-broken-project")

BROKEN = [
    (
        "import scrapy\nimport a_module_that_nobody_has\n",
        ["shop/spiders/news.py, line 2", "No module named 'a_module_that_nobody_has'"],
    ),
    (
        "import scrapy\n\nclass News(scrapy.Spider):\n    name = 'news\n",
        ["shop/spiders/news.py, line 4", "SyntaxError"],
    ),
    (
        spider("books", cls="AlsoBooks"),
        ["two spiders share one name: 'books'", "shop.spiders.books.Books", "shop.spiders.news.AlsoBooks"],
    ),
    (
        f"print('hello there')\n{spider('news', cls='News')}",
        ["shop/spiders/news.py, line 1", "prints 'hello there'"],
    ),
    (
        "import scrapy\n\nraise SystemExit(0)\n",
        ["shop/spiders/news.py, line 3", "SystemExit"],
    ),
]


@pytest.fixture
def node() -> Iterator[FaultyNode]:
    """Give a node that counts what it hears."""
    with FaultyNode("500") as node:
        yield node


@pytest.fixture
def desk(node: FaultyNode, tmp_path: Path) -> Desk:
    return Desk.of([NodeEntry("node-1", "127.0.0.1", node.port)], None, tmp_path / "desk")


@pytest.mark.parametrize(("source", "told"), BROKEN, ids=["import error", "syntax error", "same name", "print", "exit"])
def test_a_project_that_no_node_could_run_is_told_with_its_place_and_not_sent(
    desk: Desk, node: FaultyNode, tmp_path: Path, source: str, told: list[str]
) -> None:
    write_project(tmp_path / "project", {"shop/spiders/news.py": source})
    error = desk.error("deploy", str(tmp_path / "project"), exit_code=3)
    assert error.startswith("egg: ")
    for part in told:
        assert part in error
    assert not node.calls
    assert desk.json("releases") == []


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"scrapy.cfg": "[settings]\n"}, "names no settings module"),
        ({"scrapy.cfg": "settings = shop.settings\n"}, "line 1 is wrong"),
        ({"shop/spiders/books.py": ""}, "the egg has no spiders; SPIDER_MODULES names shop.spiders"),
    ],
    ids=["no settings", "no section", "no spider"],
)
def test_a_project_that_is_none_is_told_and_not_sent(
    desk: Desk, node: FaultyNode, tmp_path: Path, files: dict[str, str], told: str
) -> None:
    write_project(tmp_path / "project")
    for name, text in files.items():
        (tmp_path / "project" / name).write_text(text)
    assert told in desk.error("deploy", str(tmp_path / "project"), exit_code=3)
    assert not node.calls


def test_a_folder_without_scrapy_cfg_is_told_and_nothing_is_sent(desk: Desk, node: FaultyNode, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    error = desk.error("deploy", str(tmp_path / "empty"), exit_code=3)
    assert "there is no Scrapy project (scrapy.cfg)" in error
    assert str(tmp_path / "empty") in error
    assert "does not exist" in desk.error("deploy", str(tmp_path / "nowhere"), exit_code=3)
    assert not node.calls


def test_a_file_that_is_no_egg_is_told_and_nothing_is_sent(desk: Desk, node: FaultyNode, tmp_path: Path) -> None:
    (tmp_path / "shop.egg").write_text("this is no zip file")
    assert "shop.egg" in desk.error("deploy", "--egg", str(tmp_path / "shop.egg"), exit_code=3)
    assert "absent.egg" in desk.error("deploy", "--egg", str(tmp_path / "absent.egg"), exit_code=3)
    assert not node.calls


def test_build_check_tells_the_same_without_any_inventory(tmp_path: Path) -> None:
    write_project(tmp_path / "project", {"shop/spiders/news.py": BROKEN[0][0]})
    error = Desk(tmp_path / "desk").error("build", str(tmp_path / "project"), "--check", exit_code=3)
    assert "shop/spiders/news.py, line 2" in error
    assert list((tmp_path / "desk").iterdir()) == []


def test_a_dry_run_of_a_good_project_uploads_nothing_either(tmp_path: Path) -> None:
    write_project(tmp_path / "project")
    with FaultyNode("error") as node:
        desk = Desk.of([NodeEntry("node-1", "127.0.0.1", node.port)], None, tmp_path / "desk")
        desk.run("deploy", str(tmp_path / "project"), "--dry-run", exit_code=4)
        assert set(node.calls) == {"listversions.json"}
