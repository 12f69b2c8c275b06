"""What shows that busbar has changed a host without a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import host_baseline

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("beside", "signs"), [(["kept"], 0), (["kept", "upgrade_slurm"], 0), (["kept", "spank"], 1)])
def test_what_an_uninstallation_leaves_is_no_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: list[str], signs: int
) -> None:
    monkeypatch.setattr(host_baseline, "_OLDER", ())
    for name in beside:
        (tmp_path / name).mkdir()
    found = [path for path in host_baseline.signs_of_busbar(tmp_path / "record") if path == str(tmp_path)]
    assert found == [str(tmp_path)] * signs
