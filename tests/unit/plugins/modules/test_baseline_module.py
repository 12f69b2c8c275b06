"""Tests of the baseline module: hosts that it refuses, and hosts that it skips."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import baseline

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], baseline_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a function
    monkeypatch.setattr(baseline, "BASELINE", baseline_folder)

    def start(*, check: bool = False) -> dict[str, Any]:
        with (
            patch_module_args({"state": "restored", "host": "gpu1", "_ansible_check_mode": check}),
            pytest.raises(SystemExit),
        ):
            baseline.main()
        return dict(json.loads(capsys.readouterr().out))

    return start


@pytest.mark.parametrize("check", [False, True])
def test_host_changed_before_its_baseline_is_refused(
    run: Any,  # noqa: ANN401
    baseline_folder: Path,
    *,
    check: bool,
) -> None:
    (baseline_folder / "host.json").write_text(json.dumps({"older": ["/etc/sudoers.d/busbar"], "paths": []}))
    told = run(check=check)
    assert told["failed"]
    assert told["msg"].startswith("gpu1: busbar changed this host before it took a baseline (/etc/sudoers.d/busbar)")
    assert "remedy: reinstall the machine" in told["msg"]


def test_host_changed_by_busbar_without_a_baseline_is_refused(
    run: Any,  # noqa: ANN401
    baseline_folder: Path,
) -> None:
    """A baseline of an older busbar is also refused, because only that busbar can read it."""
    (baseline_folder / "host.json").unlink()
    (baseline_folder.parent / "record").mkdir()
    msg = run()["msg"]
    assert str(baseline_folder.parent / "record") in msg
    assert "uninstall the host with the busbar release that wrote it" in msg


def test_host_never_changed_by_busbar_is_left_unchanged(
    run: Any,  # noqa: ANN401
    baseline_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (baseline_folder / "host.json").unlink()
    monkeypatch.setattr(baseline, "signs_of_busbar", list)
    told = run()
    assert (told["changed"], told["removed"], told["kept"]) == (False, [], [])


@pytest.mark.parametrize("text", ["{", "{}"])
def test_damaged_baseline_is_reported(run: Any, baseline_folder: Path, text: str) -> None:  # noqa: ANN401
    (baseline_folder / "host.json").write_text(text)
    assert "host.json is damaged" in run()["msg"]
