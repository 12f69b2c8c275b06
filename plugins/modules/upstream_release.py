"""Module that installs an upstream release from its files, as packages or as an archive."""

from __future__ import annotations

DOCUMENTATION = r"""
module: upstream_release
author: busbar contributors (!UNKNOWN)
short_description: Install an upstream release from files with known checksums
description:
  - Downloads all files, verifies their SHA-256, and then installs them together. Dependencies come from the system's
    repositories.
  - With O(dest), downloads a tar archive instead, verifies O(sha256), and unpacks it atomically to a directory. The
    single top-level directory of such archives is removed from the paths.
  - Downloads nothing if the versions are installed or the directory exists.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  packages:
    description: Packages to download and install.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the package.
        type: str
        required: true
      version:
        description: Version of the package, in the format of the package database.
        type: str
        required: true
      file:
        description: File name of the package.
        type: str
        required: true
      sha256:
        description: SHA-256 of the file.
        type: str
        required: true
  source:
    description: URL, or directory on this host, of the files. With O(dest), the URL of the archive.
    type: str
    required: true
  sha256:
    description: SHA-256 of the archive.
    type: str
  dest:
    description: Directory to create. Its name should contain the checksum, so that each release has its directory.
    type: path
"""

EXAMPLES = r"""
- name: Install Enroot
  busbar.cluster.upstream_release:
    source: https://mirror.example.com/enroot
    packages:
      - {name: enroot, version: 4.0.1-1, file: enroot_4.0.1-1_amd64.deb, sha256: "{{ example_sum }}"}
"""

RETURN = r"""
installed:
  description: Packages that were (or in check mode would be) installed.
  returned: always
  type: list
  elements: str
"""

import hashlib
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils.common.baseline import before_making
from ..module_utils.common.package_commands import APT, error_text, install_command, installed_versions, run_manager

TIMEOUT_S = 60


def fetch(module: AnsibleModule, what: str, source: str, sha256: str) -> bytes:
    """Return the content of a file; fail the module if it is unavailable or its checksum differs."""
    try:
        data = Path(source).read_bytes() if source.startswith("/") else open_url(source, timeout=TIMEOUT_S).read()
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{what}: cannot fetch {source}: {exc}. Nothing was installed")
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        module.fail_json(
            msg=f"{what}: SHA-256 mismatch of {source} (found {found}, expected {sha256}). Nothing was "
            "installed. Remedy: find the reason, and correct the checksum only if the file is "
            "trustworthy"
        )
    return bytes(data)


def install(module: AnsibleModule, items: list[dict[str, Any]]) -> None:
    """Fetch all packages, then install them in one transaction."""
    source = module.params["source"].rstrip("/")
    fetched = [
        (item, fetch(module, f"{item['name']} {item['version']}", f"{source}/{item['file']}", item["sha256"]))
        for item in items
    ]
    with tempfile.TemporaryDirectory(prefix="busbar-packages-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # apt reads the files as the user _apt
        for item, data in fetched:
            (folder / item["file"]).write_bytes(data)
        files = [str(folder / item["file"]) for item, _ in fetched]
        # The files are verified by their checksums: dnf does not check signatures of local files by default (see
        # localpkg_gpgcheck in dnf.conf(5)). Dependencies are verified as configured in their repositories.
        command = install_command(module, apt=["--allow-downgrades"])
        status, output = run_manager(module, [*command, *files])
        if status and module.get_bin_path("apt-get"):
            run_manager(module, [*APT, "update"])
            status, output = run_manager(module, [*command, *files])
    if status:
        names = ", ".join(item["file"] for item in items)
        module.fail_json(msg=f"cannot install {names}: {error_text(output)}", output=output)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack the archive; return the directory with its contents."""
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            target = (folder / member.name).resolve()
            if not target.is_relative_to(folder.resolve()) or not (member.isfile() or member.isdir()):
                message = f"{member.name} is not a regular file or directory inside the archive"
                raise ValueError(message)
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        tar.extractall(folder)  # noqa: S202 - checked above
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def install_archive(module: AnsibleModule, source: str, dest: Path) -> None:
    """Fetch and verify an archive, unpack it and move it into place."""
    data = fetch(module, dest.name, source, module.params["sha256"])
    dest.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".busbar-", dir=dest.parent) as folder:
        archive = Path(folder) / "archive"
        archive.write_bytes(data)
        place = Path(folder) / "content"
        place.mkdir()
        found = unpack(archive, place)
        found.chmod(0o755)
        before_making(module, "tree", dest)
        shutil.move(str(found), str(dest))


def keep_archive(module: AnsibleModule) -> None:
    """Install the archive if its directory is missing, and exit the module."""
    source, dest = module.params["source"], Path(module.params["dest"])
    changed = not dest.is_dir()
    if changed and not module.check_mode:
        try:
            install_archive(module, source, dest)
        except (OSError, ValueError, tarfile.TarError) as exc:
            module.fail_json(msg=f"{source}: {exc}")
    diff = [{"before": "", "after": f"{dest}\n", "after_header": "programs"}] if changed else []
    module.exit_json(changed=changed, installed=[dest.name] if changed else [], diff=diff)


def main() -> None:
    """Run the module."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "packages": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"name": text, "version": text, "file": text, "sha256": text},
            },
            "source": text,
            "sha256": {"type": "str"},
            "dest": {"type": "path"},
        },
        required_together=[("sha256", "dest")],
        supports_check_mode=True,
    )
    if module.params["dest"]:
        keep_archive(module)
    packages = module.params["packages"]
    present = installed_versions(module, [item["name"] for item in packages])
    wanted = [(item, before) for item in packages if (before := present.get(item["name"], "")) != item["version"]]
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
