"""The commits of the last seconds are remembered in their order, and it is known how far back they reach."""

from __future__ import annotations

from toolkit.spider.journal import Journal, Sent


def a_journal(*, commits: int, every_s: float = 1.0) -> Journal:
    journal = Journal(span_s=5.0)
    for number in range(1, commits + 1):
        journal.add(Sent(number, number * every_s, ()))
    return journal


def test_what_redis_does_not_know_is_told_in_its_order() -> None:
    assert [sent.number for sent in a_journal(commits=4).after(2)] == [3, 4]
    assert [sent.number for sent in a_journal(commits=4).after(-1)] == [1, 2, 3, 4]


def test_commits_that_are_too_old_are_forgotten_and_that_is_known() -> None:
    journal = a_journal(commits=20)
    assert [sent.number for sent in journal.after(0)] == [15, 16, 17, 18, 19, 20]
    assert journal.reaches(14)
    assert not journal.reaches(13)
    assert not journal.reaches(-1)


def test_a_young_worker_remembers_everything() -> None:
    assert a_journal(commits=3).reaches(-1)
    assert Journal(span_s=5.0).reaches(0)


def test_what_was_sent_before_numbers_began_anew_is_missing_only_where_the_worker_is_not_known() -> None:
    journal = a_journal(commits=3)
    journal.begin_anew()
    journal.add(Sent(1, 4.0, ()))
    assert [sent.at for sent in journal.after(0)] == [4.0]
    assert [sent.at for sent in journal.after(-1)] == [1.0, 2.0, 3.0, 4.0]
    assert journal.reaches(-1)


def test_what_was_forgotten_before_numbers_began_anew_stays_forgotten() -> None:
    for journal in (a_journal(commits=20), a_journal(commits=3)):
        journal.begin_anew()
        journal.add(Sent(1, 26.0, ()))
        assert journal.reaches(0)
        assert not journal.reaches(-1)


def test_what_is_sent_again_is_remembered_under_its_new_number_alone() -> None:
    journal = a_journal(commits=20)
    journal.drop_after(17)
    assert [sent.number for sent in journal.after(-1)] == [15, 16, 17]
    journal.drop_after(-1)
    assert journal.after(-1) == []
    assert journal.reaches(20)
    assert not journal.reaches(-1)
