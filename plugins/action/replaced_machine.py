"""Action plugin of `busbar.cluster.replaced_machine`: detects that a node's hardware was replaced."""

from __future__ import annotations

import base64
import binascii
import getpass
import hashlib
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils.common.problems import REFUSED
from ..plugin_utils.access.ssh_key_ledger import current_keys, former_keys
from ..plugin_utils.common.node_answer import short_message
from ..plugin_utils.engine.report.environment import numbered_parts
from ..plugin_utils.node_records import add_node_record, read_node_records
from ..plugin_utils.nodes.dossier import read_records, seconds
from ..plugin_utils.nodes.machine_identity import ADMITTED, change_of, compared, known_parts
from ..plugin_utils.ssh_ledger import read_ledger

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

SPEC: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["compared", "noted", "admitted"], "default": "compared"},
    "reports_dir": {"type": "path", "required": True},
    "secrets_dir": {"type": "path", "required": True},
    "known_hosts": {"type": "path", "required": True},
    "names": {"type": "list", "elements": "str", "default": []},
    "port": {"type": "int", "default": 22},
    "fingerprints": {"type": "list", "elements": "str", "default": []},
    "allow_same": {"type": "bool", "default": False},
}
_MOST_REPORTS = 50
_COMPARE = "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the machine's own console"
TIMEOUT_S = 15
_FIELDS = 3


def fingerprint(key: str) -> str:
    """Return the fingerprint of a public key, as printed by `ssh-keygen -lf`; '' for an invalid key."""
    try:
        blob = base64.b64decode(key.split()[1], validate=True)
    except (IndexError, binascii.Error):
        return ""
    return f"SHA256:{base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip('=')}"


def scan_keys(address: str, port: int) -> list[str]:
    """Return the host keys that ssh-keyscan finds, each as type and key; empty if the host does not answer."""
    command = ["ssh-keyscan", "-T", str(TIMEOUT_S), "-p", str(port), "-t", "ed25519,ecdsa,rsa", "--", address]
    try:
        output = subprocess.run(command, check=False, capture_output=True, text=True, timeout=3 * TIMEOUT_S).stdout  # noqa: S603 - fixed arguments
    except (OSError, subprocess.SubprocessError):
        return []
    lines = [line.split() for line in output.splitlines() if not line.startswith("#")]
    return [" ".join(words[1:]) for words in lines if len(words) == _FIELDS]


def trust_keys(path: Path, names: Sequence[str], port: int, keys: Collection[str]) -> None:
    """Replace the keys of a host in a known_hosts file; lines with a marker (@) and comments are kept.

    Raises:
        OSError: if the file cannot be written.
    """
    known_as = [name if port == 22 else f"[{name}]:{port}" for name in names]  # noqa: PLR2004 - the SSH port
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in old if line[:1] in "#@" or not set(line.split(" ")[0].split(",")) & set(known_as)]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in [*kept, *(f"{','.join(known_as)} {key}" for key in keys)])
    os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o644)  # noqa: PTH101
    os.replace(name, path)  # noqa: PTH105


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Compares the current machine of a node with the previous one, or records the replacement."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the detected event, the written record, or the reason why the machine is rejected."""
        result = dict(super().run(tmp, task_vars)) | {"changed": False}
        _checked, arguments = self.validate_argument_spec(SPEC)
        known = task_vars or {}
        node = str(known["inventory_hostname"])
        if arguments["state"] == "compared":
            return result | self._compared(node, arguments, known)
        found = known.get("__replaced_machine") or {}
        record = {"at": int(time.time()), "node": node, "by": getpass.getuser()}
        if arguments["state"] == "noted":
            if not found.get("event"):
                return result
            record |= {"event": found["event"], **found["record"]}
        else:
            record |= {"event": ADMITTED, **{key: found.get("record", {}).get(key, "") for key in ("host_key",)}}
        if not self._task.check_mode:
            try:
                add_node_record(Path(arguments["reports_dir"]), record)
            except OSError as exc:
                return result | {"failed": True, "msg": f"{node}: cannot write the replacement record: {exc}"}
        return result | {"changed": True, "record": record}

    def _compared(self, node: str, arguments: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
        refused = {"failed": True, REFUSED: True}
        try:
            ledger = read_ledger(Path(arguments["secrets_dir"]))
        except ValueError as exc:
            return {"failed": True, "msg": str(exc)}
        address = str(self._play_context.remote_addr or node)
        vouched = self._vouched(address, arguments, former_keys(ledger))
        if vouched.get("msg"):
            return refused | {"msg": f"{node}: {vouched['msg']}"}
        # An open multiplexed SSH connection would still use the previous machine.
        self._connection.reset()
        answer = self._machine(known)
        if "record" not in answer:
            return refused | {"msg": f"{node}: {self._unreached(address, answer, arguments)}"}
        machine = answer["record"]
        records, _damaged = read_records(read_node_records(Path(arguments["reports_dir"])))
        before, after, same = compared(
            known_parts(node, records) or _reported(node, Path(arguments["reports_dir"])), machine["parts"]
        )
        change = change_of(
            node,
            machine["host_key"],
            known=current_keys(ledger),
            former=former_keys(ledger),
            records=records,
            same_serial=same,
            allow_same=arguments["allow_same"],
        )
        if change.problem:
            number = f" (serial {after})" if after else ""
            return refused | {"msg": f"{node}{number}: {change.problem}. Remedy: {change.remedy}"}
        record = {
            "serial_before": before,
            "serial_after": after,
            "parts": machine["parts"],
            "host_key_before": current_keys(ledger).get(node, ""),
            "host_key": machine["host_key"],
        }
        return {"changed": bool(vouched.get("changed")), "event": change.event, "record": record}

    def _vouched(self, address: str, arguments: dict[str, Any], former: list[str]) -> dict[str, Any]:
        """Add the host keys with the given fingerprints to known_hosts; do nothing without fingerprints."""
        wanted = set(arguments["fingerprints"])
        if not wanted:
            return {}
        shown = scan_keys(address, arguments["port"])
        if any(key in former for key in shown):
            return {"msg": ("its host key is revoked. Remedy: on the machine, rm /etc/ssh/ssh_host_*; ssh-keygen -A")}
        good = [key for key in shown if fingerprint(key) in wanted]
        if shown and not good:
            found = ", ".join(f"{key.split()[0]} {fingerprint(key)}" for key in shown)
            return {"msg": f"replace_node_fingerprint: no host key matches (found {found}). Remedy: {_COMPARE}"}
        if good and not self._task.check_mode:
            try:
                trust_keys(Path(arguments["known_hosts"]), arguments["names"], arguments["port"], good)
            except OSError as exc:
                return {"msg": f"cannot save its host key: {exc}"}
        return {"changed": bool(good)}

    def _machine(self, known: dict[str, Any]) -> dict[str, Any]:
        name = "busbar.cluster.node_info"
        try:
            return dict(self._execute_module(module_name=name, module_args={"machine": True}, task_vars=known))
        except AnsibleConnectionFailure as exc:
            return {"msg": str(exc), "unreachable": True}
        except AnsibleError as exc:
            return {"msg": str(exc)}

    def _unreached(self, address: str, answer: dict[str, Any], arguments: dict[str, Any]) -> str:
        """Return why the machine did not answer, and the remedy."""
        parts = (answer.get("msg"), answer.get("module_stderr"), answer.get("module_stdout"))
        why = "\n".join(str(part) for part in parts if part)
        words = short_message(why, address)
        if not answer.get("unreachable"):
            return f"cannot inspect the machine: {words}. Remedy: install python3, and give the login user sudo"
        if "host key" not in why.lower() and "identification has changed" not in why.lower():
            return f"the machine does not answer: {words}. Remedy: power it on, check ansible_host and the network"
        found = ", ".join(f"{key.split()[0]} {fingerprint(key)}" for key in scan_keys(address, arguments["port"]))
        return (
            f"its host key is unknown (found {found or 'none'}). Remedy: {_COMPARE}, then add "
            "-e replace_node_fingerprint=SHA256:…"
        )


def _reported(node: str, place: Path) -> list[Any]:
    """Return the hardware parts of the node from the newest report that contains them, or an empty list."""
    try:
        from ..plugin_utils.report_files import folders, read_report  # noqa: PLC0415 - a library may be missing

        for path in reversed(folders(place)[-_MOST_REPORTS:] if place.is_dir() else []):
            try:
                report = read_report(path)
            except (OSError, ValueError):
                continue
            parts = numbered_parts(report).get(node)
            if parts and seconds(report["started"]):
                return list(parts)
    except (OSError, ImportError):
        return []
    return []
