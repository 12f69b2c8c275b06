"""Tests of path helpers of the uninstallation."""

from __future__ import annotations

from ansible_collections.busbar.cluster.plugins.module_utils.uninstall.host_state import is_below
from ansible_collections.busbar.cluster.plugins.module_utils.uninstall.paths import (
    top_paths,
)


def test_paths_below_and_top_paths() -> None:
    assert is_below("/shared/home/a", ["/srv", "/shared"]) == "/shared"
    assert is_below("/shared2", ["/shared"]) == ""
    assert top_paths(["/a/b", "/a", "/a-b", "/c/d"]) == ["/a", "/a-b", "/c/d"]
