"""Runs a playbook through ansible-runner and writes one log."""

from __future__ import annotations

import configparser
import contextlib
import dataclasses
import io
import json
import os
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_folder import site_folder

from busbar.errors import UsageError
from busbar.paths import ansible_config, collections_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from busbar.run.events import Run

# Time for an interrupted validation to cancel its jobs and write its report.
_INTERRUPT_TIMEOUT_S = 45.0
# Prompts of ansible-playbook by option. ansible-runner enters the passwords at these prompts, so that they do not
# appear in arguments, the environment or files.
PROMPTS = {
    "ask_pass": r"^SSH password:\s*$",
    "ask_become_pass": r"^BECOME password.*:\s*$",
    "ask_vault_pass": r"^Vault password.*:\s*$",
}


@dataclasses.dataclass
class Playbook:
    """A playbook with its inventory and options.

    Attributes:
        path: the playbook.
        inventory: sources in the order of `-i`.
        options: further ansible-playbook options.
        passwords: answers by key of PROMPTS.
        command: the busbar command, shown to other users who try to run a playbook on the same inventory.
    """

    path: Path
    inventory: list[str]
    options: list[str]
    passwords: dict[str, str] = dataclasses.field(default_factory=dict, repr=False)
    command: str = ""


def open_log(folder: Path, command: str) -> Path:
    """Create an empty log that only its owner can read, and return its path.

    Raises:
        UsageError: the folder cannot be written.
    """
    stamp = time.strftime("%Y%m%dT%H%M%S")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"-{number}" for number in range(2, 100))):
            path = folder / f"{stamp}-{command}{suffix}.log"
            with contextlib.suppress(FileExistsError):
                path.touch(mode=0o600, exist_ok=False)
                return path
    except OSError as exc:
        message = f"the log cannot be written to {folder}: {exc.strerror}"
        raise UsageError(message) from exc
    message = f"the log cannot be written to {folder}: too many logs with the same time stamp"
    raise UsageError(message)


def environment(inventory: Sequence[str]) -> dict[str, str]:
    """Return the environment of ansible-playbook, independent of the current directory.

    Args:
        inventory: sources of the inventory; the site of the first one may have an ansible.cfg.
    """
    folders = [site_folder(source) for source in inventory[:1] if "," not in source]
    config = Path(os.environ.get("ANSIBLE_CONFIG") or ansible_config(folders))
    return {**_environment(config), "ANSIBLE_CONFIG": str(config)}


def _environment(config: Path) -> dict[str, str]:
    return {
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
        "ANSIBLE_SHOW_CUSTOM_STATS": "0",
        # Fail on an inventory that can be parsed only partially.
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
        # ansible-runner disables host key checking by default.
        "ANSIBLE_HOST_KEY_CHECKING": os.environ.get("ANSIBLE_HOST_KEY_CHECKING", "True"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        # The collection of this command has priority.
        "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join([str(collections_root()), *_collections_paths(config)]),
    }


def _collections_paths(config: Path) -> list[str]:
    """Return the additional folders of collections: the user's setting or Ansible's default."""
    if given := os.environ.get("ANSIBLE_COLLECTIONS_PATH"):
        return given.split(os.pathsep)
    parsed = configparser.ConfigParser(interpolation=None)
    # Ignore errors in ansible.cfg; ansible-playbook reports them.
    with contextlib.suppress(configparser.Error, OSError, UnicodeDecodeError):
        parsed.read(config, encoding="utf-8")
    named = parsed.get("defaults", "collections_path", fallback="~/.ansible/collections:/usr/share/ansible/collections")
    return [str(config.parent / Path(each).expanduser()) for each in named.split(os.pathsep)]


def hosts_counter(playbook: Playbook) -> Callable[[str], int]:
    """Return a function that counts the hosts that match a pattern, or returns 0 if the inventory is unreadable."""
    known: list[Any] = []

    def count(pattern: str) -> int:
        try:
            # Suppress messages about the inventory; ansible-playbook prints them too.
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                if not known:
                    known.append(_inventory(playbook)[0])
                return len(known[0].get_hosts(pattern))
        except Exception:  # noqa: BLE001 - the number is only displayed; the run itself reports errors
            return 0

    return count


def inventory_hosts(playbook: Playbook, pattern: str) -> list[str]:
    """Return the names of the hosts that match a pattern, in the inventory's order.

    Raises:
        UsageError: the inventory cannot be read.
    """
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            return [str(host) for host in _inventory(playbook)[0].get_hosts(pattern)]
    except Exception as exc:
        message = f"the inventory cannot be read: {' '.join(str(exc).split())[:300]}"
        raise UsageError(message) from exc


def absent_hosts(playbook: Playbook, names: Sequence[str], group: str) -> tuple[list[str], list[str]]:
    """Return the names that match no host of a group, and all hosts of the group.

    Raises:
        UsageError: the inventory cannot be read.
    """
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            inventory = _inventory(playbook)[0]
            known = {str(host) for host in inventory.get_hosts(group)}
            absent = [name for name in names if known.isdisjoint(map(str, inventory.get_hosts(name)))]
    except Exception as exc:
        message = f"the inventory cannot be read: {' '.join(str(exc).split())[:300]}"
        raise UsageError(message) from exc
    return absent, sorted(known)


def host_variables(playbook: Playbook) -> dict[str, dict[str, Any]]:
    """Return the unevaluated inventory variables of each host, including group variables.

    The result is empty if the inventory cannot be read: the playbook reports the reason.
    """
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            inventory, loader = _inventory(playbook)
            from ansible.vars.manager import VariableManager  # noqa: PLC0415

            known = VariableManager(loader=loader, inventory=inventory)
            return {
                str(host): dict(known.get_vars(host=host, include_hostvars=False))
                for host in inventory.get_hosts("all")
            }
    except Exception:  # noqa: BLE001 - the Ansible run reports any error
        return {}


def _inventory(playbook: Playbook) -> tuple[Any, Any]:
    """Return Ansible's inventory with the limit of the run, and its loader."""
    os.environ.update(environment(playbook.inventory))
    from ansible.inventory.manager import InventoryManager  # noqa: PLC0415 - slow, and reads ansible.cfg when imported
    from ansible.parsing.dataloader import DataLoader  # noqa: PLC0415

    loader = DataLoader()
    # Use variables next to the playbook, not those in the current folder.
    loader.set_basedir(str(playbook.path.parent))
    inventory = InventoryManager(loader=loader, sources=playbook.inventory)
    for option, value in zip(playbook.options, playbook.options[1:]):
        if option in {"-l", "--limit"}:
            inventory.subset(value)
    return inventory, loader


def run_playbook(playbook: Playbook, run: Run, log: Path) -> tuple[int, bool]:
    """Run a playbook and return its exit code and whether the user interrupted it.

    Args:
        playbook: the playbook.
        run: receives every event.
        log: receives the complete output.
    """
    import ansible_runner  # noqa: PLC0415 - slow, and most commands do not need it

    with (
        log.open("ab", buffering=0) as stream,
        _interruptible(run) as cancelled,
        tempfile.TemporaryDirectory(prefix="busbar-") as private,
    ):

        def take(event: dict[str, Any]) -> bool:
            _write_event(stream, run, event)
            run.handle(event)
            return False  # so that ansible-runner stores no copy

        def poll() -> bool:
            run.tick()
            return cancelled()

        # ansible-runner reads these settings only from a file.
        settings = Path(private) / "env" / "settings"
        settings.parent.mkdir(mode=0o700)
        settings.write_text(json.dumps({"suppress_output_file": True, "pexpect_timeout": 1}), encoding="utf-8")
        sources = [part for source in playbook.inventory for part in ("-i", source)]
        result = ansible_runner.run(
            private_data_dir=private,
            project_dir=str(Path.cwd()),
            playbook=str(playbook.path),
            cmdline=shlex.join([*sources, *playbook.options]),
            passwords={PROMPTS[key]: value for key, value in playbook.passwords.items()},
            envvars=environment(playbook.inventory)
            | ({"BUSBAR_COMMAND": playbook.command} if playbook.command else {}),
            event_handler=take,
            cancel_callback=poll,
            fact_cache_type="memory",
            suppress_env_files=True,
            quiet=True,
        )
    run.close()
    return int(result.rc if result.rc is not None else 1), cancelled.requested


def _write_event(stream: io.FileIO, run: Run, event: dict[str, Any]) -> None:
    """Write the output of an event to a log."""
    # An event may end between the characters of a line break.
    text = printable(str(event.get("stdout") or "").rstrip("\r\n"))
    try:
        stream.write(f"{text}\n".encode() if text else b"")
    except OSError as exc:
        # A full disk on the provisioning host must not interrupt the run.
        run.log_problem = exc.strerror or str(exc)


class _Cancel:
    """Stops the playbook: the first signal interrupts it, a second signal or a timeout kills it."""

    def __init__(self, pid: Callable[[], int | None]) -> None:
        """Store a function that returns the process ID of the playbook, or None before it starts."""
        self._pid = pid
        self._since: float | None = None
        self._again = False

    @property
    def requested(self) -> bool:
        """Whether the user interrupted the run."""
        return self._since is not None

    def ask(self, number: int, frame: object) -> None:
        """Handle a signal: interrupt the playbook at the first one, terminate it at the second."""
        del number, frame
        if self._since is not None:
            self._again = True
            return
        self._since = time.monotonic()
        if (pid := self._pid()) is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(os.getpgid(pid), signal.SIGINT)

    def __call__(self) -> bool:
        """Return whether ansible-runner must kill the playbook now."""
        if self._since is None:
            return False
        return self._again or self._pid() is None or time.monotonic() - self._since > _INTERRUPT_TIMEOUT_S


@contextlib.contextmanager
def _interruptible(run: Run) -> Iterator[_Cancel]:
    """Handle SIGINT and SIGTERM for the playbook, and restore the handlers afterwards."""
    cancel = _Cancel(lambda: run.pid)
    before = {number: signal.signal(number, cancel.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield cancel
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
