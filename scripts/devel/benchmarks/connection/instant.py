"""A connection plugin that returns the module results of a healthy node immediately, without a machine."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: instant
short_description: Answers immediately
description: Returns the module results of a healthy node, so that only the provisioning host uses time.
author: busbar
options: {}
"""

MODULE = re.compile(rb"^ansible_module='([\w.]+)'", re.MULTILINE)
SYSTEM = {
    "architecture": "x86_64",
    "distribution": "Debian",
    "distribution_major_version": "12",
    "distribution_release": "bookworm",
    "distribution_version": "12.11",
    "kernel": "6.1.0-37-amd64",
    "os_family": "Debian",
    "virtualization_tech_guest": [],
}
FIXED: dict[str, dict[str, Any]] = {
    "account_info": {
        "users": {},
        "groups": {},
        "plan": {"problems": [], "changes": False, "key_files": []},
        "visudo": True,
    },
    "mount_info": {"problems": [], "kernel": {"nfsd": True, "rpcrdma": True}, "rdma_devices": [], "processors": 8},
    "command": {"rc": 0, "stdout": "rw,hidepid=invisible", "stdout_lines": ["rw,hidepid=invisible"]},
    "templates": {"changed_paths": []},
    "find": {"files": [], "matched": 0},
    "hostname": {},
    "hosts_table": {"changed_paths": []},
    "secret_info": {"held": [], "files": []},
    "tls_host_key": {
        "public_key": "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBNBmxu1Mwk6BSU6XZ5"
        "DJ+7hyzPIWpi6GWdlqS4Jxz7ld1XTBOFfuVIehxwfoGfALoataLRMqG35xuk2ri9IwjqA=",
        "certificate": "",
    },
    "slurm_change": {"jobs": [], "removed": {"nodes": [], "partitions": []}, "gate": []},
    "port_holders": {"problems": []},
    "packages": {"installed": [], "removed": [], "held": []},
    "setup": {"ansible_facts": SYSTEM},
    "stat": {"stat": {"exists": False}},
    "systemd_service": {"status": {}},
    "file": {},
    "group": {},
    "baseline": {},
    "getent": {"ansible_facts": {"getent_passwd": {"polkitd": None}}},
}


class Connection(ConnectionBase):  # type: ignore[misc]  # Ansible is untyped
    """Simulates every host."""

    transport = "instant"
    has_pipelining = True

    def _connect(self) -> Connection:
        """Do nothing."""
        return self

    def close(self) -> None:
        """Do nothing."""

    def exec_command(
        self,
        cmd: str,
        in_data: bytes | None = None,
        sudoable: bool = True,  # noqa: FBT001, FBT002 - Ansible's signature
    ) -> tuple[int, bytes, bytes]:
        """Return the result that a node would return for the module."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        found = MODULE.search(in_data or b"")
        if found is None:
            message = f"this connection plugin supports modules only, not {cmd!r}"
            raise AnsibleConnectionFailure(message)
        name = found[1].decode().rpartition(".")[2]
        answer = self._answer(name)
        if answer is None:
            message = f"the connection plugin has no result for the module {name}: add it to FIXED"
            raise AnsibleConnectionFailure(message)
        return 0, json.dumps({"changed": False, **answer}).encode(), b""

    def _answer(self, name: str) -> dict[str, Any] | None:
        if name == "node_info":
            return {"reached": True, "failure": "", "message": "", "node": self._node()}
        if name == "ssh_host_info":
            return self._ssh()
        return FIXED.get(name)

    def _node(self) -> dict[str, Any]:
        return {
            "os": {"id": "debian", "version": "12", "major": "12", "name": "Debian GNU/Linux 12 (bookworm)"},
            "architecture": "x86_64",
            "python": "3.11.2",
            "hostname": str(self._play_context.remote_addr),
            "euid": 0,
            **dict.fromkeys(("began", "epoch"), time.time()),
            "sockets": 2,
            "cores_per_socket": 56,
            "threads_per_core": 2,
            "cpus": 224,
            "memory_mb": 2064000,
            "free_mb": dict.fromkeys(("/", "/var", "/tmp"), 90000),  # noqa: S108 - part of an answer, not a file
            "read_only": [],
            "users": {},
            "groups": {},
            "programs": [],
            "kernel": SYSTEM["kernel"],
            "kernels": [SYSTEM["kernel"]],
            "versions": {},
        }

    def _ssh(self) -> dict[str, Any]:
        address = str(self._play_context.remote_addr)
        kind, own = b"ssh-ed25519", hashlib.sha256(address.encode()).digest()
        key = base64.b64encode(struct.pack(">I", len(kind)) + kind + struct.pack(">I", len(own)) + own).decode()
        return {
            "public_key": f"ssh-ed25519 {key}",
            "certificate": "",
            "user": "admin",
            "groups": ["sudo"],
            "sudo_users": [],
            "sudo_groups": [],
            "sudo_problem": "",
            "key_login": True,
            "version": "9.2",
        }

    def put_file(self, in_path: str, out_path: str) -> None:  # noqa: ARG002 - Ansible's signature
        """Raise an error, because the plugin stores no files."""
        message = f"{out_path}: this connection plugin cannot write files"
        raise AnsibleConnectionFailure(message)

    def fetch_file(self, in_path: str, out_path: str) -> None:  # noqa: ARG002 - Ansible's signature
        """Raise an error, because the plugin stores no files."""
        message = f"{in_path}: this connection plugin cannot read files"
        raise AnsibleConnectionFailure(message)
