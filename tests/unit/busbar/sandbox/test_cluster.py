"""Tests of the shared tree of a sandbox: its permissions, and mounts that survive its removal."""

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


def test_users_of_nodes_can_write_and_users_of_this_machine_cannot_enter(
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
def test_mount_below_the_tree_is_not_emptied(tmp_path: Path, below: str) -> None:
    table = f"{LINE.format('/')}\n{LINE.format(f'{tmp_path}/demo{below}')}\n"
    with pytest.raises(UsageError, match="unmount it first") as caught:
        refuse_mounts(tmp_path / "demo", table)
    assert below.replace("\\040", " ") in str(caught.value)


def test_other_mounts_are_ignored(tmp_path: Path) -> None:
    refuse_mounts(tmp_path / "demo", f"{LINE.format('/')}\n{LINE.format(f'{tmp_path}/demonstration')}\n")
    refuse_mounts(tmp_path / "demo")
