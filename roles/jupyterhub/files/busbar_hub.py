"""JupyterHub classes of the portal: authentication, the notebook form, the spawner and the port handler.

The hub has no privileges. It runs five programs without arguments through sudo; see portal.py.
"""

from __future__ import annotations

import asyncio
import html
import json
import pwd
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.access.login_user import groups_of
from ansible_collections.busbar.cluster.plugins.module_utils.portal.answer_cache import CachedAnswer, UserAnswers
from ansible_collections.busbar.cluster.plugins.module_utils.portal.cluster_resources import (
    end_reason,
    parse_accounts,
    parse_jobs,
    parse_partitions,
    usable,
)
from ansible_collections.busbar.cluster.plugins.module_utils.portal.form import choices_from_form, page
from batchspawner import SlurmSpawner
from batchspawner.batchspawner import JobStatus
from jupyterhub.apihandlers import APIHandler, default_handlers
from jupyterhub.auth import Authenticator
from tornado import web
from traitlets import Dict, Integer, List, Unicode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ansible_collections.busbar.cluster.plugins.module_utils.portal.cluster_resources import Job

PROGRAMS = Path("/usr/local/libexec/busbar-portal")
JOBS_AGE, CLUSTER_AGE, ACCOUNTS_AGE = 5.0, 10.0, 60.0
# Maximum number of concurrent processes per program, so that a hanging program does not block the others.
AT_ONCE = 8
RUNNING: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))

# batchspawner's handler lets the holder of a notebook's token set any attribute of the spawner, including commands
# that the hub runs. NotebookHandler replaces it and accepts only a port.
default_handlers[:] = [entry for entry in default_handlers if entry[0] != r"/api/batchspawner"]


class RefusedError(RuntimeError):
    """A program rejected the request; the message is shown to the user."""


async def run_as_user(program: str, request: dict[str, Any], user: str) -> dict[str, Any]:
    """Run a program as a user and return its answer.

    Raises:
        PermissionError: the login is refused.
        RefusedError: the program rejected the request; the message is its error.
    """
    async with RUNNING[program]:
        process = await asyncio.create_subprocess_exec(
            "sudo",
            "-n",
            "-u",
            user,
            "--",
            str(PROGRAMS / program),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(json.dumps(request).encode())
    if process.returncode == 1 and program == "login":
        raise PermissionError
    if process.returncode:
        raise RefusedError(err.decode(errors="replace").strip() or f"{program} exited with status {process.returncode}")
    return json.loads(out)


async def notebooks() -> dict[str, Job]:
    """Return the notebook jobs of all users by job ID."""
    return parse_jobs((await run_as_user("query", {"what": "jobs"}, "slurm"))["jobs"])


# One cached query serves the notebooks of all users.
JOBS = CachedAnswer(notebooks, JOBS_AGE)
ACCOUNTS = UserAnswers(lambda user: run_as_user("query", {"what": "accounts", "user": user}, "slurm"), ACCOUNTS_AGE)
CLUSTER = CachedAnswer(lambda: run_as_user("query", {"what": "cluster"}, "slurm"), CLUSTER_AGE)


class PortalAuthenticator(Authenticator):
    """Authenticates users through PAM."""

    async def authenticate(self, handler: object, data: dict[str, str]) -> str | None:  # noqa: ARG002
        """Return the name of the user, or None if PAM refuses the login."""
        request = {"user": data.get("username", ""), "password": data.get("password", "")}
        try:
            await run_as_user("login", request, "root")
        except PermissionError:
            self.log.warning("login of %r refused", request["user"][:64])
            return None
        return request["user"]

    async def refresh_user(self, user: Any, handler: object = None) -> bool:  # noqa: ANN401, ARG002 - JupyterHub's
        """Return whether a logged-in user may still log in; the account may have been locked or removed."""
        try:
            await run_as_user("login", {"user": user.name, "account": True}, "root")
        except PermissionError:
            self.log.warning("%s may no longer log in", user.name)
            return False
        except RefusedError as exc:
            self.log.warning("cannot check %s with PAM: %s", user.name, exc)
        return True

    def normalize_username(self, username: str) -> str:
        """Return the name unchanged, because Linux user names are case-sensitive."""
        return username


class NotebookHandler(APIHandler):
    """Accepts the port of a started notebook once, and returns the certificate for its node."""

    @web.authenticated
    async def post(self) -> None:
        """Set the port of the notebook that owns the token."""
        token, user = self.get_auth_token(), self.current_user
        spawners = getattr(user, "spawners", {}).values()
        spawner = next((one for one in spawners if token and one.api_token == token), None)
        if not isinstance(spawner, NotebookSpawner) or not spawner.is_waiting_for_port:
            raise web.HTTPError(403, "your notebook is not waiting for a port")
        data = self.get_json_body()
        first, last = spawner.ports
        port = data.get("port") if isinstance(data, dict) and set(data) == {"port"} else None
        if type(port) is not int or not first <= port <= last:
            raise web.HTTPError(400, f"port: expected only a number from {first} to {last}")
        self.finish(json.dumps(await spawner.confirm_port(port)))


default_handlers.append((r"/api/busbar/notebook", NotebookHandler))


class NotebookSpawner(SlurmSpawner):
    """Runs a notebook as a Slurm job."""

    ports = List(Integer(), help="First and last port of notebooks on the nodes").tag(config=True)
    environments = Dict(help="Titles of the environments by name").tag(config=True)
    most_minutes = Integer(help="Maximum time in the form, in minutes").tag(config=True)
    start_minutes = Integer(help="Default time in the form, in minutes").tag(config=True)
    cpus = Integer(2, help="Default number of CPUs in the form").tag(config=True)
    memory_gib = Integer(0, help="Default memory in the form, in GiB").tag(config=True)
    offered = List(Unicode(), help="Offered partitions; empty for all").tag(config=True)
    ended = Unicode("", help="Why the last notebook ended")
    is_waiting_for_port = False

    # Options of a notebook

    def _options_form_default(self) -> str:
        # JupyterHub calls get_options_form only if this is not empty.
        return "form"

    async def get_options_form(self) -> str:
        """Return the HTML form with the resources that are free now."""
        try:
            view = await CLUSTER.get()
            accounts = parse_accounts((await ACCOUNTS.get(self.user.name))["accounts"])
            found = usable(
                parse_partitions(view["partitions"], view["nodes"]), groups_of(pwd.getpwnam(self.user.name)), accounts
            )
        except (RefusedError, ValueError) as exc:
            self.log.warning("Slurm does not answer: %s", exc)
            return f"<p class='alert alert-danger'>Slurm does not answer: {html.escape(str(exc))}</p>"
        partitions = [one for one in found if not self.offered or one.name in self.offered]
        return page(
            partitions,
            accounts,
            self.environments,
            proposed={"minutes": self.start_minutes, "cpus": self.cpus, "memory_gib": self.memory_gib},
            most_minutes=self.most_minutes,
            ended=self.ended,
        )

    def options_from_form(self, form: dict[str, list[str]]) -> dict[str, Any]:
        """Return the submitted form as a request."""
        return choices_from_form(form, self.most_minutes)

    # Life cycle of the job

    async def submit_batch_script(self) -> str:
        """Submit the job and return its ID."""
        environment = self.get_env()
        files = self.files()
        self.is_waiting_for_port, self.ended = True, ""
        request = {"choice": self.user_options, "variables": environment, "files": files}
        try:
            self.job_id = (await run_as_user("submit", request, self.user.name))["job"]
        except RefusedError as exc:
            self.job_id = ""
            raise shown(exc, "Slurm rejected the job") from exc
        JOBS.forget()
        self.log.info("notebook of %s is job %s", self.user.name, self.job_id)
        return self.job_id

    async def confirm_port(self, port: int) -> dict[str, str]:
        """Set the port, issue a certificate for the job's node, and return files()."""
        JOBS.forget()
        await self.query_job_status()
        node = self.state_gethost()
        if not node:
            raise web.HTTPError(409, "Slurm does not report the node of the job; try again")
        self.is_waiting_for_port = False
        self.ssl_alt_names = [f"DNS:{node}"]
        self.cert_paths = await self.create_certs()
        self.port = port
        return self.files()

    def files(self) -> dict[str, str]:
        """Return the notebook's certificate authority, certificate and key in PEM format."""
        return {name: Path(self.cert_paths[f"{key}file"]).read_text() for name, key in _FILES.items()}

    async def move_certs(self, paths: dict[str, str]) -> dict[str, str]:
        """Return the paths unchanged, because the job carries the files."""
        return paths

    async def query_job_status(self) -> JobStatus:
        """Return the state of the job; UNKNOWN if Slurm does not answer, so that JupyterHub keeps the notebook."""
        if not self.job_id:
            return JobStatus.NOTFOUND
        try:
            job = (await JOBS.get()).get(self.job_id)
        except (RefusedError, ValueError) as exc:
            self.log.warning("squeue does not answer; notebooks are assumed to run: %s", exc)
            return JobStatus.UNKNOWN
        self.job_status = f"{job.state} {job.node}" if job else ""
        if job and job.is_running:
            return JobStatus.RUNNING
        if job and job.is_pending:
            return JobStatus.PENDING
        self.ended = end_reason(job)
        return JobStatus.NOTFOUND

    def state_gethost(self) -> str:
        """Return the node of the job."""
        return self.job_status.partition(" ")[2]

    async def cancel_batch_job(self) -> None:
        """Cancel the job; a job that has already ended is not an error."""
        self.is_waiting_for_port = False
        if not self.job_id:
            return
        try:
            await run_as_user("cancel", {"job": self.job_id}, self.user.name)
        except RefusedError as exc:
            self.log.warning("scancel %s: %s", self.job_id, exc)
        JOBS.forget()

    async def start(self) -> tuple[str, int]:
        """Submit the job and wait for the port of the notebook; raise an error with the reason if the job ends."""
        try:
            return await super().start()
        except RuntimeError as exc:
            if hasattr(exc, "jupyterhub_message"):
                raise
            raise shown(self.ended, "The job of the notebook ended") from exc
        finally:
            self.is_waiting_for_port = False

    async def progress(self) -> AsyncIterator[dict[str, str]]:
        """Yield the messages of the progress page."""
        shown = ""
        while True:
            try:
                job = (await JOBS.get()).get(self.job_id or "")
            except (RefusedError, ValueError):
                job = None
            if job and job.is_pending:
                text = f"Job {self.job_id} is pending: {job.reason}"
            elif job and job.is_running:
                text = f"Job {self.job_id} runs on {job.node}; the notebook starts"
            else:
                text = "The job was submitted"
            if text != shown:
                shown = text
                yield {"message": text}
            await asyncio.sleep(1)

    def get_state(self) -> dict[str, Any]:
        """Return the state that survives a restart of the hub."""
        return super().get_state() | {"ended": self.ended}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the state after a restart of the hub."""
        super().load_state(state)
        self.ended = state.get("ended", "")


_FILES = {"authority": "ca", "certificate": "cert", "key": "key"}


def shown(why: object, what: str) -> RuntimeError:
    """Return an error whose message JupyterHub shows to the user."""
    error = RuntimeError(f"{what}: {why}")
    error.jupyterhub_message = str(error)  # type: ignore[attr-defined]
    return error
