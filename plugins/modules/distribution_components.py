"""Module that adds components to the distribution's own repositories."""

from __future__ import annotations

DOCUMENTATION = r"""
module: distribution_components
author: busbar contributors
short_description: Add components to the distribution's own repositories
description:
  - Asks apt which repositories of the distribution the host uses, and adds the components that they lack in a file of
    its own, with the same addresses, suites and keys. So a site's mirror is used for them, too.
  - The new index is fetched before the file is put in place; when that fails, nothing has changed.
  - A host that has no package lists yet fetches them first. In check mode it says that it would add the components.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  components:
    description: The components, such as V(non-free).
    type: list
    elements: str
    required: true
  host:
    description: Name of the host, for messages.
    type: str
    default: ''
  path:
    description: The file.
    type: path
    default: /etc/apt/sources.list.d/busbar-components.sources
  header:
    description: First lines of the file, as comments.
    type: str
    default: '# Written by busbar.'
"""

EXAMPLES = r"""
- name: Know the packages that are not free, too
  busbar.cluster.distribution_components:
    components: [contrib, non-free, non-free-firmware]
"""

RETURN = r"""
changed_paths:
  description: The file, when it was (or in check mode would be) written or removed.
  returned: always
  type: list
  elements: str
"""

import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.apt_components import (
    TARGET_FORMAT,
    Target,
    component_sources,
    parse_targets,
)
from ..module_utils.common.host_files import current_text, keep_files
from ..module_utils.common.package_commands import run_manager

OPTIONS: dict[str, Any] = {
    "components": {"type": "list", "elements": "str", "required": True},
    "host": {"type": "str", "default": ""},
    "path": {"type": "path", "default": "/etc/apt/sources.list.d/busbar-components.sources"},
    "header": {"type": "str", "default": "# Written by busbar."},
}
ENVIRONMENT = {"LC_ALL": "C.UTF-8"}


def targets_of(module: AnsibleModule) -> list[Target]:
    """Return the indexes of packages that apt fetches."""
    command = ["apt-get", "indextargets", "--format", TARGET_FORMAT, "Created-By: Packages"]
    status, out, err = module.run_command(command, environ_update=ENVIRONMENT)
    if status != 0:
        module.fail_json(msg=f"{module.params['host']}: apt cannot read its sources: {err.strip()}")
    return parse_targets(out)


def update(module: AnsibleModule, *options: str) -> str:
    """Fetch package lists; return what went wrong, or ''."""
    status, said = run_manager(module, ["apt-get", "update", "-o", "APT::Update::Error-Mode=any", *options])
    return "" if status == 0 else " ".join(line for line in said.splitlines() if line[:2] in {"E:", "W:"})


def fetch_index(module: AnsibleModule, text: str) -> None:
    """Fetch the index of what the text names, or fail the module."""
    with tempfile.TemporaryDirectory(prefix="busbar-") as name:
        Path(name).chmod(0o755)
        place = Path(name) / "new.sources"
        place.write_text(text, encoding="utf-8")
        place.chmod(0o644)
        options = {"Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": name, "APT::Get::List-Cleanup": "0"}
        wrong = update(module, *(word for key, value in options.items() for word in ("-o", f"{key}={value}")))
    if wrong:
        remedy = "see that the mirror in the system's own sources has these components"
        components = " ".join(module.params["components"])
        module.fail_json(msg=f"{module.params['host']}: {components} is not available: {wrong}\n    remedy: {remedy}")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    params, path = module.params, Path(module.params["path"])
    before = current_text(path) or ""
    known = targets_of(module)
    if not known and not module.check_mode:
        update(module)
        known = targets_of(module)
    if known:
        after = component_sources(known, params["components"], str(path), params["header"])
    else:  # only in check mode: which repositories lack them shows when there are lists
        after = before or f"{params['header']}\nComponents: {' '.join(params['components'])}\n"
    if after not in {"", before} and not module.check_mode:
        fetch_index(module, after)
    state = "present" if after else "absent"
    changed, diff = keep_files(module, [{"path": str(path), "content": after, "state": state}])
    module.exit_json(changed=bool(changed), changed_paths=changed, diff=diff)


if __name__ == "__main__":
    main()
