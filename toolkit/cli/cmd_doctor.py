"""The command that looks for what is wrong: doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.command import CLUSTER, OnOption, YesOption, command
from toolkit.cli.durations import seconds
from toolkit.cli.session import Session
from toolkit.model.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from toolkit.doctor.examine import Patient
    from toolkit.doctor.judged import Judged
    from toolkit.model.findings import Diagnosis


def add_to(app: typer.Typer) -> None:
    """Register this command."""
    command(
        app,
        "crawlctl doctor",
        "crawlctl doctor --on eu --no-ssh",
        "crawlctl doctor --only redis --only dns-unknown",
        "crawlctl doctor --strict --output json",
        "crawlctl doctor --fix",
        panel=CLUSTER,
        audit="doctor",
    )(doctor)


def doctor(
    session: Session,
    on: OnOption = None,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what can safely be mended; asks first.")] = False,
    yes: YesOption = False,
    no_ssh: Annotated[bool, typer.Option("--no-ssh", help="Ask no host over SSH.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK",
            help="Only this check, or all of a subject, as in redis; may be repeated.",
            autocompletion=completion.checks,
        ),
    ] = None,
    severity: Annotated[Severity, typer.Option(help="Leave out what is less severe.")] = Severity.NOTE,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 4 for warnings too.")] = False,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long to look at most, as in 30s, 2m.")] = "60s",
) -> None:
    """Find what is wrong with inventory, hosts, nodes, Redis and releases, and the command that mends it."""
    from toolkit.doctor.checks import wanted_checks
    from toolkit.views.doctor import diagnosis_view

    checks, timeout_s = wanted_checks(only or []), float(seconds(timeout))
    diagnosis, judged, patient = _examined(session, on, checks, uses_ssh=not no_ssh, timeout_s=timeout_s)
    if fix and patient is not None:
        diagnosis = _mended(session, patient, diagnosis, judged, asks=not yes)
    else:
        session.audit_nothing()
    diagnosis = _filtered(diagnosis, severity)
    session.printer.show(diagnosis_view(diagnosis))
    _end_by(session, diagnosis, is_strict=strict)


def _examined(
    session: Session, on: str | None, checks: Collection[str], *, uses_ssh: bool, timeout_s: float
) -> tuple[Diagnosis, list[Judged], Patient | None]:
    """Look at everything; an inventory that cannot be read is itself what was found."""
    from datetime import UTC, datetime

    from toolkit.doctor.evidence import diagnosis, judge
    from toolkit.doctor.examine import Examination, Patient
    from toolkit.doctor.inventory import mistaken
    from toolkit.model.errors import InventoryError
    from toolkit.provision.connect import connector

    try:
        hosts = session.hosts(on)
    except InventoryError as error:
        return mistaken(error), [], None
    patient = Patient(
        inventory=session.inventory,
        hosts=hosts,
        nodes=session.nodes(on),
        open_store=lambda: session.store,
        connect=connector(session.state_folder) if uses_ssh else None,
        state_folder=session.state_folder,
        is_whole=on is None,
    )
    examination = Examination(patient, checks=checks, timeout_s=timeout_s)
    with session.printer.busy(examination.progress):
        evidence = examination.run()
    judged = [each for each in judge(evidence, now=datetime.now(UTC)) if each.finding.check in checks]
    return diagnosis(evidence, judged, checks=checks), judged, patient


def _mended(
    session: Session, patient: Patient, diagnosis: Diagnosis, judged: Sequence[Judged], *, asks: bool
) -> Diagnosis:
    from dataclasses import replace

    from toolkit.doctor.mend import mend, remedies, said_of, with_mended

    chosen = remedies(judged)
    if not chosen:
        session.audit_nothing()
        return diagnosis
    for each in chosen:
        session.printer.say(f"would {said_of(each)}" if asks else said_of(each))
    if asks and not session.printer.confirm(f"Do {'this' if len(chosen) == 1 else f'these {len(chosen)} things'}?"):
        session.audit_nothing()
        return diagnosis
    nodes = [each.finding.node for each in chosen if each.finding.node is not None]
    session.audit(subject=", ".join(dict.fromkeys(each.finding.check for each in chosen)), nodes=nodes)
    doing = [""]
    with session.printer.busy(lambda: doing[0]):
        mended = mend(patient, chosen, on_step=lambda text: doing.__setitem__(0, text))
    return replace(diagnosis, findings=tuple(each.finding for each in with_mended(judged, mended)))


def _filtered(diagnosis: Diagnosis, least: Severity) -> Diagnosis:
    from dataclasses import replace

    shown = list(Severity)[: list(Severity).index(least) + 1]
    return replace(diagnosis, findings=tuple(each for each in diagnosis.findings if each.severity in shown))


def _end_by(session: Session, diagnosis: Diagnosis, *, is_strict: bool) -> None:
    from toolkit.model.errors import NodesFailedError, NothingReachableError
    from toolkit.views.doctor import counts, summary

    if not diagnosis.checks and diagnosis.unseen:
        raise session.failed(NothingReachableError("nothing that was asked for could be looked at"))
    left = counts(diagnosis.findings)
    if left[Severity.ERROR] or (is_strict and left[Severity.WARNING]):
        message = f"the doctor has found {summary(left)}"
        raise session.failed(NodesFailedError(message, hint="crawlctl docs runbook has an entry for each check"))
