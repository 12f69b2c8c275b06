"""Module that looks at the SPANK plugins of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: spank_info
author: busbar contributors
short_description: Look at the SPANK plugins of a host
description:
  - Tells which Slurm a host has, which plugins busbar gave it, and which ones lie built in its store. Changes nothing.
extends_documentation_fragment: busbar.cluster.attributes
options:
  state:
    description: Directory with the record of what is installed, and with the store.
    type: path
    default: /var/lib/busbar/spank
"""

EXAMPLES = r"""
- name: Look at the plugins
  busbar.cluster.spank_info:
  register: __example_plugins
"""

RETURN = r"""
spank:
  description:
    - C(slurm), the installed version or an empty text; C(architecture); C(system) such as debian13; C(headers), the
      version of Slurm that its headers are of, or an empty text; C(schedmd), whether its packages are SchedMD's own.
    - C(installed), name to C(version), C(slurm), C(library), C(line), C(sha256). What differs from the record, or is
      gone, has an empty C(sha256).
    - C(store), the manifests of what is built here.
  returned: always
  type: dict
"""

import contextlib
import hashlib
import json
import platform
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.shared_object import header_release
from ..module_utils.slurm.spank_store import slurm_version

RELEASE = Path("/etc/os-release")
PROGRAMS = ("scontrol", "slurmd")
HEADER = Path("/usr/include/slurm/slurm_version.h")
# SchedMD's own packages for Debian and Ubuntu are slurm-smd, slurm-smd-slurmd and so on (debian/control of 23.11).
PACKAGES = Path("/var/lib/dpkg/info")


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON is what it is
    """Return what a JSON file holds; None when it is not there or damaged."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file; '' when there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def system_of(text: str) -> str:
    """Return distribution and version from the text of os-release: 'debian13'."""
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return (pairs.get("ID", "") + pairs.get("VERSION_ID", "")).replace('"', "")


def installed_plugins(state: Path) -> dict[str, Any]:
    """Return the record of what is installed, with an empty sha256 where the host is not as recorded."""
    recorded = read_json(state / "installed.json")
    found = {}
    for name, item in (recorded if isinstance(recorded, dict) else {}).items():
        right = sha256_of(Path(item["library"])) == item["sha256"]
        with contextlib.suppress(OSError):
            right = right and Path(item["file"]).read_text().splitlines()[-1:] == [item["line"]]
        right = right and Path(item["file"]).exists()
        found[name] = {**item, "sha256": item["sha256"] if right else ""}
    return found


def built_plugins(state: Path) -> list[dict[str, Any]]:
    """Return the manifests of the store whose library is as it was built."""
    manifests = [(path, read_json(path)) for path in sorted(state.glob("store/*/*/manifest.json"))]
    return [
        manifest
        for path, manifest in manifests
        if isinstance(manifest, dict) and sha256_of(path.parent / manifest["library"]) == manifest["sha256"]
    ]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"state": {"type": "path", "default": "/var/lib/busbar/spank"}}, supports_check_mode=True
    )
    state = Path(module.params["state"])
    version = ""
    for program in PROGRAMS:
        if not version and module.get_bin_path(program):
            version = slurm_version(module.run_command([program, "-V"])[1])
    module.exit_json(
        changed=False,
        spank={
            "slurm": version,
            "architecture": platform.machine(),
            "system": system_of(RELEASE.read_text()),
            "headers": header_release(HEADER.read_text()) if HEADER.exists() else "",
            "schedmd": any(PACKAGES.glob("slurm-smd*.list")),
            "installed": installed_plugins(state),
            "store": built_plugins(state),
        },
    )


if __name__ == "__main__":
    main()
