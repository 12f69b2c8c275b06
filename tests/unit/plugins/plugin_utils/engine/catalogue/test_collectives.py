"""Collectives: their programs, and which part of an output is whose."""

from __future__ import annotations

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.collectives import sections


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
