"""Which nodes are new to a running cluster."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.new_nodes import new_nodes

DECLARED = ["gpu1", "gpu2", "gpu3", "gpu4"]
SHOWN = "NodeName=gpu1 Arch=x86_64 Reason=x NodeName=gpu4\nNodeName=gpu2 CoresPerSocket=2\n"


@pytest.mark.parametrize(
    ("shown", "asked", "expected"),
    [
        (SHOWN, "", ["gpu3", "gpu4"]),
        (SHOWN, "gpu[3-4]", ["gpu3", "gpu4"]),
        (SHOWN, ["gpu4", "gpu1"], ["gpu1", "gpu4"]),
        ("", "", DECLARED),
        ("".join(f"NodeName={name} x\n" for name in DECLARED), "", []),
    ],
)
def test_new_nodes(shown: str, asked: str | list[str], expected: list[str]) -> None:
    assert new_nodes(DECLARED, shown, asked) == expected


def test_strangers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"gpu\[5-6\]: no compute node"):
        new_nodes(DECLARED, SHOWN, "gpu[4-6]")
