"""What a project says it needs: read as pip would, but for what is of one machine alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scrapy_projects import write_files, write_project

from toolkit.model.errors import EggError
from toolkit.rollout.egg import Treatment, build_egg, read_egg, with_needs, write_egg
from toolkit.rollout.requirements import only_of, project_needs


def needs(root: Path, text: str | bytes, **files: str) -> tuple[str, ...]:
    write_files(root, {"requirements.txt": text, **{f"{name}.txt": content for name, content in files.items()}})
    return project_needs(root).lines


def test_comments_and_continued_lines_are_read_as_pip_reads_them(tmp_path: Path) -> None:
    text = "# all\n\nScrapy>=2  # the framework\nlxml \\\n  >=5\nfoo @ https://example.com/x#egg=foo\nscrapy >= 2\n"
    assert needs(tmp_path, text) == ("foo @ https://example.com/x#egg=foo", "lxml>=5", "scrapy>=2")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_as_windows_writes_them_are_read(tmp_path: Path, encoding: str) -> None:
    assert needs(tmp_path, "lxml>=5\r\n".encode(encoding)) == ("lxml>=5",)


def test_further_files_are_followed_and_constraints_narrow_what_is_named(tmp_path: Path) -> None:
    text = "-r more.txt\n--constraint=limits.txt\nlxml\n"
    found = needs(tmp_path, text, more="-r requirements.txt\nparsel>1\n", limits="lxml==5.1\nabsent==1\n")
    assert found == ("lxml==5.1", "parsel>1")


def test_what_is_of_this_machine_or_of_an_index_is_left_out_with_a_remark_that_shows_no_secret(tmp_path: Path) -> None:
    text = (
        "-e .\n.\n-e ../lib\n./wheels/x-1.0-py3-none-any.whl\nbar @ file:///home/ann/bar\n"
        "--extra-index-url https://ann:secret@example.com/simple\n--pre\n"
        "lxml==5 --hash=sha256:00 \\\n --hash=sha256:11\n"
    )
    assert needs(tmp_path, text) == ("lxml==5",)
    remarks = project_needs(tmp_path).remarks
    assert len(remarks) == 6
    assert [remark for remark in remarks if "line 1:" in remark or "line 2:" in remark] == []
    assert any("--extra-index-url" in remark for remark in remarks)
    assert "secret" not in "".join(remarks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lxml\nthis is none\n", "requirements.txt, line 2"),
        ("foo @ https://ann:secret@example.com/x.whl", "user name or password"),
        ("-r absent.txt", "no file in the project"),
        ("-r ../outside.txt", "no file in the project"),
    ],
)
def test_a_line_that_nobody_could_follow_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "outside.txt").write_text("lxml\n")
    with pytest.raises(EggError, match=message) as refused:
        needs(tmp_path / "project", text)
    assert "secret" not in refused.value.message
    assert "--no-check-deps" in (refused.value.hint or "")


def test_without_requirements_txt_pyproject_is_asked(tmp_path: Path) -> None:
    write_files(tmp_path, {"pyproject.toml": '[project]\nname = "shop"\ndependencies = ["LXML>=5"]\n'})
    assert project_needs(tmp_path).lines == ("lxml>=5",)
    assert needs(tmp_path, "parsel") == ("parsel",)


def test_what_is_packed_into_the_egg_is_not_asked_of_a_node() -> None:
    assert only_of(("scrapy>=2", "tinydep==1"), frozenset({"scrapy"})) == ("scrapy>=2",)


def test_the_egg_carries_them_and_its_digest_with_them(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project")
    plain = build_egg(project)
    write_files(project.root, {"requirements.txt": "lxml>=5\n"})
    checked, installed = build_egg(project), build_egg(project, treatment=Treatment.INSTALL)
    assert (checked.needs, checked.has_environment) == (("lxml>=5",), False)
    assert (installed.needs, installed.has_environment) == (("lxml>=5",), True)
    assert len({plain.digest, checked.digest, installed.digest}) == 3
    assert build_egg(project, treatment=Treatment.IGNORE).content == plain.content


def test_a_built_egg_can_be_treated_otherwise_as_if_it_had_been_built_so(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", {"requirements.txt": "lxml>=5\n"})
    eggs = {each: build_egg(project, treatment=each) for each in Treatment}
    write_egg(eggs[Treatment.CHECK], tmp_path / "shop.egg")
    read = read_egg(tmp_path / "shop.egg")
    assert read.needs == ("lxml>=5",)
    for treatment, egg in eggs.items():
        assert with_needs(read, treatment).content == egg.content
    assert with_needs(eggs[Treatment.INSTALL], Treatment.CHECK).has_environment
