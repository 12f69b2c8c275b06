"""Tests of timers (`busbar ssh timer`, `busbar validate --schedule`): their units and the calls of systemctl."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from busbar import cli
from busbar.run import timer as timers
from busbar.run.timer import Timer
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path


RENEW = ("busbar-ssh-renew", "Renew the certificates of 100 % of the hosts", ("provision", "-i"), "renews them")
HOSTS = "slurm_controller: {hosts: {ctl: }}\nslurm_compute: {hosts: {gpu1: }}\n"


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write stand-ins for systemctl and loginctl that log their calls; return the log."""
    (tmp_path / "bin").mkdir()
    for program in ("systemctl", "loginctl"):
        path = tmp_path / "bin" / program
        executable(path, f'#!/bin/sh\necho {program} "$@" >>{tmp_path}/called\ntest ! -e {tmp_path}/refuse || exit 1\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(timers, "SYSTEM_UNITS", tmp_path / "units")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return tmp_path / "called"


def test_timer_is_installed_once_and_removed(tmp_path: Path, systemd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = tmp_path / "my 100% site"
    inventory.mkdir()
    name = Timer(inventory, *RENEW).name
    assert cli.main(["ssh", "timer", "-i", str(inventory)]) == 0
    assert f"{name}.timer: weekly" in capsys.readouterr().out
    service, timer = (tmp_path / "units" / f"{name}.{kind}" for kind in ("service", "timer"))
    assert '"' + str(inventory).replace("%", "%%") + '"' in service.read_text()
    assert "\n  provision \\\n  base \\\n  -i" in service.read_text()
    assert "OnCalendar=weekly" in timer.read_text()
    assert systemd.read_text().splitlines() == ["systemctl daemon-reload", f"systemctl enable --now {name}.timer"]
    assert cli.main(["ssh", "timer", "-i", str(inventory), "--remove"]) == 0
    assert list((tmp_path / "units").iterdir()) == []
    assert cli.main(["ssh", "timer", "-i", str(inventory), "--remove"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{name}.timer: removed", f"{name}.timer: does not exist"]


@pytest.mark.usefixtures("systemd")
def test_timer_of_another_user_needs_lingering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert cli.main(["ssh", "timer", "-i", str(tmp_path), "--calendar", "daily"]) == 0
    assert "loginctl enable-linger" in capsys.readouterr().out
    assert len(list((tmp_path / "config/systemd/user").iterdir())) == 2
    assert "systemctl --user enable --now" in (tmp_path / "called").read_text()


@pytest.mark.usefixtures("systemd")
def test_invalid_inventory_and_failed_systemctl_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["ssh", "timer", "-i", str(tmp_path / "gone")]) == 2
    assert "no such file or folder" in capsys.readouterr().err
    (tmp_path / "refuse").touch()
    assert cli.main(["ssh", "timer", "-i", str(tmp_path)]) == 2
    assert "`systemctl daemon-reload` failed" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
def test_units_are_valid_for_systemd(tmp_path: Path) -> None:
    timer = Timer(tmp_path / "my 100% site", *RENEW, "Mon 04:00")
    for path, text in timer.units.items():
        (tmp_path / path.name).write_text(text)
    paths = [str(tmp_path / path.name) for path in timer.units]
    done = subprocess.run(["systemd-analyze", "verify", *paths], check=False, capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if timer.name in line and "Command" not in line]
    assert ours == []


def site(folder: Path, **variables: str) -> list[str]:
    """Write an inventory; return the words of the command for it."""
    (folder / "hosts.yml").write_text(HOSTS, encoding="utf-8")
    (folder / "group_vars").mkdir()
    lines = [f"{name}: {value}" for name, value in variables.items()] or ["{}"]
    (folder / "group_vars" / "all.yml").write_text("\n".join(lines), encoding="utf-8")
    return ["validate", "-i", str(folder / "hosts.yml")]


def test_idle_nodes_are_tested_on_a_schedule(tmp_path: Path, systemd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = site(tmp_path, slurm_checks_partition="checks")
    assert cli.main([*words, "--schedule", "Sat 03:00", "-e", "validation_stages=node"]) == 0
    said = capsys.readouterr().out
    (service,) = (tmp_path / "units").glob("busbar-validate-*.service")
    text = service.read_text()
    asked = text.partition("ExecStart=")[2].replace("\\\n", " ").split()
    assert asked[1:] == [
        *words[:1],
        "-i",
        *words[2:],
        "-e",
        "validation_background=true",
        "-e",
        "validation_stages=node",
    ]
    assert "SuccessExitStatus=4" in text
    assert "OnCalendar=Sat 03:00" in service.with_suffix(".timer").read_text()
    assert f"journalctl -u {service.stem}" in said
    assert f"systemctl enable --now {service.stem}.timer" in systemd.read_text()
    assert cli.main([*words, "--schedule", "never"]) == 0
    assert list((tmp_path / "units").iterdir()) == []


@pytest.mark.usefixtures("systemd")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "set slurm_checks_partition (for example, to checks)"),
        (["-K"], "--ask-become-pass cannot be combined with --schedule: use --become-password-file FILE"),
        (["-i", "gpu1,gpu2"], "needs exactly one inventory file or folder"),
    ],
)
def test_schedule_without_low_priority_or_with_a_prompt_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert cli.main([*site(tmp_path), "--schedule", "weekly", *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "units").exists()


@pytest.mark.usefixtures("systemd")
def test_site_may_set_its_own_low_priority_qos(tmp_path: Path) -> None:
    assert cli.main([*site(tmp_path), "--schedule", "weekly", "-e", "validation_qos=low"]) == 0
