"""Module that installs a program from the upstream archive."""

from __future__ import annotations

DOCUMENTATION = r"""
module: upstream_program
author: busbar contributors
short_description: Install a program from the upstream archive
description:
  - Downloads a tar archive, compares its SHA-256, and unpacks it to a directory of its own, which appears whole or not
    at all. What is there is not downloaded again.
  - The single directory that such archives hold is left out of the paths.
attributes:
  check_mode:
    description: Says what would be done, without the network.
    support: full
options:
  url:
    description: Address of the archive.
    type: str
    required: true
  sha256:
    description: What C(sha256sum) prints for it.
    type: str
    required: true
  dest:
    description: Directory to make. Name it after the checksum, so that another release is another directory.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Install Prometheus
  busbar.cluster.upstream_program:
    url: "{{ archive.url }}"
    sha256: "{{ archive.sha256 }}"
    dest: /opt/busbar/prometheus-{{ archive.sha256[:12] }}
"""

RETURN = r"""
dest:
  description: The directory.
  returned: always
  type: str
"""

import hashlib
import shutil
import tarfile
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import fetch_url

from ..module_utils.common.baseline import before_making


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack the archive; return the directory that holds what is in it."""
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            target = (folder / member.name).resolve()
            if not target.is_relative_to(folder.resolve()) or not (member.isfile() or member.isdir()):
                message = f"{member.name} is no plain file below the archive"
                raise ValueError(message)
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        tar.extractall(folder)  # noqa: S202 - looked at above
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def install(module: AnsibleModule, url: str, sha256: str, dest: Path) -> None:
    """Download, compare, unpack and move into place."""
    answer, info = fetch_url(module, url, timeout=60)
    if info["status"] != 200:  # noqa: PLR2004 - HTTP's own
        module.fail_json(msg=f"{url}: {info['msg']}")
    dest.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".busbar-", dir=dest.parent) as folder:
        archive = Path(folder) / "archive"
        digest = hashlib.sha256()
        with archive.open("wb") as stream:
            while block := answer.read(1 << 20):
                digest.update(block)
                stream.write(block)
        if digest.hexdigest() != sha256:
            module.fail_json(
                msg=f"{url} has the SHA-256 {digest.hexdigest()}, declared is {sha256}: nothing was installed"
            )
        place = Path(folder) / "content"
        place.mkdir()
        found = unpack(archive, place)
        found.chmod(0o755)
        before_making(module, "tree", dest)
        shutil.move(str(found), str(dest))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "sha256": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    dest = Path(params["dest"])
    changed = not dest.is_dir()
    if changed and not module.check_mode:
        try:
            install(module, params["url"], params["sha256"], dest)
        except (OSError, ValueError, tarfile.TarError) as exc:
            module.fail_json(msg=f"{params['url']}: {exc}")
    diff = {"before": "", "after": f"{dest}\n", "after_header": "programs"} if changed else {}
    module.exit_json(changed=changed, dest=str(dest), diff=diff)


if __name__ == "__main__":
    main()
