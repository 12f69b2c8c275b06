"""Tests of the module that writes the cluster's names to /etc/hosts."""

from __future__ import annotations

import getpass
import grp
import os
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import hosts_table
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = "# BEGIN busbar: the hosts of the cluster\n10.0.0.11 gpu1\n# END busbar\n"
needs_root = pytest.mark.skipif(
    getpass.getuser() != "root" or grp.getgrgid(os.getgid()).gr_name != "root", reason="the file belongs to root"
)


def run(capsys: pytest.CaptureFixture[str], *, check: bool = False) -> dict[str, Any]:
    return module_result(hosts_table, capsys, block=BLOCK, _ansible_check_mode=check)


@needs_root
def test_hosts_table_is_written_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "hosts"
    table.write_text("127.0.0.1 localhost\n10.9.9.9 gpu1\n")
    monkeypatch.setattr(hosts_table, "HOSTS", table)
    planned = run(capsys, check=True)
    assert (planned["changed"], "gpu1" in table.read_text().splitlines()[1]) == (True, True)
    told = run(capsys)
    assert (told["changed_paths"], table.read_text()) == ([str(table)], f"127.0.0.1 localhost\n\n{BLOCK}")
    assert told["diff"][0]["before"] == "127.0.0.1 localhost\n10.9.9.9 gpu1\n"
    assert (run(capsys)["changed"], table.stat().st_mode & 0o777) == (False, 0o644)
    table.unlink()
    assert run(capsys)["changed"]
    assert table.read_text() == BLOCK
