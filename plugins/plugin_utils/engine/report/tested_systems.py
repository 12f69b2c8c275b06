# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Collect facts about the environment of a validation from its report: software, machines, GPUs and NICs."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....module_utils.hardware.machine_parts import Part
    from .report_types import ReadReport

_SETTINGS = {
    "min_bytes": "Smallest message",
    "max_bytes": "Largest message",
    "step_factor": "Step",
    "iterations": "Iterations",
    "partners": "Requested partners",
}
# Ignored in comparisons: the frequency of a value, and facts about the number of nodes.
_COUNT = re.compile(r" \(\d+\u00d7\)")
_OF_NUMBERS = frozenset({"Tested hosts", "Serial numbers"})
_WORDS = {"machine": "machine(s)", "gpu": "GPU(s)", "nic": "NIC(s)"}


def changed_facts(first: ReadReport, second: ReadReport) -> list[dict[str, str]]:
    """Return the environment facts that differ between two validations; a missing value is ''.

    Returns:
        Dictionaries with ``term``, ``first`` and ``second``.
    """
    one, two = (dict(facts_of(report)) for report in (first, second))
    return [
        {"term": term, "first": one.get(term, ""), "second": two.get(term, "")}
        for term in dict.fromkeys([*one, *two])
        if term not in _OF_NUMBERS and _values(one.get(term, "")) != _values(two.get(term, ""))
    ]


def _values(words: str) -> set[str]:
    return set(_COUNT.sub("", words).split(", "))


def _counted(values: list[str]) -> str:
    """Return the distinct values as text, with frequencies if there are several."""
    found = Counter(value for value in values if value)
    if len(found) == 1:
        return next(iter(found))
    return ", ".join(f"{value} ({count}\u00d7)" for value, count in found.most_common(8))


def _yes(values: list[object]) -> str:
    known = [value for value in values if isinstance(value, bool)]
    if not known:
        return ""
    if all(known) or not any(known):
        return "yes" if known[0] else "no"
    return f"in {sum(known)} of {len(known)} runs"


def facts_of(report: ReadReport) -> list[tuple[str, str]]:
    """Return the known facts about the environment of a validation, as terms and values."""
    tests = report["tests"]
    runs = [run for test in tests for run in test["runs"]]
    fabrics = [run["fabric"] for run in runs]
    hosts = {host for run in runs for host in run["hosts"]}
    facts = [
        ("Backend", report["backend"]),
        ("Serial numbers", counted_parts(numbered_parts(report))),
        ("NCCL", _counted([run["nccl_version"] or "" for run in runs])),
        ("nccl-tests", _counted([run["nccl_tests_version"] or "" for run in runs])),
        ("Devices", _counted([device for run in runs for device in run["devices"]])),
        ("Tested hosts", str(len(hosts)) if hosts else ""),
        ("Networks", _counted([network for fabric in fabrics for network in fabric["networks"]])),
        ("NICs", ", ".join(sorted({nic for fabric in fabrics for nic in fabric["nics"]})[:64])),
        ("GPUDirect RDMA", _yes([fabric["gdrdma"] for fabric in fabrics])),
        ("NVLS", _yes([fabric["nvls"] for fabric in fabrics])),
        ("In-network reduction (SHARP)", _yes([fabric["in_network"] for fabric in fabrics])),
    ]
    keys = list(dict.fromkeys(key for test in tests for key in test["environment"]))
    facts += [(key, _counted([test["environment"].get(key, "") for test in tests])) for key in keys]
    facts += [(words, report["settings"].get(key, "")) for key, words in _SETTINGS.items()]
    return [(term, value) for term, value in facts if value]


def numbered_parts(report: ReadReport) -> dict[str, list[Part]]:
    """Return the hardware parts of each node, collected from all tests of a report."""
    found: dict[str, list[Part]] = {}
    for test in report["tests"]:
        for node, parts in test["parts"].items():
            known = found.setdefault(node, [])
            known += [part for part in parts if part not in known]
    return dict(sorted(found.items()))


def counted_parts(parts: Mapping[str, list[Part]]) -> str:
    """Return the number of parts of each kind as text; empty without parts."""
    found = Counter(part["kind"] for each in parts.values() for part in each)
    return ", ".join(f"{found[kind]} {words}" for kind, words in _WORDS.items() if found[kind])
