"""Tests of default container mounts in the format of Pyxis; names that Enroot would misread are refused."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.containers.enroot_config import mount_lines


def test_mount_lines_match_the_format_of_pyxis() -> None:
    lines, problems = mount_lines(["/shared", "/data/sets:/data:ro+nofail", "/a:/b"])
    assert problems == []
    assert lines == [
        "/shared /shared none x-create=auto,rbind",
        "/data/sets /data none x-create=auto,rbind,ro,nofail",
        "/a /b none x-create=auto,rbind",
    ]


@pytest.mark.parametrize(
    ("mounts", "problem", "remedy"),
    [
        (["shared"], "'shared' is not a mount", "absolute paths"),
        (["/shared:data"], "'/shared:data' is not a mount", "absolute paths"),
        (["/shared:/"], "'/shared:/' is not a mount", "absolute paths"),
        (["/my data"], "contains a space", "a parent directory"),
        (["/home/$USER"], "contains a space, quote, $ or #", "a parent directory"),
        (["/a:/a:readonly"], "'readonly'", "use one or more of"),
        (["/a:/a:ro+nofial"], "'nofial'", "write nofail"),
        (["/a:/x", "/b:/x"], "'/b:/x' has the same target as '/a:/x'", "elsewhere"),
    ],
)
def test_mount_misread_by_enroot_is_refused(mounts: list[str], problem: str, remedy: str) -> None:
    _, (found,) = mount_lines(mounts)
    assert found["key"] == "enroot_mounts"
    assert problem in found["problem"]
    assert remedy in found["remedy"]
