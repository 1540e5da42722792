"""The JSON Schema of an inventory, for editors, made from the option table.

It knows forms and bounds; whether names fit together only the loader can tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from toolkit.config.inventory.ranges import MAX_CHARS, NAME, RANGE_PATTERN
from toolkit.config.inventory.variables import KINDS, LABEL_NAME, VARIABLE_NAME
from toolkit.config.options import ALERT_NAME, CRON_NAME, Form, Option, Scope, keys, option, options

Schema = dict[str, Any]

_SCALAR = ["string", "number", "boolean"]  # in YAML, a text like 12 or yes needs no quotes
_NAME = rf"^(?:[A-Za-z0-9_]|\[(?:{RANGE_PATTERN})\])(?:[A-Za-z0-9_.-]|\[(?:{RANGE_PATTERN})\])*$"


def json_schema() -> Schema:
    """Return the schema (JSON Schema 2020-12) as a value that `json.dumps` takes."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "crawlctl inventory",
        **_object({each.name: _of(each) for each in options(Scope.INVENTORY)}),
        "required": ["hosts"],
        "$defs": {
            "elsewhere": _elsewhere(),
            "variables": _variables(),
            "name": {"type": ["string", "integer"], "pattern": _NAME},
            "group": _group(),
        },
    }


def _of(wanted: Option) -> Schema:
    """Describe one option: its sentence, its default, and what may stand there."""
    described: Schema = {"description": wanted.meaning}
    if wanted.default is not None:
        described["default"] = wanted.default
    return described | _form(wanted)


def _form(wanted: Option) -> Schema:
    if (make := _SHAPES.get(wanted.form)) is not None:
        return make()
    ways = [_literal(wanted), {"$ref": "#/$defs/elsewhere"}]
    return {"anyOf": [*ways, {"type": "null"}] if wanted.is_nullable else ways}


def _hosts() -> Schema:
    return {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": _NAME, "not": {"const": "all"}},
        "additionalProperties": _or_null({"$ref": "#/$defs/variables"}),
    }


def _groups() -> Schema:
    return _or_null(
        {
            "type": "object",
            "propertyNames": {"pattern": f"^{NAME.pattern}$", "maxLength": MAX_CHARS, "not": {"const": "all"}},
            "additionalProperties": {"$ref": "#/$defs/group"},
        }
    )


def _labels() -> Schema:
    return _or_null(
        {
            "type": "object",
            "propertyNames": {"pattern": f"^{LABEL_NAME.pattern}$"},
            "additionalProperties": {"anyOf": [{"type": _SCALAR}, {"$ref": "#/$defs/elsewhere"}]},
        }
    )


def _alerts() -> Schema:
    sections = {name: _named(scope) for name, scope in (("sinks", Scope.SINK), ("rules", Scope.RULE))}
    return _or_null({"anyOf": [_object(sections), {"type": "string", "minLength": 1}]})


def _crons() -> Schema:
    return _or_null({"anyOf": [_named(Scope.CRON, CRON_NAME), {"type": "string", "minLength": 1}]})


_SHAPES: dict[Form, Callable[[], Schema]] = {
    Form.VARIABLES: lambda: _or_null({"$ref": "#/$defs/variables"}),
    Form.NAMES: lambda: {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/name"}},
    Form.HOSTS: _hosts,
    Form.GROUPS: _groups,
    Form.ALERTS: _alerts,
    Form.CRONS: _crons,
    Form.TEXTS: lambda: {"anyOf": [{"type": _SCALAR}, {"type": "array", "minItems": 1, "items": {"type": _SCALAR}}]},
    Form.LABELS: _labels,
}


def _named(scope: Scope, pattern: str = ALERT_NAME) -> Schema:
    """Describe a mapping from names to what has the options of a scope."""
    each = _object({wanted.name: _of(wanted) for wanted in options(scope)})
    return _or_null({"type": "object", "propertyNames": {"pattern": pattern}, "additionalProperties": each})


def _literal(wanted: Option) -> Schema:
    if wanted.form is Form.CHOICE:
        return {"enum": list(wanted.choices)}
    if wanted.form is Form.TEXT:
        if wanted.pattern is None:
            return {"type": _SCALAR}
        # Where no number could be right, only a text is.
        return {"type": _SCALAR if re.search(wanted.pattern, "1") else "string", "pattern": wanted.pattern}
    number: Schema = {"type": "integer" if wanted.form is Form.INTEGER else "number"}
    if wanted.minimum is not None:
        number["exclusiveMinimum" if wanted.is_above_minimum else "minimum"] = wanted.minimum
    if wanted.maximum is not None:
        number["maximum"] = wanted.maximum
    return number


def _variables() -> Schema:
    properties: Schema = {}
    for key in keys(Scope.HOST):
        inner = keys(Scope.HOST, within=key)
        if inner:
            section = _object({name: _of(option(Scope.HOST, f"{key}.{name}")) for name in inner})
            properties[key] = _or_null(section)
        else:
            properties[key] = _of(option(Scope.HOST, key))
    return _object(properties)


def _group() -> Schema:
    group = _object({each.name: _of(each) for each in options(Scope.GROUP)})
    return group | {"anyOf": [{"required": ["hosts"]}, {"required": ["children"]}]}


def _elsewhere() -> Schema:
    """Describe a value that comes from the environment, a file or a command."""
    ways: dict[str, Schema] = {
        "env": {"type": "string", "pattern": f"^{VARIABLE_NAME.pattern}$"},
        "file": {"type": "string", "minLength": 1},
        "command": {"type": "array", "minItems": 1, "items": {"type": _SCALAR}},
    }
    extra: dict[str, Schema] = {"env": {"default": {"description": "The value where the variable is not set."}}}
    return {"oneOf": [_object({kind: ways[kind], **extra.get(kind, {})}) | {"required": [kind]} for kind in KINDS]}


def _object(properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}
