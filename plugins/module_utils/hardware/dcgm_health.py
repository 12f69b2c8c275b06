"""Parse the findings of DCGM's health watches from `dcgmi health --check --json`.

The format is that of DCGM 3 and 4 (NVIDIA/DCGM, dcgmi/Health.cpp, GenerateOutputFromResponse, and DcgmiOutput.cpp): a
`body` with `Overall Health` (`Healthy`, `Warning` or `Failure`), then one object per kind of entity (`GPU`, …) with
entities by number, each with `Errors` by system. NVIDIA publishes no stable schema, so any other output raises
ValueError instead of counting as a fault of the node.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["NOT_WATCHING", "dcgm_incidents", "dcgm_problems"]

# Output of dcgmi, with exit status 253, before watches are enabled.
NOT_WATCHING = "Health watches not enabled"
_OVERALL = "Overall Health"
_STATES = {"Healthy", "Warning", "Failure"}
# PCIe replays and CRC errors persist and slow down every collective; thermal and power warnings are temporary.
_LINKS = ("PCIe", "NVLINK")


class Incident(NamedTuple):
    """A finding of DCGM: entity (`GPU 0`), system (`PCIe system`), severity and text."""

    entity: str
    system: str
    state: str
    text: str


def dcgm_incidents(text: str) -> list[Incident]:
    """Return DCGM's findings, empty if everything is healthy.

    Raises:
        ValueError: the text is not output of dcgmi.
    """
    begin = text.find("{")
    if begin < 0:
        message = f"dcgmi did not print JSON: {' '.join(text.split())[:200]}"
        raise ValueError(message)
    body = _part(json.loads(text[begin:]), "body")
    overall = _part(body, _OVERALL).get("value")
    found = [each for kind in body if kind != _OVERALL for each in _entities(kind, _part(body, kind))]
    if overall not in _STATES or (overall == "Healthy") != (not found):
        message = f"dcgmi reports {overall!r} as overall state, but {len(found)} incidents"
        raise ValueError(message)
    return found


def _part(whole: Any, name: str) -> dict[str, Any]:  # noqa: ANN401 - JSON of another program
    part = whole.get(name) if isinstance(whole, dict) else None
    if not isinstance(part, dict):
        message = f"the JSON of dcgmi lacks {name!r}"
        raise ValueError(message)  # noqa: TRY004 - invalid output, not an argument type
    return part


def _entities(kind: str, group: dict[str, Any]) -> Iterator[Incident]:
    for number, entity in _part(group, "children").items():
        errors = _part(_part(_part(entity, "children"), "Errors"), "children")
        for system in errors:
            error = _part(errors, system)
            state, words = error.get("value"), error.get("overflow") or []
            if state not in _STATES:
                message = f"dcgmi reports the unknown state {state!r} for {kind} {number}, {system}"
                raise ValueError(message)
            yield Incident(f"{kind} {number}", system, state, " ".join(" ".join(map(str, words)).split()))


def dcgm_problems(incidents: Sequence[Incident], level: str) -> list[str]:
    """Return the descriptions of the findings that count at a level, in DCGM's order.

    Args:
        incidents: result of `dcgm_incidents`.
        level: `never`, `failure` (only failures), `links` (also PCIe and NVLink warnings) or `warning` (all).
    """
    counted = [
        each
        for each in incidents
        if level != "never"
        and (
            each.state == "Failure"
            or (
                each.state == "Warning"
                and (level == "warning" or (level == "links" and each.system.startswith(_LINKS)))
            )
        )
    ]
    return [f"DCGM: {each.entity} {each.system} {each.state.lower()}: {each.text}".rstrip(": ") for each in counted]
