# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Validate a hardware profile against profile.schema.json, with readable messages."""

from __future__ import annotations

import difflib
import json
import math
import reprlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema import Draft202012Validator

SCHEMA = Path(__file__).resolve().with_name("profile.schema.json")
_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "a dictionary",
    "string": "a text",
}
_BROKEN = {
    "type": "is not {}",
    "enum": "is not one of {}",
    "minimum": "is less than {}",
    "exclusiveMinimum": "is not above {}",
    "maximum": "is more than {}",
    "not": "is a count",
}


class _Fault(NamedTuple):
    """A schema violation: path of the key, rule, its limit, the value, and the part of the schema with the rule."""

    path: tuple[str | int, ...]
    rule: str
    limit: Any
    value: Any
    schema: Any


@cache
def validator() -> Draft202012Validator:
    """Return the validator of profiles. The first call imports the library, which takes 0.1 s."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - most processes check no profile
    from jsonschema.validators import extend  # noqa: PLC0415

    # Reject YAML's .nan and .inf, and counts such as 8.0, which Slurm's files do not support.
    types = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_whole, "number": _is_finite})
    known: type[Draft202012Validator] = extend(Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]
    return known(json.loads(SCHEMA.read_bytes()))


def _is_whole(_checker: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(_checker: object, value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def form_problems(profile: object) -> list[str]:
    """Return a message for each schema violation of a profile: path of the key, problem, and expected value."""
    faults = [
        _Fault(tuple(each.absolute_path), str(each.validator), each.validator_value, each.instance, each.schema)
        for each in validator().iter_errors(profile)
    ]
    return list(dict.fromkeys(sentence for fault in faults for sentence in _sentences(fault)))


def _sentences(fault: _Fault) -> Iterator[str]:
    if fault.rule == "additionalProperties":
        known = list(fault.schema["properties"])
        for key in fault.value:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                yield f"{_path(fault, key)}: unknown key{hint}; expected: {', '.join(known)}"
    elif fault.rule == "required":
        # The branch of the schema that requires keys of profiles without `like` has no `properties`.
        properties = fault.schema.get("properties") or json.loads(SCHEMA.read_bytes())["properties"]
        for key in fault.limit:
            if key not in fault.value:
                yield f"{_path(fault, key)}: is missing; expected: {_meaning(properties[key])}"
    elif fault.rule == "anyOf":
        choices = " nor ".join(key for choice in fault.limit for key in choice["required"])
        yield f"{_path(fault)}: has neither {choices}; expected: {fault.schema['description']}"
    else:
        yield f"{_path(fault)}: {reprlib.repr(fault.value)} {_broken(fault)}; expected: {fault.schema['description']}"


def _path(fault: _Fault, *more: str | int) -> str:
    """Return the path of a key in readable form: ``busbw.intra_node.floor_gbs``, ``nics[0].gbps``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in (*fault.path, *more))
    return text.removeprefix(".") or "profile"


def _meaning(schema: dict[str, Any]) -> str:
    """Return the description of a key, from the key itself or its reference."""
    if "description" not in schema:
        schema = json.loads(SCHEMA.read_bytes())["$defs"][schema["$ref"].rpartition("/")[2]]
    return str(schema["description"])


def _broken(fault: _Fault) -> str:
    limit = fault.limit
    if fault.rule == "type":
        limit = " or ".join(_TYPES[name] for name in ([limit] if isinstance(limit, str) else limit))
    elif fault.rule == "enum":
        limit = ", ".join(limit)
    # All other rules limit the length of strings and lists.
    return _BROKEN.get(fault.rule, "is empty").format(limit)
