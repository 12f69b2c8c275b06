"""Module that has lynis look at a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: lynis_report
author: busbar contributors
short_description: Have lynis look at a host
description:
  - Runs C(lynis audit system), which is installed, and returns what it finds. Changes nothing.
extends_documentation_fragment: busbar.cluster.attributes
options:
  timeout_s:
    description: How many seconds it may take.
    type: int
    default: 1800
"""

EXAMPLES = r"""
- name: Have lynis look at the host
  busbar.cluster.lynis_report:
  register: answer
"""

RETURN = r"""
version:
  description: Version of lynis.
  returned: success
  type: str
index:
  description: Its hardening index, 0 to 100.
  returned: success
  type: int
tests:
  description: How many tests it did.
  returned: success
  type: int
system:
  description: As C(os) of M(busbar.cluster.node_info).
  returned: success
  type: dict
versions:
  description: As C(versions) of M(busbar.cluster.node_info).
  returned: success
  type: dict
findings:
  description:
    - What it found, each with C(level) (C(warning), C(suggestion), or C(exception) for a test that could not judge),
      C(test), C(text) and C(detail).
  returned: success
  type: list
  elements: dict
"""

import subprocess
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.lynis import parse_report
from ..module_utils.common.node_info import parse_os_release
from ..module_utils.common.software_versions import versions

# lynis says so of findings; whether the audit ended is in its report.
COMMAND = ["lynis", "audit", "system", "--quick", "--quiet", "--no-colors"]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"timeout_s": {"type": "int", "default": 1800}},
        supports_check_mode=True,
    )
    path = module.get_bin_path("lynis")
    if path is None:
        module.fail_json(msg="lynis is not installed: run this without --check, which installs the package lynis")
    # Of its own, since lynis names its files by their folder, and another audit may be going on.
    with tempfile.TemporaryDirectory(prefix="busbar-lynis-") as folder:
        report = Path(folder) / "report.dat"
        command = [path, *COMMAND[1:], "--report-file", str(report), "--log-file", str(Path(folder) / "lynis.log")]
        try:
            done = subprocess.run(  # noqa: S603 - the program of the distribution
                command, check=False, capture_output=True, text=True, timeout=module.params["timeout_s"], cwd=folder
            )
            found = parse_report(report.read_text(encoding="utf-8", errors="replace"))
        except subprocess.TimeoutExpired:
            module.fail_json(msg=f"lynis did not end within {module.params['timeout_s']} seconds")
        except FileNotFoundError:
            module.fail_json(msg=f"lynis ended with {done.returncode} and left no report: {done.stderr.strip()[-500:]}")
        except (OSError, ValueError) as error:
            module.fail_json(msg=str(error))
    release = Path("/etc/os-release")
    system = parse_os_release(release.read_text(encoding="utf-8", errors="replace") if release.exists() else "")
    module.exit_json(changed=False, system=system, versions=versions(), **found)


if __name__ == "__main__":
    main()
