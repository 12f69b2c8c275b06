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
    try:
        body = json.loads(text[begin:])["body"]
        overall = body[_OVERALL]["value"]
        found = [each for kind in body if kind != _OVERALL for each in _entities(kind, body[kind])]
    except (AttributeError, KeyError, TypeError) as exc:
        message = f"the JSON of dcgmi has another structure: {exc}"
        raise ValueError(message) from exc
    if overall not in _STATES or (overall == "Healthy") != (not found):
        message = f"dcgmi reports {overall!r} as overall state, but {len(found)} incidents"
        raise ValueError(message)
    return found


def _entities(kind: str, group: dict[str, Any]) -> Iterator[Incident]:
    for number, entity in group["children"].items():
        for system, error in entity["children"]["Errors"]["children"].items():
            state, words = error["value"], error.get("overflow") or []
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
