"""What an uninstallation does with files."""

from __future__ import annotations

from ansible_collections.busbar.cluster.plugins.module_utils.uninstall.base import is_below
from ansible_collections.busbar.cluster.plugins.module_utils.uninstall.paths import (
    merged,
    top_paths,
    without_block,
)


def test_lines_of_others_stay_in_a_shared_file() -> None:
    original = "127.0.0.1 localhost\n127.0.1.1 gpu1\n"
    last = "127.0.0.1 localhost\n\n# BEGIN busbar\n10.0.0.1 gpu1\n# END busbar\n"
    now = last.replace("localhost\n\n", "localhost\n10.9.9.9 printer\n\n")
    assert merged(original, last, now) == "127.0.0.1 localhost\n127.0.1.1 gpu1\n10.9.9.9 printer\n"
    without = now.replace("127.0.0.1 localhost\n", "")
    assert merged(original, last, without) == "127.0.1.1 gpu1\n10.9.9.9 printer\n"


def test_blocks() -> None:
    text = "first\n# BEGIN x\nours\n# END x\nlast\n"
    assert without_block(text, "# BEGIN x", "# END x") == "first\nlast\n"
    assert without_block("first\n# BEGIN x\nrest\n", "# BEGIN x", "# END x") == "first\n# BEGIN x\nrest\n"


def test_folders() -> None:
    assert is_below("/shared/home/a", ["/srv", "/shared"]) == "/shared"
    assert is_below("/shared2", ["/shared"]) == ""
    assert top_paths(["/a/b", "/a", "/a-b", "/c/d"]) == ["/a", "/a-b", "/c/d"]
