"""The module that brings a host back: which hosts it refuses, and which it leaves alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import uninstall

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], record_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a function
    monkeypatch.setattr(uninstall, "RECORD", record_folder)

    def start(*, check: bool = False) -> dict[str, Any]:
        with patch_module_args({"host": "gpu1", "_ansible_check_mode": check}), pytest.raises(SystemExit):
            uninstall.main()
        return dict(json.loads(capsys.readouterr().out))

    return start


@pytest.mark.parametrize("check", [False, True])
def test_a_host_that_busbar_changed_before_its_record_is_refused(run: Any, record_folder: Path, *, check: bool) -> None:  # noqa: ANN401
    (record_folder / "baseline.json").write_text(json.dumps({"older": ["/etc/sudoers.d/busbar"], "paths": []}))
    told = run(check=check)
    assert told["failed"]
    assert told["msg"].startswith("gpu1: busbar has changed this host before it kept a record of that (/etc/sudoers.d/")
    assert "remedy: reinstall the machine" in told["msg"]


def test_without_a_record_the_signs_of_busbar_are_refused(
    run: Any,  # noqa: ANN401
    record_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (record_folder / "baseline.json").unlink()
    monkeypatch.setattr(uninstall, "signs_of_busbar", lambda _record: ["/usr/local/lib/busbar"])
    assert "/usr/local/lib/busbar" in run()["msg"]


def test_a_host_without_a_sign_of_busbar_is_left_alone(
    run: Any,  # noqa: ANN401
    record_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (record_folder / "baseline.json").unlink()
    monkeypatch.setattr(uninstall, "signs_of_busbar", lambda _record: [])
    told = run()
    assert (told["changed"], told["removed"], told["kept"]) == (False, [], [])


def test_a_damaged_record_is_told(run: Any, record_folder: Path) -> None:  # noqa: ANN401
    (record_folder / "changes.json").write_text("{")
    assert "changes.json is damaged" in run()["msg"]
