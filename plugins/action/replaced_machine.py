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
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils.common.problems import REFUSED
from ..plugin_utils.common.node_answer import short_message
from ..plugin_utils.engine.report.tested_systems import numbered_parts
from ..plugin_utils.node_records import add_node_record, read_node_records
from ..plugin_utils.nodes.dossier import REPLACED, read_records, seconds
from ..plugin_utils.ssh_ledger import current_keys, former_keys, read_ledger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ..module_utils.hardware.machine_parts import Part

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
# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0


# Events for the same machine: reinstalled, or unchanged and allowed by an option.
REINSTALLED, AGAIN = "reinstalled", "provisioned again"
ADMITTED = "admitted"
_OPTION = "-e replace_node_same_machine=true"
_KINDS = (("machine", "serial"), ("machine", "id"), ("gpu", "serial"), ("gpu", "id"), ("nic", "id"))


class Change(NamedTuple):
    """The event to record for a node's machine, or the problem if the machine is rejected."""

    event: str = ""
    problem: str = ""
    remedy: str = ""


def known_parts(node: str, records: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the parts of a node's last recorded machine, or an empty list."""
    found = [each["parts"] for each in records if each["node"] == node and isinstance(each.get("parts"), list)]
    return [part for part in (found[-1] if found else []) if isinstance(part, dict)]


def compared(
    before: Iterable[Part | Mapping[str, str]], after: Iterable[Part | Mapping[str, str]]
) -> tuple[str, str, bool]:
    """Return the identifiers of two machines, of the best kind that both have, and whether they are the same machine.

    Machines without a common kind of identifier count as different.
    """
    first, second = ([dict(part) for part in parts] for parts in (before, after))

    def numbers(parts: list[dict[str, Any]], kind: str, key: str) -> set[str]:
        return {str(part[key]) for part in parts if part.get("kind") == kind and part.get(key)}

    for kind, key in _KINDS:
        one, other = numbers(first, kind, key), numbers(second, kind, key)
        if one and other:
            shown = [", ".join(sorted(each)) for each in (one, other)]
            return shown[0], shown[1], bool(one & other)
    # The machines have no kind of identifier in common.
    shown = [
        next((", ".join(sorted(found)) for each in _KINDS if (found := numbers(parts, *each))), "")
        for parts in (first, second)
    ]
    return shown[0], shown[1], False


def change_of(  # noqa: PLR0913 - one for each identifier
    node: str,
    key: str,
    *,
    known: Mapping[str, str],
    former: Iterable[str],
    records: Sequence[Mapping[str, Any]],
    same_serial: bool,
    allow_same: bool,
) -> Change:
    """Return the event for the current machine of a node, or the problem if it is rejected.

    Args:
        node: name of the node.
        key: current public host key of the machine.
        known: certified host key of each host.
        former: revoked host keys.
        records: the site's records, oldest first.
        same_serial: whether the machine has the serial number of the previous one.
        allow_same: whether the same machine may be provisioned again.
    """
    if key in former:
        return Change(
            problem="its host key is revoked: it is a former machine, or has a copy of that machine's disk",
            remedy="generate new host keys there: rm /etc/ssh/ssh_host_*; ssh-keygen -A; systemctl restart ssh",
        )
    holder = next((host for host, own in known.items() if own == key and host != node), "")
    if holder:
        return Change(
            problem=f"it has the host key of {holder}: its disk is a copy of {holder}'s, or it has {holder}'s address",
            remedy="correct ansible_host, or generate new host keys there: rm /etc/ssh/ssh_host_*; ssh-keygen -A",
        )
    if known.get(node) == key and not allow_same:
        # An interrupted run may already have recorded this machine, so do not record it again.
        own = [each for each in records if each["node"] == node]
        if own and own[-1]["event"] != ADMITTED and own[-1].get("host_key") == key:
            return Change(event="")
        return Change(
            problem="it is still the old machine: its host key is already recorded"
            + (", and so is its serial number" if same_serial else ""),
            remedy=f"replace the machine and run again; to reprovision the same machine: {_OPTION}",
        )
    if known.get(node) == key:
        return Change(event=AGAIN)
    return Change(event=REINSTALLED if same_serial else REPLACED)


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
