"""Which host belongs to which slice."""

from __future__ import annotations

import pytest
from busbar.errors import UsageError
from busbar.run.slices.share_out import Node, share_out

NODES = [f"gpu{number}" for number in range(1, 9)]
HOSTS = ["ctl", "login", *NODES]


def test_every_host_is_in_one_list() -> None:
    shares = share_out(HOSTS, map(Node, NODES), 3)
    assert shares.cluster == ["ctl", "login", "gpu1"]
    assert shares.slices == [["gpu2", "gpu3"], ["gpu4", "gpu5", "gpu6"], ["gpu7", "gpu8"]]


def test_the_first_of_each_kind_goes_with_the_cluster() -> None:
    nodes = [Node(name, ("h100",) if name < "gpu5" else ("a100",)) for name in NODES]
    assert share_out(HOSTS, nodes, 2).cluster == ["ctl", "login", "gpu1", "gpu5"]


def test_a_rack_stays_together() -> None:
    nodes = [Node(name, rack=f"r{number // 3}") for number, name in enumerate(NODES)]
    shares = share_out(HOSTS, nodes, 2)
    assert shares.cluster == ["ctl", "login", "gpu1", "gpu2", "gpu3"]
    assert shares.slices == [["gpu4", "gpu5", "gpu6"], ["gpu7", "gpu8"]]


@pytest.mark.parametrize("number", range(1, 8))
def test_no_list_is_empty_nor_much_longer_than_another(number: int) -> None:
    lengths = list(map(len, share_out(HOSTS, map(Node, NODES), number).slices))
    assert len(lengths) == number
    assert sum(lengths) == 7
    assert max(lengths) - min(lengths) <= 1


def test_more_slices_than_nodes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--slices 8: of the 8 compute nodes of this run 7 can .* --slices 7 at most"):
        share_out(HOSTS, map(Node, NODES), 8)


def test_a_run_without_compute_nodes_is_refused() -> None:
    with pytest.raises(UsageError, match=r"of the 0 compute nodes of this run 0 can be shared out.*say nothing"):
        share_out(["ctl"], [], 1)
