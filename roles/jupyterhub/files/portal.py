"""The five commands that the unprivileged hub runs through sudo; each calls this program with its action.

Each command is owned by root and reads one JSON request from standard input: `submit` and `cancel` run as the owner of
the notebook, `history` as the owner of the jobs, `query` as SlurmUser, so that it sees all jobs even with PrivateData,
and `login` as root, because PAM verifies other users' passwords only for root.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.busbar.cluster.plugins.module_utils.access.login_user import groups_of
from ansible_collections.busbar.cluster.plugins.module_utils.portal.cluster_resources import JOBS, NODES, PARTITIONS
from ansible_collections.busbar.cluster.plugins.module_utils.portal.notebook_job import (
    JOB_NAME,
    Environment,
    RequestError,
    parse_choice,
    sbatch_command,
    script,
)
from ansible_collections.busbar.cluster.plugins.module_utils.portal.user_jobs import (
    ended_command,
    parse_ended,
    parse_queue,
    queue_command,
)
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.node_events import TIMES
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.squeue import fresh_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WRONG, REFUSED = 1, 2
LARGEST_REQUEST = 1024 * 1024
SECONDS = 60
PAM_SERVICE = "busbar-portal"
NO_SHELLS = ("nologin", "false", "sync")
PATHS = "/usr/local/bin:/usr/bin:/bin"
_USER = re.compile(r"[a-z_][a-z0-9_.-]{0,63}")


class Settings(NamedTuple):
    """The settings in `/etc/busbar/portal.json`."""

    environments: dict[str, Environment]
    start: list[str]
    first_number: int
    groups: list[str]
    accounting: bool
    history_days: int
    container_runtime: str


def read_settings(path: Path) -> Settings:
    """Return the settings.

    Raises:
        OSError, ValueError, KeyError: the file, which the role writes, cannot be read.
    """
    declared = json.loads(path.read_text(encoding="utf-8"))
    environments = [
        Environment(**entry | {key: tuple(entry[key]) for key in ("modules", "paths")})
        for entry in declared["environments"]
    ]
    return Settings(
        environments={entry.name: entry for entry in environments},
        start=declared["start"],
        first_number=declared["first_number"],
        groups=declared["groups"],
        accounting=declared["accounting"],
        history_days=declared["history_days"],
        container_runtime=declared["container_runtime"],
    )


def is_allowed(name: str, settings: Settings) -> bool:
    """Return whether a user is a person and, if groups are declared, a member of one of them.

    A person has a UID above the system range and a login shell. The UID alone is not sufficient: service users such as
    `slurm`, which administers Slurm, may have a high UID, and an identity provider may have a user with that name.
    """
    if not _USER.fullmatch(name):
        return False
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return False
    if entry.pw_uid < settings.first_number or PurePath(entry.pw_shell).name in NO_SHELLS:
        return False
    return not settings.groups or bool(set(groups_of(entry)) & set(settings.groups))


def _clean_environment(entry: pwd.struct_passwd) -> dict[str, str]:
    """Return a clean environment without variables of the hub."""
    person = {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell}
    return {"PATH": PATHS, "LANG": "C.UTF-8", **person}


def _person(settings: Settings) -> pwd.struct_passwd:
    """Return the passwd entry of the calling user.

    Raises:
        RequestError: the user may not use the portal.
    """
    entry = pwd.getpwuid(os.getuid())
    if not is_allowed(entry.pw_name, settings):
        message = f"{entry.pw_name}: this user may not use the portal"
        raise RequestError(message)
    return entry


def _run_command(
    command: list[str], entry: pwd.struct_passwd, text: str = "", more: Mapping[str, str] | None = None
) -> str:
    """Run a Slurm command, with `more` in its environment, and return its output; invalid UTF-8 is replaced.

    Raises:
        RequestError: the command failed or timed out; the message is its error output.
    """
    try:
        done = subprocess.run(  # noqa: S603 - validated arguments of Slurm commands
            command,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=SECONDS,
            env=_clean_environment(entry) | dict(more or {}),
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise RequestError(str(exc)) from exc
    if done.returncode:
        message = done.stderr.strip() or f"{command[0]} exited with status {done.returncode}"
        raise RequestError(message)
    return done.stdout


def submit(request: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Submit a notebook job as the calling user.

    Raises:
        RequestError: the request is invalid, or Slurm rejects it.
    """
    entry = _person(settings)
    choice = parse_choice(request.get("choice", {}), settings.environments)
    text = script(
        settings.environments[choice.environment],
        request.get("variables", {}),
        request.get("files", {}),
        settings.start,
        settings.container_runtime,
    )
    folder = Path(entry.pw_dir, ".local", "state")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        message = f"{folder}: {exc.strerror}: the notebook's log cannot be written"
        raise RequestError(message) from exc
    # Each notebook overwrites the log, so that logs do not fill the home directory.
    output = _run_command(sbatch_command(choice, str(folder / "notebook.log"), entry.pw_dir), entry, text)
    number = output.strip().split(";")[0]
    if not number.isdigit():
        message = f"sbatch printed no job ID (found {output.strip()!r})"
        raise RequestError(message)
    return {"job": number}


def cancel(request: Mapping[str, Any], settings: Settings) -> dict[str, Any]:  # noqa: ARG001 - as the others
    """Cancel a notebook job; other jobs of the user are refused.

    Raises:
        RequestError: the request is invalid, or Slurm rejects it.
    """
    number = request.get("job")
    if not isinstance(number, str) or not re.fullmatch(r"[0-9]{1,12}", number):
        message = f"job: {number!r} is not a job ID"
        raise RequestError(message)
    _run_command(["scancel", f"--name={JOB_NAME}", number], pwd.getpwuid(os.getuid()))
    return {}


def history(request: Mapping[str, Any], settings: Settings) -> dict[str, Any]:  # noqa: ARG001 - as the others
    """Return the calling user's jobs that ended in the last days, with their usage.

    Raises:
        RequestError: the user may not use the portal, or Slurm does not answer.
        ValueError: the output of Slurm cannot be parsed.
    """
    entry = _person(settings)
    if not settings.accounting:
        return {"jobs": []}
    marks = fresh_marks()
    text = _run_command(ended_command(marks, entry.pw_name, settings.history_days), entry, more=TIMES)
    return {"jobs": parse_ended(text, marks)}


def query(request: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the notebooks, the queue, the partitions and nodes, or a user's accounts, as Slurm reports them.

    Raises:
        RequestError: the request names an unknown query, or Slurm does not answer.
        ValueError: the output of Slurm cannot be parsed.
    """
    entry, what = pwd.getpwuid(os.getuid()), request.get("what")
    if what == "jobs":
        return {"jobs": _run_command(JOBS, entry)}
    if what == "queue":
        marks = fresh_marks()
        return {"users": parse_queue(_run_command(queue_command(marks), entry, more=TIMES), marks)}
    if what == "cluster":
        return {"partitions": _run_command(PARTITIONS, entry), "nodes": _run_command(NODES, entry)}
    if what == "accounts" and _USER.fullmatch(str(request.get("user"))):
        command = ["sacctmgr", "-nP", "show", "user", request["user"], "withassoc", "format=Account,DefaultAccount"]
        return {"accounts": _run_command(command, entry) if settings.accounting else ""}
    message = f"what: {what!r} is not a known query"
    raise RequestError(message)


def login(request: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Verify a password and the account through PAM.

    With `account` instead of a password PAM checks only the account, for a user who is already logged in.

    Raises:
        PermissionError: PAM refuses the login, or the user may not use the portal.
    """
    import pamela  # noqa: PLC0415 - only this action needs it

    name, password = request.get("user"), request.get("password")
    again = request.get("account") is True
    if not isinstance(name, str) or (not again and (not isinstance(password, str) or "\0" in password)):
        raise PermissionError
    known = is_allowed(name, settings)
    try:
        # PAM also runs for unknown users, because an immediate answer would reveal which names exist.
        if not again:
            pamela.authenticate(name if known else "nobody", password, service=PAM_SERVICE, resetcred=0)
        pamela.check_account(name if known else "nobody", service=PAM_SERVICE)
    except pamela.PAMError as exc:
        raise PermissionError from exc
    if not known:
        raise PermissionError
    return {}


ACTIONS = {action.__name__: action for action in (cancel, history, login, query, submit)}


def run(action: Callable[[Mapping[str, Any], Settings], dict[str, Any]], settings: Path) -> int:
    """Handle one request and return the exit status: 0, `WRONG` for a refused login, `REFUSED` for other errors."""
    try:
        request = json.loads(sys.stdin.buffer.read(LARGEST_REQUEST))
        answer = action(request if isinstance(request, dict) else {}, read_settings(settings))
    except PermissionError:
        return WRONG
    except (RequestError, OSError, ValueError, KeyError, AttributeError, TypeError) as exc:
        sys.stderr.write(f"{exc}\n")
        return REFUSED
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(run(ACTIONS[sys.argv[1]], Path("/etc/busbar/portal.json")))
