"""Module that installs packages which no repository has, from their files."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_files
author: busbar contributors
short_description: Install packages from files of known content
description:
  - Fetches every file, compares it with its SHA-256, and only then installs all of them at once; what they need comes
    from the system's repositories.
  - When the wanted versions are installed, nothing is fetched.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  packages:
    description: The packages.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the package.
        type: str
        required: true
      version:
        description: Its version, as the package database tells it.
        type: str
        required: true
      file:
        description: Name of its file.
        type: str
        required: true
      sha256:
        description: SHA-256 of the file.
        type: str
        required: true
  source:
    description: Address, or directory of this host, with the files.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Install Enroot
  busbar.cluster.package_files:
    source: https://mirror.example.com/enroot
    packages:
      - {name: enroot, version: 4.0.1-1, file: enroot_4.0.1-1_amd64.deb, sha256: "{{ example_sum }}"}
"""

RETURN = r"""
installed:
  description: The packages that were (or in check mode would be) installed.
  returned: always
  type: list
  elements: str
"""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils.common.package_commands import APT, error_text, install_command, run_manager

TIMEOUT_S = 60


def installed_version(module: AnsibleModule, name: str) -> str:
    """Return the installed version of a package; '' when it is not installed."""
    if module.get_bin_path("dpkg-query"):
        status, out, _ = module.run_command(["dpkg-query", "-W", "-f", "${Version} ${Status}", name])
        return out.split()[0] if status == 0 and out.endswith(" ok installed") else ""
    status, out, _ = module.run_command(["rpm", "-q", "--qf", "%{VERSION}-%{RELEASE}", name])
    return out.strip() if status == 0 else ""


def fetch(module: AnsibleModule, item: dict[str, Any]) -> bytes:
    """Return the file of a package, or fail the module when it is not available or is another one."""
    source = f"{module.params['source'].rstrip('/')}/{item['file']}"
    try:
        data = Path(source).read_bytes() if source.startswith("/") else open_url(source, timeout=TIMEOUT_S).read()
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{item['name']} {item['version']}: cannot fetch {source}: {exc}. Nothing was installed")
    found = hashlib.sha256(data).hexdigest()
    if found != item["sha256"]:
        module.fail_json(
            msg=f"{item['name']} {item['version']}: {source} has the SHA-256 {found}, not the declared "
            f"{item['sha256']}. Nothing was installed. Remedy: find out why it differs, and correct the checksum only "
            "when that file is the one you want"
        )
    return bytes(data)


def install(module: AnsibleModule, items: list[dict[str, Any]]) -> None:
    """Fetch all, then install all at once."""
    fetched = [(item, fetch(module, item)) for item in items]
    with tempfile.TemporaryDirectory(prefix="busbar-packages-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # apt reads as a user of its own
        for item, data in fetched:
            (folder / item["file"]).write_bytes(data)
        files = [str(folder / item["file"]) for item, _ in fetched]
        # The files are verified by their checksums: dnf asks no signature of local files (localpkg_gpgcheck, off by
        # default, dnf.conf(5)). What comes with them from repositories is checked as each repository says.
        command = install_command(module, apt=["--allow-downgrades"])
        status, said = run_manager(module, [*command, *files])
        if status and module.get_bin_path("apt-get"):
            run_manager(module, [*APT, "update"])
            status, said = run_manager(module, [*command, *files])
    if status:
        names = ", ".join(item["file"] for item in items)
        module.fail_json(msg=f"cannot install {names}: {error_text(said)}", output=said)


def main() -> None:
    """Run the module."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "packages": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {"name": text, "version": text, "file": text, "sha256": text},
            },
            "source": text,
        },
        supports_check_mode=True,
    )
    wanted = [
        (item, before)
        for item in module.params["packages"]
        if (before := installed_version(module, item["name"])) != item["version"]
    ]
    if wanted and not module.check_mode:
        install(module, [item for item, _ in wanted])
    diff = [
        {"before": f"{before}\n" if before else "", "after": f"{item['version']}\n"}
        | {"before_header": item["name"], "after_header": item["name"]}
        for item, before in wanted
    ]
    module.exit_json(changed=bool(wanted), installed=[item["name"] for item, _ in wanted], diff=diff)


if __name__ == "__main__":
    main()
