"""Convert the output of `nvidia-smi` (`-q -x`, `-q` and `--query-gpu`) to trees. Never raises."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from html import unescape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["CSV_COLUMNS", "LOG", "Node", "read_csv", "read_text", "read_xml"]

LOG = "nvidia_smi_log"
# The length limits prevent catastrophic backtracking.
_TAG = re.compile(r"<([/!?]?)([A-Za-z_][\w.:-]{0,99})?([^<>]*)>")
_DEEPEST = 100
_LONGEST_LINE = 2000
_ID = re.compile(r"""\bid\s*=\s*["']([^"']*)["']""")
_TEXT_LINE = re.compile(r"^(\s*)(\S.*?)(?:\s+:(?:\s+(.*))?)?$")
_TEXT_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_UNIT = re.compile(r"\s*\[[^\]]*\]$")
_MOST_COLUMNS = 2000

# --query-gpu columns whose names differ from the XML path by more than separators.
_COLUMNS = {
    "name": "product_name",
    "gpu_name": "product_name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "pci.bus_id": "pci/pci_bus_id",
    "gpu_bus_id": "pci/pci_bus_id",
    "index": "index",
    "persistence_mode": "persistence_mode",
    "memory.total": "fb_memory_usage/total",
    "memory.used": "fb_memory_usage/used",
    "pcie.link.gen.max": "pci/gpu_link_info/pcie_generation/max",
    "pcie.link.gen.current": "pci/gpu_link_info/pcie_generation/current",
    "pcie.link.gen.gpumax": "pci/gpu_link_info/pcie_generation/device_max",
    "pcie.link.gen.hostmax": "pci/gpu_link_info/pcie_generation/host_max",
    "pcie.link.width.max": "pci/gpu_link_info/link_width/max",
    "pcie.link.width.current": "pci/gpu_link_info/link_width/current",
    "mig.mode.current": "mig_mode/current",
    "mig.mode.pending": "mig_mode/pending",
    "ecc.mode.current": "ecc_mode/current",
    "ecc.mode.pending": "ecc_mode/pending",
    "ecc.errors.uncorrected.volatile.total": "ecc_errors/volatile/double_bit/total",
    "ecc.errors.uncorrected.aggregate.total": "ecc_errors/aggregate/double_bit/total",
    "ecc.errors.corrected.volatile.total": "ecc_errors/volatile/single_bit/total",
    "ecc.errors.corrected.aggregate.total": "ecc_errors/aggregate/single_bit/total",
    "retired_pages.single_bit_ecc.count": "retired_pages/single_bit_ecc",
    "retired_pages.double_bit.count": "retired_pages/double_bit_ecc",
    "retired_pages.pending": "retired_pages/pending_retirement",
    "remapped_rows.correctable": "remapped_rows/correctable_error",
    "remapped_rows.uncorrectable": "remapped_rows/uncorrectable_error",
    "remapped_rows.pending": "remapped_rows/pending",
    "remapped_rows.failure": "remapped_rows/remapping_failure_occurred",
    "power.limit": "power_readings/power_limit",
    "power.default_limit": "power_readings/default_power_limit",
    "power.max_limit": "power_readings/max_power_limit",
    "power.draw": "power_readings/power_draw",
    "temperature.gpu": "temperature/gpu_temp",
    "pstate": "performance_state",
    "fabric.state": "fabric/state",
    "fabric.status": "fabric/status",
    "fabric.health.summary": "fabric/health/summary",
    "fabric.health.bandwidth": "fabric/health/bandwidth",
}
CSV_COLUMNS = frozenset({*_COLUMNS, "driver_version", "kmd_version", "cuda_version"})


@dataclass
class Node:
    """An element: name, text, children, and the `id` of a `gpu`."""

    tag: str
    text: str = ""
    identity: str = ""
    children: list[Node] = field(default_factory=list)

    def child(self, tag: str) -> Node | None:
        """Return the first child with that name."""
        return next((node for node in self.children if node.tag == tag), None)

    def find(self, path: str) -> Node | None:
        """Return the node at a path such as `mig_mode/current_mig`; the first of several with the same name."""
        node: Node | None = self
        for tag in path.split("/"):
            node = node.child(tag) if node else None
        return node

    def below(self, tag: str) -> Node | None:
        """Return the first node with that name at any depth, in document order."""
        waiting = self.children[::-1]
        while waiting:
            node = waiting.pop()
            if node.tag == tag:
                return node
            waiting += node.children[::-1]
        return None

    def texts(self) -> Iterator[str]:
        """Yield the text of each descendant node, in any order."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            waiting += node.children
            if node.text:
                yield node.text

    def add(self, path: str, text: str) -> None:
        """Set the text at a path, creating missing nodes."""
        node = self
        for tag in path.split("/"):
            below = node.child(tag)
            if below is None:
                below = Node(tag)
                node.children.append(below)
            node = below
        node.text = text


def slug(words: str) -> str:
    """Return the XML name for a name in the text form: 'Product Name' gives 'product_name'."""
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def read_xml(text: str) -> tuple[Node, list[str]]:
    """Return the log as a tree, and its format errors.

    The parser tolerates broken output: it closes open elements and ignores text around the log. It expands only the
    five predefined XML entities.
    """
    top, problems = Node(""), []
    stack = [top]
    position = 0
    text = _without_comments(text)
    for match in _TAG.finditer(text):
        stack[-1].text += text[position : match.start()]
        position = match.end()
        kind, tag, rest = match.groups()
        if kind in {"!", "?"} or not tag:
            continue
        if kind == "/":
            problems += _close(stack, tag)
        else:
            _open(stack, tag, rest)
    stack[-1].text += text[position:]
    if len(stack) > 1:
        problems.append(f"the log ends inside <{stack[-1].tag}>: it is truncated")
    _strip(top)
    logs = [node for node in top.children if node.tag == LOG]
    if len(logs) > 1:
        problems.append(f"found {len(logs)} logs (expected 1), read only the first")
    return (logs[0] if logs else top), problems


def _open(stack: list[Node], tag: str, rest: str) -> None:
    """Add an element to the tree; a `gpu` element closes an open one."""
    found = _ID.search(rest)
    node = Node(tag, identity=found.group(1).strip() if found else "")
    if tag == "gpu" and node.identity:
        open_tags = [each.tag for each in stack]
        if "gpu" in open_tags:
            del stack[open_tags.index("gpu") :]
    stack[-1].children.append(node)
    if not rest.endswith("/") and len(stack) < _DEEPEST:
        stack.append(node)


def _close(stack: list[Node], tag: str) -> list[str]:
    """Close an element and all open elements in it; return the format errors."""
    depth = next((number for number in range(len(stack) - 1, 0, -1) if stack[number].tag == tag), 0)
    if not depth:
        return [f"</{tag}> has no start tag"]
    left = [node.tag for node in stack[depth + 1 :]]
    del stack[depth:]
    return [f"<{left[0]}> is not closed"] if left else []


def _strip(top: Node) -> None:
    waiting = [top]
    while waiting:
        node = waiting.pop()
        node.text = unescape(node.text.strip())
        waiting += node.children


def _without_comments(text: str) -> str:
    """Return the text without XML comments; an unterminated comment is kept."""
    parts: list[str] = []
    position = 0
    while True:
        start = text.find("<!--", position)
        end = text.find("-->", start + 4) if start >= 0 else -1
        if end < 0:
            return "".join([*parts, text[position:]])
        parts.append(text[position:start])
        position = end + 3


def read_text(text: str) -> Node:
    """Return the text form (`nvidia-smi -q`) as a tree with names as in slug()."""
    top = Node(LOG)
    stack: list[tuple[int, Node]] = [(-1, top)]
    for whole in text.splitlines():
        line = whole[:_LONGEST_LINE]
        gpu = _TEXT_GPU.match(line)
        if gpu:
            stack = [(-1, top), (0, Node("gpu", identity=gpu.group(1)))]
            top.children.append(stack[-1][1])
            continue
        match = _TEXT_LINE.match(line.expandtabs(4))
        if not match or match.group(2).startswith("===="):
            continue
        indent = len(match.group(1))
        if indent == 0:
            del stack[1:]
        while stack[-1][0] >= indent:
            stack.pop()
        node = Node(slug(match.group(2)), (match.group(3) or "").strip())
        stack[-1][1].children.append(node)
        stack.append((indent, node))
    return top


def read_csv(text: str) -> Node:
    """Return the table of `nvidia-smi --query-gpu=… --format=csv` as a tree, without cells in brackets."""
    top = Node(LOG)
    try:
        rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    except csv.Error:
        return top
    names = [_UNIT.sub("", name.strip()) for name in rows[0][:_MOST_COLUMNS]] if rows else []
    for row in rows[1:]:
        if len(row) > 1 or (row and len(names) == 1):
            _add_row(top, names, row)
    return top


def _add_row(top: Node, names: Sequence[str], row: Sequence[str]) -> None:
    """Add a row of the table as a GPU."""
    gpu = Node("gpu")
    for name, cell in zip(names, row):
        value = cell.strip()
        if value.startswith("[") and value.endswith("]"):
            continue
        if name in {"driver_version", "kmd_version", "cuda_version", "count"}:
            top.add("attached_gpus" if name == "count" else name, value)
        gpu.add(_COLUMNS.get(name, name.replace(".", "_")), value)
    top.children.append(gpu)
