"""Collectives: their programs, and which part of an output is whose."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.catalogue.collectives import program_path, sections


@pytest.mark.parametrize(
    ("binary", "collective", "path"),
    [
        ("", "alltoall", "alltoall_perf"),
        ("/opt/nccl-tests/all_reduce_perf", "alltoall", "/opt/nccl-tests/alltoall_perf"),
        ("/opt/all_reduce_perf/all_reduce_perf_mpi", "sendrecv", "/opt/all_reduce_perf/sendrecv_perf_mpi"),
        ("/opt/alltoallv_perf", "all_reduce", "/opt/all_reduce_perf"),
        ("/opt/reduce_scatter_perf", "reduce", "/opt/reduce_perf"),
        ("/opt/nccl-tests/build/", "reduce_scatter", "/opt/nccl-tests/build/reduce_scatter_perf"),
        ("/opt/wrapper.sh", "all_reduce", "/opt/wrapper.sh"),
        ("all_gather_perf", "broadcast", "broadcast_perf"),
    ],
)
def test_the_program_of_a_collective_lies_beside_the_one_that_is_known(binary: str, collective: str, path: str) -> None:
    assert program_path(binary, collective) == path


def test_sections() -> None:
    text = (
        "# busbar: Kernel=6.1\n# busbar test: all_reduce 1\na\n# busbar exit: all_reduce 1 0\n"
        "# busbar test: alltoall 1\nb\n# busbar exit: alltoall 1 3\n"
        "# busbar test: all_reduce 2\nc\n# busbar exit: all_reduce 2 0\n# busbar test: alltoall 2\nd"
    )
    found = sections(text, ["all_reduce", "alltoall", "broadcast"])
    assert [part.splitlines()[1] for part in found["all_reduce"][0]] == ["a", "c"]
    assert [part.splitlines()[1] for part in found["alltoall"][0]] == ["b", "d"]
    assert (found["all_reduce"][1], found["alltoall"][1], found["broadcast"]) == (True, False, ([], False))
    assert sections("x", ["alltoall", "all_reduce"]) == {"alltoall": (["x"], None), "all_reduce": ([], None)}
