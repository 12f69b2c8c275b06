"""Bandwidth matrices of a file, judged and shown to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nvbandwidth import (
    PROGRAM,
    read_nvbandwidth,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.p2p_matrix import judge_matrices
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.p2p_text import read_p2p

from busbar.text_file import read_text

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["judged_matrices", "print_matrices"]

_MOST = 1 << 24


def judged_matrices(path: Path, hardware: str, profile: dict[str, Any] | None, floor: float) -> dict[str, Any]:
    """The verdict on a file that p2pBandwidthLatencyTest or nvbandwidth wrote, as p2p_matrix.judge_matrices gives it.

    Raises:
        UsageError: the file cannot be read.
    """
    text = read_text(path, _MOST)
    read = read_nvbandwidth if PROGRAM in text else read_p2p
    about = {"node": path.name, "hardware": hardware, "profile": profile, "options": {"p2p_floor_gbs": floor}}
    return judge_matrices(read(text), about)


def print_matrices(answer: dict[str, Any]) -> None:
    """The verdict and the matrices; a star stands behind the cells that are too slow."""
    lines = [f"{answer['verdict']}: {answer['reason']}", *(f"  {finding}" for finding in answer["findings"])]
    if answer["source"]:
        lines.append(f"  floor from: {answer['source']}")
    for matrix in answer["matrices"]:
        lines.append(f"\n{matrix['title']}, {matrix['unit']}")
        lines.append(" " * 6 + "".join(f"{label:>10} " for label in matrix["columns"]))
        for row, (label, line) in enumerate(zip(matrix["rows"], matrix["values"], strict=True)):
            cells = [
                f"{'-' if value is None else format(value, '.2f'):>10}{'*' if [row, column] in matrix['odd'] else ' '}"
                for column, value in enumerate(line)
            ]
            lines.append(f"{label or 'all':>6}{''.join(cells)}")
    print(printable("\n".join(lines)))
