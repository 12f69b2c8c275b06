"""Lines of fstab: those that are declared, and all others as they are."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.storage.fstab import fstab_text

DATA = {"src": "srv:/d", "path": "/data", "fstype": "nfs", "options": "ro,_netdev"}
LINE = "srv:/d /data nfs ro,_netdev 0 0\n"
OTHERS = "# srv:/d /data nfs ro 0 0\nUUID=0-1 / ext4 defaults 0 1\n\nhalf a line\n"


@pytest.mark.parametrize(
    ("before", "after", "rewritten"),
    [
        ("", LINE, ["/data"]),
        (OTHERS, OTHERS + LINE, ["/data"]),
        (OTHERS.rstrip("\n"), OTHERS + LINE, ["/data"]),
        (OTHERS + LINE, OTHERS + LINE, []),
        ("srv:/d\t/data  nfs ro,_netdev\n", "srv:/d\t/data  nfs ro,_netdev\n", []),
        (f"srv:/old /data nfs4 rw 0 0\n{OTHERS}", LINE + OTHERS, ["/data"]),
        ("srv:/d /data nfs ro,_netdev 0 2\n", LINE, ["/data"]),
    ],
)
def test_the_line_of_a_mount(before: str, after: str, rewritten: list[str]) -> None:
    assert fstab_text(before, [DATA]) == (after, rewritten)


def test_a_path_with_a_space_is_found_again() -> None:
    item = {**DATA, "path": "/my data"}
    text, _ = fstab_text("", [item])
    assert text == "srv:/d /my\\040data nfs ro,_netdev 0 0\n"
    assert fstab_text(text, [item]) == (text, [])
