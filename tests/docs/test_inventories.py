"""Every inventory that the documentation shows is one that crawlctl reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import run_crawlctl
from support.documents import PAGES, blocks

from toolkit.cli.topics import FOLDER
from toolkit.config.inventory import load
from toolkit.model.hosts import Secret
from toolkit.store.address import parse_address

SHOWN = [
    (page.stem, block.text)
    for page in PAGES
    for block in blocks(page.read_text(encoding="utf-8"))
    if block.language == "yaml" and "hosts:" in block.text
]


@pytest.mark.parametrize(("topic", "text"), SHOWN, ids=[topic for topic, _ in SHOWN])
def test_an_inventory_in_a_topic_is_right(topic: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / f"{topic}.yaml"
    path.write_text(text, encoding="utf-8")
    assert load(path, resolve=False).hosts


def test_the_topics_show_inventories() -> None:
    assert {topic for topic, _ in SHOWN} >= {"inventory", "own-hosts", "security"}


def test_the_inventory_of_ten_lines_names_forty_hosts(tmp_path: Path) -> None:
    readme = next(page for page in PAGES if page.name == "README.md").read_text(encoding="utf-8")
    written = next(line for line in readme.splitlines() if line.endswith("> inventory.yaml"))
    text = written.removeprefix("printf '").removesuffix("' > inventory.yaml").replace("\\n", "\n")
    (tmp_path / "inventory.yaml").write_text(text, encoding="utf-8")
    redis = {"CRAWL_REDIS_URL": "redis://redis.example.com:6379/0"}
    listed = run_crawlctl("inventory", "list", "--output", "json", cwd=tmp_path, env=redis).expect()
    assert [(host["address"], host["ssh"]["user"]) for host in listed.json()] == [
        (f"crawler-{number:02}.example.com", "deploy") for number in range(1, 41)
    ]


def test_every_redis_url_of_the_topic_is_understood() -> None:
    text = (FOLDER / "inventory.md").read_text(encoding="utf-8").partition("## The Redis URL\n")[2]
    urls = blocks(text)[0].text.split()
    assert len({str(parse_address(Secret(url))) for url in urls}) == len(urls) == 4
