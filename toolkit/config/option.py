"""What is said of one option: its form, bounds, default and sentence. The options themselves stand in `options.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """Where an option is written."""

    INVENTORY = "inventory"
    GROUP = "group"
    HOST = "host"
    NODE = "node"
    SPIDER = "spider"
    SINK = "sink"
    RULE = "rule"
    CRON = "cron"
    ENVIRONMENT = "environment"


class Form(StrEnum):
    """What an option's value looks like, in the words that a mistake and the documentation use."""

    TEXT = "text"
    INTEGER = "whole number"
    NUMBER = "number"
    CHOICE = "choice"
    LABELS = "pairs of a name and a text"
    VARIABLES = "host variables"
    HOSTS = "hosts by name"
    GROUPS = "groups by name"
    NAMES = "list of names"
    FLAG = "True or False"
    TEXTS = "list of texts"
    ALERTS = "sinks and rules"
    CRONS = "crons by name"
    LIMITS = "limits by domain"


@dataclass(frozen=True, slots=True)
class Option:
    """One option; a dot in the name means a key within a key, as in `ssh.user`.

    `meaning` is the sentence of the documentation. `pattern` is a regular expression that is valid in Python and in
    JSON Schema, and `shape` says the same in words. A bound is inclusive unless `is_above_minimum`. A value of several
    lines is allowed only where it `has_lines`.
    """

    name: str
    scope: Scope
    form: Form
    meaning: str
    default: str | int | float | None = None
    default_words: str | None = None
    unit: str | None = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    is_above_minimum: bool = False
    pattern: str | None = None
    shape: str | None = None
    is_secret: bool = False
    has_lines: bool = False

    @property
    def is_nullable(self) -> bool:
        """Writing `null` is allowed and means: none, also where an outer level set one."""
        return self.default is None and self.default_words is None

    @property
    def type_words(self) -> str:
        """What a value must be, as a noun phrase: `a whole number from 1 to 65535`."""
        if self.form is Form.CHOICE:
            return " or ".join(self.choices)
        if self.shape is not None:
            return self.shape
        noun = {Form.TEXT: "a text", Form.INTEGER: "a whole number", Form.NUMBER: "a number"}.get(self.form, self.form)
        return noun + self._bounds_words()

    def _bounds_words(self) -> str:
        if self.minimum is None:
            return ""
        if self.is_above_minimum:
            upto = "" if self.maximum is None else f" and at most {self.maximum}"
            return f" greater than {self.minimum}{upto}"
        return f" of at least {self.minimum}" if self.maximum is None else f" from {self.minimum} to {self.maximum}"
