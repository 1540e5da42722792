"""Every page is a topic that can be read on a terminal, and uses the words of the glossary."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from support.cli import run_crawlctl
from support.documents import ROOT, prose

from toolkit.cli.errors import TABLE
from toolkit.cli.topics import FOLDER, read_topic, topic_names
from toolkit.cluster.schedule import RESERVED_ARGUMENTS
from toolkit.cluster.verdict import CANCEL_REASONS
from toolkit.config.options import Scope, options
from toolkit.config.paths import sample_file
from toolkit.model.jobs import FAILURE_REASONS, JobState
from toolkit.model.snapshot import NodeState

TOPICS = sorted(FOLDER.rglob("*.md"))
HEAD = re.compile(r"^\| ([^|]+) \|", re.MULTILINE)


def text_of(topic: str) -> str:
    return next(path for path in TOPICS if path.stem == topic).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", TOPICS, ids=lambda page: page.stem)
def test_a_topic_begins_with_its_title_and_has_only_one(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    assert re.match(r"# \S.*\n\n", text)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1


@pytest.mark.parametrize("page", TOPICS, ids=lambda page: page.stem)
def test_a_topic_can_be_read_on_a_narrow_terminal(page: Path) -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(read_topic(page.stem).table())
    title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    assert title.split(maxsplit=1)[0] in out.getvalue()


def test_no_two_topics_share_a_name() -> None:
    assert len({page.stem for page in TOPICS}) == len(TOPICS)


def test_the_command_lists_every_topic_with_its_title(tmp_path: Path) -> None:
    listed = run_crawlctl("docs", "--output", "json", cwd=tmp_path).expect().json()
    assert [row["topic"] for row in listed] == topic_names() == sorted(page.stem for page in TOPICS)
    assert all(row["title"] for row in listed)


def test_the_readme_leads_to_every_topic_for_operators() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"{topic}.md" in readme for topic in topic_names())


def test_every_state_is_in_the_glossary_and_explained_in_its_topic() -> None:
    assert all(f"`{state.value}`" in text_of("jobs") for state in JobState)
    assert all(f"`{state.value}`" in text_of("status") for state in NodeState)
    assert all(state.value in text_of("glossary").lower() for state in [*JobState, *NodeState])


def test_every_reason_that_decides_an_outcome_is_told() -> None:
    assert [reason for reason in FAILURE_REASONS | CANCEL_REASONS if f"`{reason}`" not in text_of("jobs")] == []


def test_every_argument_that_is_refused_is_named() -> None:
    assert [name for name in sorted(RESERVED_ARGUMENTS) if f"`{name}`" not in text_of("jobs")] == []


def test_every_word_of_the_glossary_is_in_use() -> None:
    others = "\n".join(page.read_text(encoding="utf-8") for page in TOPICS if page.stem != "glossary").lower()
    words = [word for head in HEAD.findall(text_of("glossary"))[1:] for word in head.lower().split(", ")]
    assert len(words) > 30
    assert [word for word in words if word not in others] == []


def test_the_words_of_the_glossary_stand_for_themselves() -> None:
    synonyms = re.compile(r"\b(slaves?|masters?|servers? group|tasks?|minions?|machine group|publish(es|ed)?)\b")
    pages = [page for page in TOPICS if page.parent == FOLDER]
    used = {page.stem: synonyms.findall(prose(page.read_text(encoding="utf-8"))) for page in pages}
    assert {page: words for page, words in used.items() if words} == {}


def test_every_attention_is_explained() -> None:
    cluster = ROOT / "toolkit" / "cluster"
    source = "".join((cluster / name).read_text(encoding="utf-8") for name in ("snapshot.py", "attention.py"))
    kinds = set(re.findall(r"(?:Attention|_about|_by_reason)\(\s*\"([^\"]+)\"", source))
    kinds |= {"unreachable", "unauthorized", "lost", "stale"}
    assert {"store", "open", "behind", "waiting", "clash", "unfit", "draining", "jobs_lost"} <= kinds
    assert [kind for kind in sorted(kinds) if f"\n| `{kind}` |" not in text_of("status")] == []


def test_every_option_and_component_of_a_node_is_in_its_topic() -> None:
    assert [each.name for each in options(Scope.NODE) if f"`{each.name}`" not in text_of("node")] == []
    written = re.findall(
        r"^\w[\w.]* +(?== )= (toolkit\.\S+)$", sample_file("scrapyd.conf").read_text("utf-8"), re.MULTILINE
    )
    assert len(written) > 10
    assert [each for each in written if each not in text_of("node")] == []


def test_every_kind_of_error_has_an_entry_in_the_runbook() -> None:
    headings = re.findall(r"^## (.+)$", text_of("runbook"), re.MULTILINE)
    told = {kind for heading in headings for kind in heading.split(", ")}
    assert {name for _, name, _, _ in TABLE} | {"bug", "interrupted"} <= told
