"""Tests of the programs that the hub may run through sudo."""

from __future__ import annotations

import io
import json
import os
import pwd
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.portal.notebook_job import RequestError
from ansible_collections.busbar.cluster.roles.jupyterhub.files import portal as programs
from ansible_collections.busbar.cluster.roles.jupyterhub.files.portal import (
    REFUSED,
    WRONG,
    Settings,
    cancel,
    history,
    is_allowed,
    login,
    query,
    read_settings,
    run,
    submit,
)
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path

DECLARED = {
    "container_runtime": "",
    "environments": [
        {"name": "default", "title": "Python", "modules": [], "paths": [], "image": "", "python": "python3"}
    ],
    "start": ["/shared/python", "/shared/start.py"],
    "first_number": 0,
    "groups": [],
    "accounting": True,
    "history_days": 3,
}
ME = pwd.getpwuid(os.getuid()).pw_name
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
REQUEST = {
    "choice": {"gpus": 0, "cpus": 1, "memory_gib": 0, "minutes": 5, "environment": "default"},
    "variables": {"JUPYTERHUB_USER": ME},
    "files": dict.fromkeys(("authority", "certificate", "key"), PEM),
}


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "portal.json"
    path.write_text(json.dumps(DECLARED))
    return path


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write stand-ins for Slurm's commands that log their arguments and input; sbatch answers as with --parsable."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, answer in (
        ("sbatch", "17;cluster"),
        ("scancel", ""),
        ("squeue", "7|RUNNING|gpu1|None"),
        ("sacctmgr", "a|a"),
    ):
        path = folder / name
        executable(
            path, f'#!/bin/sh\ncd {tmp_path}\necho "$0 $*" >>words\nenv >environment\ncat >read\necho "{answer}"\n'
        )
    monkeypatch.setattr(programs, "PATHS", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    entry = pwd.getpwuid(os.getuid())
    home = pwd.struct_passwd((*entry[:5], str(tmp_path / "home"), entry.pw_shell))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: home)
    monkeypatch.setenv("LD_PRELOAD_OF_THE_HUB", "1")
    return tmp_path


def test_notebook_is_submitted_as_the_user_of_the_program(slurm: Path, settings: Path) -> None:
    assert submit(REQUEST, read_settings(settings)) == {"job": "17"}
    words = (slurm / "words").read_text()
    assert f"--output={slurm}/home/.local/state/notebook.log" in words
    assert (slurm / "read").read_text().startswith("#!/bin/bash -l\n")
    assert "LD_PRELOAD_OF_THE_HUB" not in (slurm / "environment").read_text()


def test_user_without_permission_submits_nothing(slurm: Path, settings: Path) -> None:
    with pytest.raises(RequestError, match="this user may not use the portal"):
        submit(REQUEST, read_settings(settings)._replace(first_number=10**9))
    assert not (slurm / "words").exists()


def test_error_of_sbatch_is_shown_to_the_user(slurm: Path, settings: Path) -> None:
    (slurm / "bin" / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: Invalid account' >&2\nexit 1\n")
    with pytest.raises(RequestError, match="Invalid account"):
        submit(REQUEST, read_settings(settings))


def test_only_a_notebook_is_cancelled(slurm: Path, settings: Path) -> None:
    assert cancel({"job": "17"}, read_settings(settings)) == {}
    assert (slurm / "words").read_text().endswith("scancel --name=busbar-notebook 17\n")
    for bad in ("17 18", "--me", 17, None, ""):
        with pytest.raises(RequestError, match="job: "):
            cancel({"job": bad}, read_settings(settings))


def test_only_known_queries_are_accepted(slurm: Path, settings: Path) -> None:
    known = read_settings(settings)
    assert query({"what": "jobs"}, known) == {"jobs": "7|RUNNING|gpu1|None\n"}
    assert query({"what": "accounts", "user": "alice"}, known) == {"accounts": "a|a\n"}
    assert (slurm / "words").read_text().count("\n") == 2
    assert query({"what": "accounts", "user": "alice"}, known._replace(accounting=False)) == {"accounts": ""}
    for bad in ({"what": "config"}, {}, {"what": "accounts", "user": "a b"}, {"what": "accounts"}):
        with pytest.raises(RequestError, match="is not a known query"):
            query(bad, known)


def test_queue_shows_all_users_and_history_only_the_current_user(slurm: Path, settings: Path) -> None:
    known = read_settings(settings)
    # A job name that is not UTF-8 must not hide the jobs of others.
    (slurm / "bin" / "squeue").write_text(
        "#!/bin/sh\nfield=${2%%,*} field=${field#*:} record=${2##*:}\n"
        'printf "7"; for value in 7 RUNNING batch alice None 1:00 N/A cpu=1 gpu1 "\\377<b>"; do\n'
        'printf "%s%b" "$field" "$value"; done; printf "%s\\n" "$record"\n'
    )
    (job,) = query({"what": "queue"}, known)["users"]["alice"]
    assert (job["number"], job["name"]) == ("7", "\ufffd<b>")
    executable(slurm / "bin" / "sacct", f'#!/bin/sh\necho "$*" >{slurm}/words\n')
    assert history({"user": "root", "days": "9999"}, known) == {"jobs": []}
    words = (slurm / "words").read_text()
    assert (f"--user={ME} --starttime=now-3days" in words, "root --" in words, "9999" in words) == (
        True,
        ME == "root",
        False,
    )
    with pytest.raises(RequestError, match="this user may not use the portal"):
        history({}, known._replace(first_number=10**9))
    (slurm / "bin" / "sacct").write_text("#!/bin/sh\necho 'sacct: error: no slurmdbd' >&2\nexit 1\n")
    with pytest.raises(RequestError, match="no slurmdbd"):
        history({}, known)
    assert history({}, known._replace(accounting=False)) == {"jobs": []}


def test_users_with_permission_are_allowed() -> None:
    open_to_all = Settings({}, [], 0, [], accounting=False, history_days=3, container_runtime="")
    assert is_allowed(ME, open_to_all)
    group = __import__("grp").getgrgid(os.getgid()).gr_name
    assert is_allowed(ME, open_to_all._replace(groups=["nobodys-group", group]))
    assert not is_allowed(ME, open_to_all._replace(groups=["nobodys-group"]))
    assert not is_allowed(ME, open_to_all._replace(first_number=os.getuid() + 1))
    # Of Debian's system accounts `nobody` has the highest UID and no login shell; Slurm's user is similar.
    assert not is_allowed("nobody", open_to_all)
    for name in ("nobody-has-this-name", "", "a b", "../x", "-u"):
        assert not is_allowed(name, open_to_all)


@pytest.fixture
def pam(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Install a stand-in for PAM with one valid password; return the logins that it checked."""
    asked: list[tuple[str, str]] = []
    module = types.ModuleType("pamela")

    class PAMError(Exception):
        pass

    def authenticate(name: str, password: str, **_: Any) -> None:  # noqa: ANN401
        asked.append((name, password))
        if (name, password) != (ME, "right"):
            raise PAMError

    module.PAMError = PAMError  # type: ignore[attr-defined]
    module.authenticate = authenticate  # type: ignore[attr-defined]
    module.check_account = lambda *_, **__: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pamela", module)
    return asked


def test_login_needs_the_right_password_and_permission(pam: list[tuple[str, str]], settings: Path) -> None:
    known = read_settings(settings)
    assert login({"user": ME, "password": "right"}, known) == {}
    for request in (
        {"user": ME, "password": "wrong"},
        {"user": ME},
        {"user": 7, "password": "x"},
        {"user": ME, "password": "a\0"},
    ):
        with pytest.raises(PermissionError):
            login(request, known)
    asked = len(pam)
    assert login({"user": ME, "account": True}, known) == {}
    assert len(pam) == asked, "who has logged in is not asked for a password"
    with pytest.raises(PermissionError):
        login({"user": ME, "account": True}, known._replace(first_number=10**9))
    with pytest.raises(PermissionError):
        login({"user": ME, "account": "yes"}, known)
    before = len(pam)
    with pytest.raises(PermissionError):
        login({"user": ME, "password": "right"}, known._replace(first_number=10**9))
    assert pam[before:] == [("nobody", "right")], "who may not enter is not told apart by the time that it takes"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("{}", REFUSED),
        ('{"job": []}', REFUSED),
        ("[]", REFUSED),
        ("{", REFUSED),
        ('{"user": "a", "password": "b"}', WRONG),
    ],
)
@pytest.mark.usefixtures("pam")
def test_exit_status_distinguishes_a_refusal_from_a_wrong_password(
    text: str, status: int, settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(text.encode())))
    action = login if status == WRONG else cancel
    assert run(action, settings) == status
    said = capsys.readouterr()
    assert said.out == ""
    assert bool(said.err) == (status == REFUSED)
