"""What a node's exporter says of the node by the inventory, in Prometheus' text format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["exposition", "node_facts"]

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_BITS_PER_BYTE = 8


def node_facts(name: str, profile: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the hardware profile promises, as {name, labels, value, help}.

    Args:
        name: of the profile; '' for a host that has none.
        profile: the entry of the hardware catalogue. NICs that do RDMA are `infiniband`, as the kernel lists them,
            whichever their link layer; links are counted and rated each, in bytes per second.
    """
    info = {"name": "busbar_node_info", "labels": {"hardware": name} if name else {}, "value": 1}
    facts: list[dict[str, Any]] = [{**info, "help": "What the inventory says of this node."}]
    gpu = profile.get("gpu") or {}
    facts.append(
        {
            "name": "busbar_node_expected_gpus",
            "value": int(gpu.get("count") or 0),
            "help": "GPUs that the hardware profile promises.",
        }
    )
    links: dict[str, int] = {}
    rates: dict[str, float] = {}
    for nic in profile.get("nics") or []:
        kind = "infiniband" if nic["rdma"] else "ethernet"
        links[kind] = links.get(kind, 0) + nic["count"]
        rate = nic["gbps"] * 1e9 / _BITS_PER_BYTE
        rates[kind] = min(rate, rates.get(kind, rate))
    for title, values, words in (
        ("busbar_node_expected_links", links, "Links that the hardware profile promises."),
        ("busbar_node_expected_link_bytes_per_second", rates, "Rate of each link that the hardware profile promises."),
    ):
        for kind, value in values.items():
            facts.append({"name": title, "labels": {"kind": kind}, "value": value, "help": words})
    return facts


def exposition(facts: Iterable[Mapping[str, Any]]) -> str:
    """Return gauges as text, those of one name together; `value` is a number, `labels` and `help` may be missing.

    Raises:
        ValueError: a name that Prometheus does not take, or a value that is no number.
    """
    named: dict[str, list[Mapping[str, Any]]] = {}
    for fact in facts:
        named.setdefault(str(fact["name"]), []).append(fact)
    lines = []
    for name, rows in named.items():
        if not _NAME.fullmatch(name):
            message = f"{name!r} is no name of a metric: letters, digits and _ only"
            raise ValueError(message)
        lines += [f"# HELP {name} {_escaped(rows[0].get('help') or name)}", f"# TYPE {name} gauge"]
        lines += [f"{name}{_labels(row.get('labels') or {})} {_number(name, row['value'])}" for row in rows]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, Any]) -> str:
    pairs = ",".join(f'{key}="{_quoted(value)}"' for key, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: object) -> str:
    return str(text).replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: object) -> str:
    return _escaped(text).replace('"', '\\"')


def _number(name: str, value: object) -> str:
    try:
        number = float(str(value))
    except ValueError as exc:
        message = f"{name}: {value!r} is no number"
        raise ValueError(message) from exc
    return str(int(number)) if number.is_integer() else repr(number)
