"""Module that diagnoses problems on a provisioned host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: doctor_info
author: busbar contributors (!UNKNOWN)
short_description: Find problems on a provisioned host
description:
  - Checks for enabled services that do not run, network file systems that are not mounted or do not answer, and
    certificates that expire soon. On a controller, also checks for unresponsive Slurm daemons, nodes that accept no
    jobs, and a stale reservation of a validation. Each check has a timeout.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  host: {description: Name of the host., type: str, required: true}
  slurm: {description: Whether the host runs slurmctld., type: bool, default: false}
"""

EXAMPLES = r"""
- busbar.cluster.doctor_info: {host: ctl}
"""

RETURN = r"""
problems: {description: Problems found on the host., returned: always, type: list, elements: dict}
reservations: {description: Reservation of a validation., returned: always, type: list, elements: dict}
"""

import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.call_timeout import bounded
from ..module_utils.common.problems import Problem, make_problem
from ..module_utils.health.host_diagnosis import (
    SERVICES,
    certificate_problems,
    disk_problems,
    drain_problems,
    network_mounts,
    ping_problems,
    reservation_problems,
    service_problems,
)
from ..module_utils.health.system_checks import SERVICE_PROPERTIES, Disk
from ..module_utils.slurm.scontrol_nodes import read_text_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

_SSH = Path("/etc/ssh")
_TLS = Path("/etc/busbar/tls")
_CONFIGURATION = Path("/etc/slurm/slurm.conf")
_ACCOUNTING = re.compile(r"^\s*AccountingStorageType\s*=\s*accounting_storage/slurmdbd\b", re.MULTILINE | re.IGNORECASE)
_AT_ONCE = 8
CERTIFICATE_DAYS = 30
TIMEOUT_S = 15


class Diagnosis:
    """The diagnosis of one host."""

    def __init__(self, host: str, timeout_s: int) -> None:
        """Store the host's name and the timeout of a command."""
        self.host = host
        self.timeout_s = timeout_s

    def run(self, *words: str) -> tuple[int, str]:
        """Return exit code and output of a command; 124 on a timeout, 127 if the program is missing."""
        environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
        try:
            done = subprocess.run(  # noqa: S603 - fixed arguments and paths
                words,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self.timeout_s,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            return 124, f"{words[0]} did not answer within {self.timeout_s} s"
        except OSError as exc:
            return 127, f"{words[0]}: {exc.strerror or exc}"
        return done.returncode, done.stdout.decode(errors="replace")

    def services(self) -> list[Problem]:
        """Return the services that are not running."""
        _, text = self.run("systemctl", "show", SERVICE_PROPERTIES, *SERVICES)
        return service_problems(self.host, text, time.monotonic())

    def mounts(self) -> list[Problem]:
        """Return network file systems that are missing or do not respond; all are checked in parallel."""
        found = network_mounts(_text(Path("/etc/fstab")), _text(Path("/proc/self/mountinfo")))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            disks = pool.map(partial(_disk, timeout_s=self.timeout_s), found, found.values())
            return [problem for disk in disks for problem in disk_problems(self.host, disk)]

    def certificates(self, days: int) -> list[Problem]:
        """Return the certificates of the host that expire soon."""
        known: list[tuple[Path, tuple[str, ...]]] = [
            (path, ("ssh-keygen", "-L", "-f", str(path))) for path in sorted(_SSH.glob("ssh_host_*-cert.pub"))
        ]
        known += [
            (path, ("openssl", "x509", "-noout", "-enddate", "-in", str(path)))
            for path in sorted(_TLS.glob("*.crt"))
            if path.is_file()
        ]
        now = time.time()
        return [
            problem
            for path, words in known
            for problem in certificate_problems(self.host, str(path), self.run(*words)[1], now, days)
        ]

    def slurm(self) -> Iterator[Problem]:
        """Yield the problems with Slurm's daemons and nodes."""
        _, text = self.run("scontrol", "ping")
        yield from ping_problems(self.host, text)
        if _ACCOUNTING.search(_text(_CONFIGURATION)):
            code, text = self.run("sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=Cluster")
            if code:
                problem = f"slurmdbd does not answer: {' '.join(text.split())[:160]}"
                remedy = (
                    "on its host: journalctl -u slurmdbd -n 50; systemctl status mariadb; systemctl restart slurmdbd"
                )
                yield make_problem([self.host], "slurmdbd", problem, remedy)
        code, text = self.run("scontrol", "show", "nodes", "--oneliner", "--details")
        if code == 0:
            yield from drain_problems(read_text_nodes(text))

    def reservations(self) -> list[Problem]:
        """Return a problem if a validation's reservation exists."""
        return reservation_problems(self.run("scontrol", "-o", "show", "reservation")[1])


def _disk(path: str, mounted: bool, timeout_s: float) -> Disk:  # noqa: FBT001 - called by map()
    """Return the state of a mount."""
    if not mounted:
        return Disk(path, mounted=False)
    try:
        state = bounded(partial(os.statvfs, path), timeout_s)
    except OSError as exc:
        return Disk(path, error=exc.strerror or str(exc))
    return Disk(path, read_only=False, free_mb=state.f_bavail * state.f_frsize / 2**20)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "slurm": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    look = Diagnosis(module.params["host"], TIMEOUT_S)
    problems = [*look.services(), *look.mounts(), *look.certificates(CERTIFICATE_DAYS)]
    with_slurm = module.params["slurm"]
    problems += look.slurm() if with_slurm else []
    module.exit_json(changed=False, problems=problems, reservations=look.reservations() if with_slurm else [])


if __name__ == "__main__":
    main()
