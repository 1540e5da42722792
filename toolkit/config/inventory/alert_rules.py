"""Reads one rule of the section `alerts`: what it watches, whom it tells, and when it keeps quiet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

from toolkit.config.inventory.alert_texts import quiet, seconds, texts
from toolkit.config.inventory.document import Entry
from toolkit.config.inventory.variables import ValueReader
from toolkit.config.nearest import did_you_mean
from toolkit.config.options import Scope, keys, option
from toolkit.model.alerts import Action, InQuiet, Rule, RuleKind, Severity
from toolkit.model.errors import ConfigurationError
from toolkit.model.events import EventKind

KINDS: Mapping[str, RuleKind] = {
    "events": RuleKind.EVENTS,
    "errors_per_minute": RuleKind.ERRORS,
    "items_below": RuleKind.ITEMS,
    "no_progress": RuleKind.PROGRESS,
    "waiting_longer_than": RuleKind.WAITING,
}
_ACTING = (RuleKind.ERRORS, RuleKind.PROGRESS)
_ONLY_FOR: Mapping[str, tuple[RuleKind, ...]] = {
    "within": (RuleKind.ERRORS,),
    "of_last": (RuleKind.ITEMS,),
    "do": _ACTING,
    "tell_over": (RuleKind.ERRORS, RuleKind.ITEMS, RuleKind.PROGRESS, RuleKind.WAITING),
    "subject": (RuleKind.EVENTS,),
}
_DEFAULT_WITHIN_S = 60.0
_LISTS = ("to", "events")


def read_rule(reader: ValueReader, entry: Entry, *, sinks: Collection[str]) -> Rule | None:
    """Return the rule, or `None` when something in it is wrong, which is noted where it stands."""
    document, name = reader.document, entry.key
    before = len(document.mistakes)
    parts = {each.key: each for each in reader.known_entries(entry.value, keys(Scope.RULE), what=f"rule {name}")}
    watched = [key for key in KINDS if key in parts]
    if len(watched) != 1:
        said = f", not {' and '.join(watched)}" if watched else ""
        document.blame(entry.place, f"rule {name} watches one of {', '.join(KINDS)}{said}")
        return None
    kind = KINDS[watched[0]]
    for key, kinds in _ONLY_FOR.items():
        if key in parts and kind not in kinds:
            document.blame(parts[key].place, f"rule {name}: {key} has no meaning beside {watched[0]}")
    values: dict[str, Any] = {}
    for key in parts.keys() - set(_LISTS):
        values |= reader.value(option(Scope.RULE, key), parts[key])
    lists = {key: list(texts(document, parts[key], what=key)) for key in _LISTS if key in parts}
    for sink, place in lists.get("to", ()):
        if sink not in sinks:
            document.blame(place, f"rule {name} tells a sink {sink!r} that is not there{did_you_mean(sink, sinks)}")
    for pattern, place in lists.get("events", ()):
        if not any(fnmatchcase(kind.value, pattern) for kind in EventKind):
            near = did_you_mean(pattern, [kind.value for kind in EventKind])
            document.blame(place, f"rule {name}: no event is of a kind {pattern!r}{near}")
    names = {key: tuple(text for text, _ in found) for key, found in lists.items()}
    rule = _rule(reader, name, kind, values | names, parts)
    return rule if len(document.mistakes) == before else None


def _rule(
    reader: ValueReader, name: str, kind: RuleKind, values: Mapping[str, Any], parts: Mapping[str, Entry]
) -> Rule | None:
    threshold, within_s = _threshold(kind, values)
    quiet_time = None
    if "quiet" in values:
        try:
            quiet_time = quiet(values["quiet"])
        except ConfigurationError as error:
            reader.document.blame(parts["quiet"].value, str(error))
            return None
    return Rule(
        name,
        values.get("to", ()),
        kind,
        events=values.get("events", ()),
        **{key: values.get(key, "") for key in ("project", "spider", "node", "subject")},
        threshold=threshold,
        within_s=within_s,
        of_last=values.get("of_last", option(Scope.RULE, "of_last").default),
        do=Action(values.get("do", Action.NONE)),
        severity=Severity(values.get("severity", Severity.WARNING)),
        every_s=seconds(values.get("every", "")),
        quiet=quiet_time,
        in_quiet=InQuiet(values.get("when_quiet", InQuiet.HOLD)),
        tells_over=values.get("tell_over", "yes") == "yes",
    )


def _threshold(kind: RuleKind, values: Mapping[str, Any]) -> tuple[float, float]:
    """Return what is too much or too little, and over which time."""
    if kind is RuleKind.ERRORS:
        within_s = seconds(values["within"]) if "within" in values else _DEFAULT_WITHIN_S
        return float(values.get("errors_per_minute", 0)), within_s
    if kind is RuleKind.ITEMS:
        return int(values.get("items_below", "0%").rstrip("%")) / 100, 0.0
    spans = {RuleKind.PROGRESS: "no_progress", RuleKind.WAITING: "waiting_longer_than"}
    return 0.0, seconds(values.get(spans[kind], "")) if kind in spans else 0.0
