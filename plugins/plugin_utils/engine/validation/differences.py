# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What the nodes of a test have that differs between them: driver, NCCL, firmware, kernel, clocks."""

from __future__ import annotations

import re
from collections import Counter

from ..common.hostlist import fold_hosts

__all__ = ["difference_words", "differences", "of_nodes"]

_LINE = re.compile(r"^# busbar node: (\S{1,255}) ([^=]{1,40})=(.{1,400})$", re.MULTILINE)
_MOST_NODES = 10_000
_MOST_FACTS = 16
_MOST_SHOWN = 4


def of_nodes(text: str | None) -> dict[str, dict[str, str]]:
    """Return what each node of a job said of itself, by fact, such as ``Kernel``.

    The job prints ``# busbar node: NODE FACT=VALUE`` for each.
    """
    found: dict[str, dict[str, str]] = {}
    for node, fact, value in _LINE.findall(text or ""):
        if node not in found and len(found) >= _MOST_NODES:
            continue
        facts = found.setdefault(node, {})
        if len(facts) < _MOST_FACTS and value.strip():
            facts.setdefault(fact.strip(), value.strip())
    return found


def differences(nodes: dict[str, dict[str, str]]) -> dict[str, dict[str, list[str]]]:
    """Return of each fact that differs its values, the most frequent first, each with its nodes.

    A node that says nothing of a fact that others tell, such as one without the library, has an empty value.

    Args:
        nodes: as of_nodes gives it.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for fact in dict.fromkeys(fact for facts in nodes.values() for fact in facts):
        values = {node: facts.get(fact, "") for node, facts in nodes.items()}
        counted = Counter(values.values())
        if len(counted) > 1:
            found[fact] = {
                value: [node for node, own in values.items() if own == value] for value, _count in counted.most_common()
            }
    return found


def difference_words(fact: str, values: dict[str, list[str]]) -> str:
    """Return a sentence that names who differs from the most of the nodes.

    Args:
        fact: such as Kernel.
        values: as differences gives them.
    """
    (most, same), *others = values.items()
    shown = [f"{value or 'nothing'} on {fold_hosts(nodes)}" for value, nodes in others[:_MOST_SHOWN]]
    more = f" and {len(others) - _MOST_SHOWN} more values" if len(others) > _MOST_SHOWN else ""
    rest = fold_hosts(same) if len(same) <= _MOST_SHOWN else f"the other {len(same)}"
    return f"{fact} differs between nodes: {', '.join(shown)}{more}; {most or 'nothing'} on {rest}"
