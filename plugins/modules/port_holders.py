"""Module that fails if another program listens on a port that a daemon is about to use."""

from __future__ import annotations

DOCUMENTATION = r"""
module: port_holders
author: busbar contributors (!UNKNOWN)
short_description: Fail if another program holds a port
description:
  - Reads the listeners on TCP ports from C(ss), and fails with process, PID and unit of each conflicting program.
    Without this check a unit counts as started, and only its journal reports that the address is in use.
  - Reports nothing if C(ss) is missing, as on a minimal system before the role C(hosts) installs it.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  ports:
    description: Ports to check.
    type: list
    elements: dict
    required: true
    suboptions:
      address:
        description: Listen address or host name of the daemon.
        type: str
        required: true
      port:
        description: Port of the daemon.
        type: int
        required: true
      unit:
        description: Unit of the daemon, without C(.service). It may use the port.
        type: str
        required: true
      key:
        description: Name of the variable that sets the port, for messages.
        type: str
        required: true
  host:
    description: Name of the host, for messages.
    type: str
    required: true
  headline:
    description: First line of the message, above the problems.
    type: str
    default: "This step changed nothing:"
"""

EXAMPLES = r"""
- name: Check that the port is free
  busbar.cluster.port_holders:
    ports:
      - {address: 10.0.0.10, port: 9090, unit: prometheus, key: prometheus_port}
    host: "{{ inventory_hostname }}"
"""

RETURN = r"""
problems:
  description: Ports in use by other programs, each with C(hosts), C(key), C(problem) and C(remedy). Empty if all are
    free.
  returned: always
  type: list
  elements: dict
"""

import ipaddress
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.problems import make_problem, refusal

if TYPE_CHECKING:
    from ..module_utils.common.problems import Problem

# Maximum length of a command line in a message.
WORDS = 160


def overlaps(wanted: str, held: str) -> bool:
    """Return whether a socket on `held` keeps another from `wanted`; :: includes IPv4, as by default on Linux."""
    one, other = (ipaddress.ip_address(text) for text in (wanted, held))
    wild = [each for each in (one, other) if each.is_unspecified]
    return one == other or any(one.version == other.version or isinstance(each, ipaddress.IPv6Address) for each in wild)


def resolved(name: str) -> str:
    """Return the address of a name, or :: if it has none yet, so that every address counts."""
    try:
        return str(socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)[0][4][0])
    except socket.gaierror:
        return "::"


def holder(pid: str) -> tuple[str, str]:
    """Return unit and command line of a process."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        units = re.findall(r"[^/\n]+(?=\.service(?:/|$))", Path(f"/proc/{pid}/cgroup").read_text(), re.MULTILINE)
    except OSError:  # the process has exited
        return "", ""
    return units[-1] if units else "", words[:WORDS]


def port_problems(item: dict[str, Any], host: str, sockets: str) -> list[Problem]:
    """Return a problem for each other program that uses the port, from `sockets`, the output of `ss -Hltnp`."""
    problems = []
    wanted = resolved(item["address"])
    for line in sockets.splitlines():
        # State Recv-Q Send-Q Local:Port Peer:Port users:(("name",pid=1,fd=3)); the zone as in 127.0.0.53%lo.
        address = line.split()[3].rpartition(":")[0].partition("%")[0].strip("[]").replace("*", "::")
        holders = {pid: holder(pid) for pid in re.findall(r"\bpid=(\d+)", line)}
        if not overlaps(wanted, address) or item["unit"] in {unit for unit, _ in holders.values()}:
            continue
        who = "a process that is not visible on this host"
        for pid, (unit, words) in list(holders.items())[:1]:
            who = f"{words} (pid {pid}{f', unit {unit}.service' if unit else ''})"
        problem = f"{address} port {item['port']} is held by {who}, so {item['unit']}.service cannot listen on it"
        remedy = f"stop that process, or set {item['key']} to a free port"
        problems.append(make_problem([host], item["key"], problem, remedy))
    return problems


def main() -> None:
    """Run the module."""
    word = {"type": "str", "required": True}
    port = {"address": word, "port": {"type": "int", "required": True}, "unit": word, "key": {**word, "no_log": False}}
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "dict", "required": True, "options": port},
            "host": word,
            "headline": {"type": "str", "default": "This step changed nothing:"},
        },
        supports_check_mode=True,
    )
    program, problems = module.get_bin_path("ss"), []
    for item in module.params["ports"] if program else []:
        command = [program, "-Hltnp", f"sport = :{item['port']}"]
        problems += port_problems(item, module.params["host"], module.run_command(command, check_rc=True)[1])
    if problems:
        module.fail_json(**refusal(module.params["headline"], problems))
    module.exit_json(changed=False, problems=[])


if __name__ == "__main__":
    main()
