"""Action plugin of `busbar.cluster.validation`: runs a validation from the provisioning host.

The task is delegated to the controller, which submits and monitors the jobs. Outputs are fetched over separate
connections from the nodes that store them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import become_loader, connection_loader, get_shell_plugin
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars

from ..module_utils.common.problems import REFUSED, one_line
from ..plugin_utils.common.near_names import near_name
from ..plugin_utils.engine.common.option_names_in_messages import option_names
from ..plugin_utils.engine.common.printable import printable
from ..plugin_utils.engine.nccl.parse_output import bounded_lines, condensed
from ..plugin_utils.engine.validation.check_options import all_problems, typed
from ..plugin_utils.engine.validation.cluster_access import TOO_LONG, Output
from ..plugin_utils.engine.validation.option_types import bytes_of
from ..plugin_utils.engine.validation.partition_choice import queues
from ..plugin_utils.engine.validation.planned_tests import unknown_floors
from ..plugin_utils.interruption import Interruption
from ..plugin_utils.node_outputs import Bounds, Wanted, fetch
from ..plugin_utils.preflight.options import Setting, unknown_problems
from ..plugin_utils.report_folder import point_to, unwritable
from ..plugin_utils.site_variables import SITE_VARIABLES, declared_options, family_names
from ..plugin_utils.slurm.job_launch_errors import launch_error, launch_log_script
from ..plugin_utils.validation_run import free_folder, run_validation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

SPEC = {
    "options": {"type": "dict", "required": True},
    "reports_dir": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["checked", "done"], "default": "done"},
    "share": {"type": "bool", "default": False},
    "home": {"type": "path", "default": "/nonexistent"},
    "output_limit": {"type": "str", "default": "1G"},
}
# `busbar validate` shows lines with this prefix immediately.
PROGRESS_LABEL = "VALIDATION"
_PREFIX = "validation_"
_LONGEST = 600
# Maximum number of characters of an output without repeated lines. The longest tables and rank lists have about 10 MB.
_MOST_KEPT = 1 << 26
_BEGINS = "# busbar test: "


class NodeConnection:
    """A connection to a host, with privilege escalation if its variables or the task require it."""

    def __init__(self, connection: Any, context: Any) -> None:  # noqa: ANN401 - Ansible is untyped
        """Store the connection plugin and the play context of the host."""
        self._connection = connection
        self._context = context

    # Cached, because a local connection reports its user only after the first command, which would change the result.
    @functools.cached_property
    def _becomes(self) -> bool:
        """Return whether commands run as a different user than the login user; root does not become root."""
        if not self._connection.become:
            return False
        user = self._context.remote_user
        with contextlib.suppress(KeyError):
            user = self._connection.get_option("remote_user") or user
        other = self._connection.become.get_option("become_user")
        return constants.BECOME_ALLOW_SAME_USER or user != other or not (user or other)

    def run(self, script: str) -> tuple[int, bytes, bytes]:
        """Run a shell script; return its exit code, stdout and stderr.

        Raises:
            AnsibleError: if the host is unreachable.
        """
        connection, command, executable = self._connection, "/bin/sh", self._context.executable or "/bin/sh"
        if self._becomes:
            command = connection.become.build_become_command(command, get_shell_plugin(executable=executable))
        if connection.allow_executable:
            command = f"{executable} -c {shlex.quote(command)}"
        # With input, Ansible requests no terminal, which would change bytes and merge stderr into stdout.
        code, out, err = connection.exec_command(command, in_data=script.encode(), sudoable=True)
        return int(code or 0), bytes(out), bytes(err)


class NodeConnections:
    """Creates connections to inventory hosts from the context of an action."""

    def __init__(self, task: Any, play_context: Any, hostvars: Mapping[str, Any]) -> None:  # noqa: ANN401 - see above
        """Store the action's task and play context, and the variables of all hosts."""
        self._task = task
        self._play_context = play_context
        self._hostvars = hostvars

    def to(self, host: str) -> NodeConnection:
        """Return an unopened connection to a host.

        Raises:
            AnsibleError: if its variables name no valid connection or cannot be templated.
        """
        variables = self._hostvars[host]
        context = self._play_context.copy()
        context.remote_addr = variables.get("ansible_host") or host
        name = variables.get("ansible_connection") or self._task.connection or constants.DEFAULT_TRANSPORT
        connection = connection_loader.get(name, context, ansible_playbook_pid=str(os.getppid()))
        keys = {**self._task.dump_attrs(), "timeout": context.timeout}
        keys.pop("retries", None)
        # Passwords from the command line apply to all hosts, but those from variables of the action's host do not.
        mine = self._hostvars.get(self._task.delegate_to or "", {})
        for key in ("password", "become_pass"):
            typed = getattr(context, key, None)
            if typed and not any(variable in mine for variable in constants.MAGIC_VARIABLE_MAPPING[key]):
                keys[key] = typed
        wanted = variables.get("ansible_become")
        if boolean(self._task.become if wanted is None else wanted, strict=False):
            method = variables.get("ansible_become_method") or self._task.become_method or "sudo"
            connection.set_become_plugin(become_loader.get(method))
        for plugin in filter(None, (connection, connection.become)):
            plugin.set_options(task_keys=keys, var_options=variables)
        return NodeConnection(connection, context)


def problems_of(arguments: dict[str, Any]) -> list[str]:
    """Return the problems with a validation's arguments, each with its remedy."""
    problems = all_problems(arguments["options"])
    try:
        bytes_of(arguments["output_limit"])
    except ValueError as exc:
        problems.append(f"validation_output_limit: {exc}")
    unkept = unwritable(Path(arguments["reports_dir"]))
    return [
        *problems,
        *([f"validation_reports_dir: {unkept}. Set a folder in which this user can write"] if unkept else []),
    ]


def unknown_options(given: Mapping[str, object], allowed: str | Sequence[str]) -> list[str]:
    """Return the variables of the command line that are misspelt options of a validation, each with its remedy.

    The preflight checks those of the inventory.

    Args:
        given: the variables given with `-e`.
        allowed: `preflight_allowed_variables`.
    """
    known = [name for name in declared_options() if name.startswith(_PREFIX)]
    meant = [
        Setting(name, value, "-e")
        for name, value in given.items()
        if name.startswith(_PREFIX) or near_name(name, known)
    ]
    permitted = allowed.split(",") if isinstance(allowed, str) else allowed
    found = unknown_problems(meant, {*declared_options(), *SITE_VARIABLES}, family_names(), permitted)
    return [f"{one_line(problem)}: {problem['remedy']}" for problem in found]


class AnsibleTransport:
    """Runs modules on the controller and fetches files from the nodes."""

    def __init__(
        self,
        execute: Callable[..., dict[str, Any]],
        nodes: NodeConnections,
        folder: Path,
        controller: str,
        arguments: Mapping[str, Any],
    ) -> None:
        """Store the function that runs modules on the controller, the node connections, and the arguments."""
        self._execute = execute
        self._nodes = nodes
        self._folder = folder
        self._limit = arguments["output_limit"]
        self.controller = controller
        self.share: bool = arguments["share"]
        self.home: str = arguments["home"]
        self._user = ""
        self.interruption = Interruption()

    def module(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run a module on the controller; on an error, return a result with only `msg`."""
        given = {key: value for key, value in arguments.items() if value is not None}
        try:
            return dict(self._execute(module_name=name, module_args=given))
        except AnsibleError as exc:
            return {"msg": " ".join(str(exc).split())}

    def request(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run the slurm_tests module on the controller."""
        if not self.interruption.why:
            self.interruption.look()
        self._user = str(arguments["user"])
        return self.module("busbar.cluster.slurm_tests", arguments)

    def fetch(self, outputs: list[Output], seconds: float) -> dict[str, str]:
        """Save outputs as files and remove them on their nodes; return the errors by output name."""
        strange = next((output.name for output in outputs if Path(output.name).name != output.name), None)
        if strange is not None:
            message = f"{strange!r} is not a file name"
            raise ValueError(message)
        try:
            self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as exc:
            return {output.name: f"{self._folder}: {exc.strerror or exc}" for output in outputs}
        wanted = [Wanted(output.host, output.path, self._folder / output.name) for output in outputs]
        bounds = Bounds(bytes_of(self._limit), seconds)
        too_long = f"{TOO_LONG}{self._limit} (validation_output_limit)"
        found = fetch(wanted, self._nodes.to, self._user, bounds, too_long)
        return {path.name: problem for path, problem in found.items()}

    def launch_error(self, host: str, job_id: str) -> str:
        """Return why slurmd on a host could not launch a job, or '' if its log has no such error."""
        try:
            _code, out, _err = self._nodes.to(host).run(launch_log_script(job_id))
        except (AnsibleError, LookupError):
            return ""
        return launch_error(out.decode(errors="replace"))

    def read(self, name: str) -> str:
        """Return the text of a saved output, without NCCL's repeated lines."""
        # Program output may not be valid UTF-8.
        with (self._folder / name).open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            return condensed(bounded_lines(file), lambda line: line.startswith(_BEGINS), _MOST_KEPT).rstrip("\r\n")

    def update_node(self, node: str, *words: str) -> str:
        """Update a node in Slurm; return the error, or '' on success."""
        result = self.module("ansible.legacy.command", {"argv": ["scontrol", "update", f"nodename={node}", *words]})
        if result.get("rc") == 0:
            return ""
        return str(result.get("stderr") or result.get("msg") or "the controller did not answer").strip()

    def report_progress(self, line: str) -> None:
        """Show a line; do nothing after an interruption, because the parent process no longer reads the output."""
        if not self.interruption.why:
            Display().display(f"{PROGRESS_LABEL} {printable(' '.join(line.split()))[:_LONGEST]}")

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Sleep for some seconds."""
        time.sleep(seconds)

    def uninterrupted(self) -> AbstractContextManager[None]:
        """Defer an interruption to the end of the block."""
        return self.interruption.uninterrupted()


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Runs a validation, and keeps its outputs and report even if it fails."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the verdict and the path of the report."""
        with option_names("validation_{}".format):
            return self._run(tmp, task_vars)

    def _run(self, tmp: None, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        result = dict(super().run(tmp, task_vars)) | {"changed": False}
        _checked, arguments = self.validate_argument_spec(SPEC)
        if arguments["state"] == "checked":
            known = task_vars or {}
            allowed = self._templar.template(known.get("preflight_allowed_variables", ""))
            problems = unknown_options(load_extra_vars(self._loader), allowed)
            problems += problems_of(arguments)
            if problems:
                return result | {"failed": True, "msg": "\n".join(problems), REFUSED: True}
            options = typed(arguments["options"])
            return result | {"advice": unknown_floors(options), "queues": queues(options)}
        if self._task.check_mode:
            return result | {"skipped": True, "msg": "tests do not run in check mode"}
        return result | self._validated(arguments, task_vars or {})

    def _validated(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        options = dict(arguments["options"])
        folder = free_folder(Path(arguments["reports_dir"]), options["started"].replace("-", "").replace(":", ""))
        execute = functools.partial(self._execute_module, task_vars=task_vars)
        nodes = NodeConnections(self._task, self._play_context, task_vars["hostvars"])
        controller = str(self._task.delegate_to or task_vars.get("inventory_hostname"))
        transport = AnsibleTransport(execute, nodes, folder, controller, arguments)
        done = run_validation(options, transport, folder)
        if done["folder"]:
            done["link_problem"] = point_to(folder)
        if transport.interruption.why:
            # After Ctrl-C, ansible-playbook no longer reads results; one larger than 64 KiB would block this worker.
            self._task.args = {}
            done["metrics"] = ""
        return done
