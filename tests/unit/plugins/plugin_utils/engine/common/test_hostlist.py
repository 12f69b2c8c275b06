"""Tests of folding and unfolding host lists."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import (
    fold_for_slurm,
    fold_hosts,
    unfold_hosts,
)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (["gpu2", "gpu1", "ctl", "gpu1"], "ctl,gpu[1-2]"),
        ([f"gpu{number:03}" for number in range(1, 129)], "gpu[001-128]"),
        ([], ""),
        (["a b", "c[]"], "a b,c[]"),
    ],
)
def test_fold(hosts: list[str], expected: str) -> None:
    assert fold_hosts(hosts) == expected


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["gpu1"], "gpu1"),
        ([f"gpu{number:03}" for number in range(1, 129)], "gpu[001-128]"),
        (["gpu2", "gpu1", "gpu1", "gpu4"], "gpu[1-2,4]"),
        (["gpu9", "gpu10"], "gpu[9-10]"),
        (["ctl", "gpu1"], "ctl,gpu1"),
        (["gpu1-ib", "gpu2-ib"], "gpu1-ib,gpu2-ib"),
        (["r1n1", "r1n2", "r2n1", "r2n2"], "r1n[1-2],r2n[1-2]"),
        (["gpu07", "gpu10", "gpu08", "gpu09", "gpu12"], "gpu[07-10,12]"),
        (["gpu099", "gpu100", "gpu1"], "gpu[1,099-100]"),
        (["2", "1"], "[1-2]"),
    ],
)
def test_fold_for_slurm(names: list[str], folded: str) -> None:
    assert fold_for_slurm(names) == folded


def test_fold_and_unfold_are_inverse() -> None:
    names = [f"rack{rack}-n{number:02}" for rack in range(3) for number in range(12)]
    assert sorted(unfold_hosts(fold_for_slurm(names))) == sorted(names)


@pytest.mark.parametrize("given", ["gpu[1-", ["gpu1", "gpu[1-"]])
def test_unfold_quotes_the_invalid_list(given: str | list[str]) -> None:
    with pytest.raises(ValueError, match=r"gpu\[1-' is not a list of hosts"):
        unfold_hosts(given)
