"""The tree that the nodes of a sandbox share: who may enter it, and what its removal never empties."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from busbar.errors import UsageError
from busbar.sandbox import state
from busbar.sandbox.cluster import ensure_shared, refuse_mounts
from busbar.sandbox.state import Sandbox

if TYPE_CHECKING:
    from pathlib import Path

LINE = "36 35 98:0 / {} rw,noatime shared:1 - ext4 /dev/sdb1 rw"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_all_users_of_the_nodes_write_and_those_of_this_machine_stay_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "sandbox_root", lambda: tmp_path)
    sandbox = Sandbox("demo")
    sandbox.save()
    old = os.umask(0o077)
    try:
        ensure_shared(sandbox)
    finally:
        os.umask(old)
    assert (mode(sandbox.shared), mode(sandbox.shared.parent)) == (0o1777, 0o700)
    (sandbox.shared / "kept").touch()
    ensure_shared(sandbox)
    assert (sandbox.shared / "kept").exists()


@pytest.mark.parametrize("below", ["", "/storage/shared", "/storage/shared/my\\040data"])
def test_a_mount_below_it_is_not_emptied(tmp_path: Path, below: str) -> None:
    table = f"{LINE.format('/')}\n{LINE.format(f'{tmp_path}/demo{below}')}\n"
    with pytest.raises(UsageError, match="unmount it first") as caught:
        refuse_mounts(tmp_path / "demo", table)
    assert below.replace("\\040", " ") in str(caught.value)


def test_mounts_elsewhere_do_not_matter(tmp_path: Path) -> None:
    refuse_mounts(tmp_path / "demo", f"{LINE.format('/')}\n{LINE.format(f'{tmp_path}/demonstration')}\n")
    refuse_mounts(tmp_path / "demo")
