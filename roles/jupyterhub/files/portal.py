"""What the hub, which has no rights, runs by sudo: five commands, each of which names its action to this program.

Each reads one request of JSON from its standard input and belongs to root: `submit` and `cancel` run as the user whose
notebook it is, `history` as the user whose jobs it lists, `query` as Slurm's user, so that it sees the jobs of all
where a site hides them, and `login` as root, for PAM tells nobody else whether a password is right.
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
from ansible_collections.busbar.cluster.plugins.module_utils.portal.cluster_view import JOBS, NODES, PARTITIONS
from ansible_collections.busbar.cluster.plugins.module_utils.portal.my_jobs import (
    ended_command,
    parse_ended,
    parse_queue,
    queue_command,
)
from ansible_collections.busbar.cluster.plugins.module_utils.portal.notebook_job import (
    JOB_NAME,
    Environment,
    RequestError,
    parse_choice,
    sbatch_command,
    script,
)
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.node_history import TIMES
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.queue import fresh_marks

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
    """What the site declares: `/etc/busbar/portal.json`."""

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
        OSError, ValueError, KeyError: they cannot be read; the role writes them.
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


def may_enter(name: str, settings: Settings) -> bool:
    """Say whether the portal is for this user: a person, and in one of the groups where some are declared.

    A person has a number that is high enough, and a shell: services such as `slurm`, whose user administers Slurm, may
    have the one, and an identity provider may know somebody of that name.
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


def _clean(entry: pwd.struct_passwd) -> dict[str, str]:
    """The environment of a command: nothing of the hub's."""
    person = {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell}
    return {"PATH": PATHS, "LANG": "C.UTF-8", **person}


def _person(settings: Settings) -> pwd.struct_passwd:
    """Return who runs this.

    Raises:
        RequestError: the portal is not for this user.
    """
    entry = pwd.getpwuid(os.getuid())
    if not may_enter(entry.pw_name, settings):
        message = f"{entry.pw_name}: the portal is not for this user"
        raise RequestError(message)
    return entry


def _ran(command: list[str], entry: pwd.struct_passwd, text: str = "", more: Mapping[str, str] | None = None) -> str:
    """Run a command of Slurm, with `more` in its environment; what is no UTF-8 is replaced.

    Raises:
        RequestError: it refused, or did not end; the message is what it said.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the words of sbatch and its like, each checked
            command,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=SECONDS,
            env=_clean(entry) | dict(more or {}),
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise RequestError(str(exc)) from exc
    if done.returncode:
        message = done.stderr.strip() or f"{command[0]} ended with exit status {done.returncode}"
        raise RequestError(message)
    return done.stdout


def submit(request: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Submit the job of a notebook, as who runs this.

    Raises:
        RequestError: the request or Slurm refuses it.
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
        message = f"{folder}: {exc.strerror}: the log of the notebook has no place"
        raise RequestError(message) from exc
    # The log is of the newest notebook alone, and so never fills the home.
    said = _ran(sbatch_command(choice, str(folder / "notebook.log"), entry.pw_dir), entry, text)
    number = said.strip().split(";")[0]
    if not number.isdigit():
        message = f"sbatch said {said.strip()!r}, and no number of a job"
        raise RequestError(message)
    return {"job": number}


def cancel(request: Mapping[str, Any], settings: Settings) -> dict[str, Any]:  # noqa: ARG001 - as the others
    """Cancel the job of a notebook; no other job of the user's.

    Raises:
        RequestError: the request or Slurm refuses it.
    """
    number = request.get("job")
    if not isinstance(number, str) or not re.fullmatch(r"[0-9]{1,12}", number):
        message = f"job: {number!r} is not the number of a job"
        raise RequestError(message)
    _ran(["scancel", f"--name={JOB_NAME}", number], pwd.getpwuid(os.getuid()))
    return {}


def history(request: Mapping[str, Any], settings: Settings) -> dict[str, Any]:  # noqa: ARG001 - as the others
    """Tell which jobs of who runs this have ended in the last days, with what they used.

    Raises:
        RequestError: the portal is not for this user, or Slurm does not answer.
        ValueError: its answer cannot be read.
    """
    entry = _person(settings)
    if not settings.accounting:
        return {"jobs": []}
    marks = fresh_marks()
    text = _ran(ended_command(marks, entry.pw_name, settings.history_days), entry, more=TIMES)
    return {"jobs": parse_ended(text, marks)}


def query(request: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Tell what Slurm says of notebooks, of the queue, of the partitions, or of a user's accounts.

    Raises:
        RequestError: the request is none of these, or Slurm does not answer.
        ValueError: its answer cannot be read.
    """
    entry, what = pwd.getpwuid(os.getuid()), request.get("what")
    if what == "jobs":
        return {"jobs": _ran(JOBS, entry)}
    if what == "queue":
        marks = fresh_marks()
        return {"users": parse_queue(_ran(queue_command(marks), entry, more=TIMES), marks)}
    if what == "cluster":
        return {"partitions": _ran(PARTITIONS, entry), "nodes": _ran(NODES, entry)}
    if what == "accounts" and _USER.fullmatch(str(request.get("user"))):
        asked = ["sacctmgr", "-nP", "show", "user", request["user"], "withassoc", "format=Account,DefaultAccount"]
        return {"accounts": _ran(asked, entry) if settings.accounting else ""}
    message = f"what: {what!r} is not a question of the portal"
    raise RequestError(message)


def login(request: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Ask PAM whether a password is right, and whether the account may log in.

    With `account` instead of a password the second alone, for somebody who has logged in before.

    Raises:
        PermissionError: it is not, or the portal is not for this user.
    """
    import pamela  # noqa: PLC0415 - this program alone runs where it is installed

    name, password = request.get("user"), request.get("password")
    again = request.get("account") is True
    if not isinstance(name, str) or (not again and (not isinstance(password, str) or "\0" in password)):
        raise PermissionError
    known = may_enter(name, settings)
    try:
        # Who is not known is asked for as well: an answer at once would tell which names there are.
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
    """Carry out one request; the exit status: 0, `WRONG` for a login that is refused, `REFUSED` for all else."""
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
