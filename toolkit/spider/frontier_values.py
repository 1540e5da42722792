"""The values of settings, those of `FRONTIER_…` by the one option table: each right, or refused with its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from toolkit.config.options import Form, Scope, option
from toolkit.config.values import parse_value
from toolkit.model.crawls import DomainLimit
from toolkit.model.errors import ConfigurationError


def uses_frontier(settings: BaseSettings) -> bool:
    """Tell whether the project's scheduler is the frontier's, or one made of it."""
    return hasattr(load_object(settings["SCHEDULER"]), "add_item")


def number(settings: BaseSettings, name: str) -> float:
    """Return a number, as it is written or as its default."""
    return float(str(parse_value(option(Scope.SPIDER, name), _text(settings, name))))


def choice(settings: BaseSettings, name: str) -> str:
    """Return one of the option's choices."""
    return str(parse_value(option(Scope.SPIDER, name), _text(settings, name)))


def flag(settings: BaseSettings, name: str) -> bool:
    """Return whether the setting is on."""
    try:
        return settings.getbool(name, default=bool(option(Scope.SPIDER, name).default))
    except ValueError as error:
        raise _refusal(name, f"not {settings.get(name)!r}") from error


def is_on(settings: BaseSettings, name: str) -> bool:
    """Return whether a setting of scrapy-redis is on; off where it is not there."""
    try:
        return settings.getbool(name)
    except ValueError as error:
        raise ConfigurationError(f"{name} is True or False, not {settings.get(name)!r}") from error


def parameters(settings: BaseSettings, name: str) -> dict[str, Any]:
    """Return a setting of scrapy-redis that is a dictionary or its JSON; its values may be secret."""
    try:
        return dict(settings.getdict(name))
    except (TypeError, ValueError):
        # The cause would tell the value.
        raise ConfigurationError(f"{name} is a dictionary, and cannot be read as one") from None


def domain_limits(settings: BaseSettings) -> tuple[DomainLimit, ...]:
    """Return the limits of `FRONTIER_DOMAIN_LIMITS`, which may be a dictionary or its JSON."""
    name = "FRONTIER_DOMAIN_LIMITS"
    try:
        written = settings.getdict(name)
    except (ValueError, TypeError) as error:
        raise _refusal(name, f"and {str(settings.get(name))[:60]!r} cannot be read so") from error
    return tuple(_limit(name, str(domain).strip().lower().rstrip("."), said) for domain, said in written.items())


def _limit(name: str, domain: str, said: object) -> DomainLimit:
    if not domain or "/" in domain or " " in domain:
        raise _refusal(name, f"and {domain!r} is no domain")
    if not isinstance(said, Mapping) or not said or said.keys() - {"per_second", "concurrency"}:
        raise _refusal(name, f"and {str(said)[:60]!r} of {domain} is no limit")
    per_second, concurrency = said.get("per_second"), said.get("concurrency")
    for number, kinds in ((per_second, (int, float)), (concurrency, (int,))):
        if number is not None and (isinstance(number, bool) or not isinstance(number, kinds) or number <= 0):
            raise _refusal(name, f"and {number!r} of {domain} is no number above 0")
    return DomainLimit(domain, None if per_second is None else float(per_second), concurrency)


def _text(settings: BaseSettings, name: str) -> str:
    written = settings.get(name)
    return str(option(Scope.SPIDER, name).default if written is None else written).strip()


def _refusal(name: str, why: str) -> ConfigurationError:
    wanted = option(Scope.SPIDER, name)
    return ConfigurationError(f"{name} is {wanted.type_words}, {why}", hint=_example(wanted.form))


def _example(form: Form) -> str | None:
    return json.dumps({"example.com": {"per_second": 2}, "*": {"concurrency": 8}}) if form is Form.LIMITS else None
