"""Module that builds SPANK plugins against the headers of the installed Slurm and keeps them in a store."""

from __future__ import annotations

DOCUMENTATION = r"""
module: spank_build
author: busbar contributors
short_description: Build SPANK plugins once for a release of Slurm
description:
  - With O(phase=fetch), brings the source archives and verifies them. A wrong one is removed and refused.
  - With O(phase=build), unpacks and makes each plugin as the user nobody, sees that it is one for the installed Slurm,
    and keeps it in the store with a manifest.
extends_documentation_fragment: busbar.cluster.attributes
options:
  phase:
    description: What to do.
    type: str
    choices: [fetch, build]
    required: true
  plugins:
    description:
      - The plugins, each with C(name), C(version), C(source), C(sha256), and by choice C(make), the arguments of make,
        and C(produces), the name of the library.
      - A source that is no address lies in C(incoming) below O(state), under the name of the plugin.
    type: list
    elements: dict
    required: true
  state:
    description: Directory of the store.
    type: path
    default: /var/lib/busbar/spank
  info:
    description: What M(busbar.cluster.spank_info) found on this host.
    type: dict
    required: true
  include_directory:
    description: Where C(slurm/slurm_version.h) is.
    type: path
    default: /usr/include
"""

EXAMPLES = r"""
- name: Build the plugins
  busbar.cluster.spank_build:
    phase: build
    plugins: "{{ example_plan.build }}"
    info: "{{ example_plugins.spank }}"
"""

RETURN = r"""
built:
  description: Names of the plugins that were built.
  returned: always
  type: list
  elements: str
"""

import hashlib
import json
import os
import pwd
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils.slurm.shared_object import header_release, slurm_of_plugin
from ..module_utils.slurm.spank_store import build_id, platform_id, recipe_mark

BUILDER = "nobody"
DOWNLOAD_TIMEOUT_S = 60


def archive_path(state: Path, plugin: dict[str, Any]) -> Path:
    """Return where the verified archive of a plugin is kept."""
    return state / "sources" / f"{plugin['name']}-{plugin['version']}-{plugin['sha256'][:16]}.archive"


def fetch(module: AnsibleModule, state: Path, plugin: dict[str, Any]) -> bool:
    """Bring and verify one archive; return whether that changed something."""
    target = archive_path(state, plugin)
    incoming = state / "incoming" / plugin["name"]
    if target.exists() and hashlib.sha256(target.read_bytes()).hexdigest() == plugin["sha256"]:
        return False
    try:
        if plugin["source"].startswith("/"):
            data = incoming.read_bytes()
        else:
            data = open_url(plugin["source"], timeout=DOWNLOAD_TIMEOUT_S).read()
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{plugin['name']} {plugin['version']}: cannot fetch {plugin['source']}: {exc}")
    finally:
        incoming.unlink(missing_ok=True)
    found = hashlib.sha256(data).hexdigest()
    if found != plugin["sha256"]:
        module.fail_json(
            msg=f"{plugin['name']} {plugin['version']}: {plugin['source']} has the SHA-256 {found}, not the declared "
            f"{plugin['sha256']}. Nothing was built or installed. Remedy: find out why it differs, and correct sha256 "
            "only when that archive is the one you want"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return True


def header_version(include: Path) -> str:
    """Return the version that the installed headers are of; '' when there are none."""
    header = include / "slurm" / "slurm_version.h"
    return header_release(header.read_text()) if header.exists() else ""


def run(
    module: AnsibleModule, plugin: dict[str, Any], command: list[str], include: Path, encoding: str | None = "utf-8"
) -> Any:  # noqa: ANN401 - bytes without an encoding
    """Run a command as the builder and return what it prints, or fail the module with the end of what it said."""
    environment = {"LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    if include != Path("/usr/include"):
        environment["CPPFLAGS"] = f"-I{include}"
    words = ["runuser", "-u", BUILDER, "--", *command]
    status, out, err = module.run_command(words, environ_update=environment, encoding=encoding)
    if status:
        out, err = (text if encoding else text.decode(errors="replace") for text in (out, err))
        said = " | ".join((out + err).strip().splitlines()[-6:])
        module.fail_json(
            msg=f"{plugin['name']} {plugin['version']} cannot be built: `{' '.join(command[:1])}` ended with "
            f"{status}: {said}",
            stdout=out,
            stderr=err,
        )
    return out


def produced(module: AnsibleModule, plugin: dict[str, Any], folder: Path) -> Path:
    """Return the library that make produced."""
    wanted = plugin.get("produces") or "*.so"
    found = [path for path in folder.rglob(wanted) if path.is_file() and not path.is_symlink()]
    if len(found) != 1:
        names = ", ".join(sorted(path.name for path in found)) or "none"
        module.fail_json(
            msg=f"{plugin['name']} {plugin['version']}: make should give one library {wanted}, found: {names}. "
            "Remedy: name the right one by the plugin's key produces"
        )
    return found[0]


def build(module: AnsibleModule, state: Path, plugin: dict[str, Any]) -> None:
    """Build one plugin and put it into the store with its manifest."""
    info, include = module.params["info"], Path(module.params["include_directory"])
    user = pwd.getpwnam(BUILDER)
    with tempfile.TemporaryDirectory(prefix="busbar-spank-") as name:
        folder, tree = Path(name), Path(name, "tree")
        archive = folder / "archive"
        shutil.copyfile(archive_path(state, plugin), archive)
        archive.chmod(0o644)
        # From here on root opens nothing in there: the builder, or what it builds, could lay links in his way.
        os.chown(folder, user.pw_uid, user.pw_gid)
        run(module, plugin, ["mkdir", str(tree)], include)
        run(module, plugin, ["tar", "-xf", str(archive), "-C", str(tree)], include)
        inner = list(tree.iterdir())
        top = inner[0] if len(inner) == 1 and inner[0].is_dir() else tree
        run(module, plugin, ["make", "-C", str(top), *map(str, plugin.get("make") or [])], include)
        library = produced(module, plugin, top)
        data = run(module, plugin, ["cat", "--", str(library)], include, encoding=None)
    try:
        made_for = slurm_of_plugin(data)
    except ValueError as exc:
        module.fail_json(msg=f"{plugin['name']} {plugin['version']}: what make produced cannot be used: {exc}")
    if made_for != info["slurm"]:
        module.fail_json(
            msg=f"{plugin['name']} {plugin['version']} came out for Slurm {made_for}, but Slurm here is "
            f"{info['slurm']}. Remedy: let it be built with the headers of the installed Slurm"
        )
    place = build_id(plugin["name"], str(plugin["version"]), platform_id(info))
    keep(
        state / "store" / place,
        data,
        {
            "id": place,
            "name": plugin["name"],
            "version": str(plugin["version"]),
            "slurm": info["slurm"],
            "architecture": info["architecture"],
            "system": info["system"],
            "source": plugin["source"],
            "source_sha256": plugin["sha256"],
            "recipe": recipe_mark(plugin),
            "library": f"{plugin['name']}.so",
            "sha256": hashlib.sha256(data).hexdigest(),
        },
    )


def keep(folder: Path, data: bytes, manifest: dict[str, str]) -> None:
    """Write library and manifest into the store; the manifest last, so that it never tells of a half."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").unlink(missing_ok=True)
    (folder / manifest["library"]).write_bytes(data)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["fetch", "build"], "required": True},
            "plugins": {"type": "list", "elements": "dict", "required": True},
            "state": {"type": "path", "default": "/var/lib/busbar/spank"},
            "info": {"type": "dict", "required": True},
            "include_directory": {"type": "path", "default": "/usr/include"},
        },
        supports_check_mode=True,
    )
    state, plugins, slurm = Path(module.params["state"]), module.params["plugins"], module.params["info"]["slurm"]
    names = [plugin["name"] for plugin in plugins]
    if module.check_mode:
        module.exit_json(changed=bool(plugins), built=names)
    if module.params["phase"] == "fetch":
        fetched = [plugin["name"] for plugin in plugins if fetch(module, state, plugin)]
        module.exit_json(changed=bool(fetched), built=[])
    headers = header_version(Path(module.params["include_directory"]))
    if headers != slurm:
        module.fail_json(
            msg=f"cannot build {', '.join(names)}: Slurm here is {slurm}, but its headers are "
            f"{'those of ' + headers if headers else 'missing'}. Remedy: install the development package of exactly "
            f"Slurm {slurm}, or update Slurm to it"
        )
    for plugin in plugins:
        build(module, state, plugin)
    module.exit_json(changed=bool(plugins), built=names)


if __name__ == "__main__":
    main()
