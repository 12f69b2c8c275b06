"""Module that configures a signed package repository, or changes nothing on failure."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_repository
author: busbar contributors (!UNKNOWN)
short_description: Configure a signed package repository
description:
  - Writes the key, the source and the preferences of a package repository, for apt or dnf.
  - Trusts only the key with O(fingerprint). Ignores other keys in the file, and fails if it contains only other keys.
  - Fetches and verifies the index with that key before it activates a new or changed repository. If the signature is
    wrong or the server does not answer, the module fails without changes.
  - Fetches nothing if key and source are unchanged, so later runs work without the network.
  - Requires neither gpg nor Python's apt bindings.
  - With O(distribution), adds components to the distribution's repositories instead. Reads the repositories of the host
    from apt, including a site's mirror, and adds the missing components with the same addresses, suites and keys. In
    check mode a host without package lists reports that it would add them.
notes:
  - Writes C(/etc/apt/keyrings/busbar-NAME.asc), C(/etc/apt/sources.list.d/busbar-NAME.sources),
    C(/etc/apt/preferences.d/busbar-repository-NAME.pref) and C(/etc/apt/preferences.d/busbar-OWNER.pref), or with dnf
    C(/etc/pki/rpm-gpg/RPM-GPG-KEY-busbar-NAME) and C(/etc/yum.repos.d/busbar-NAME.repo).
attributes:
  check_mode:
    description:
      - Can run in check mode and return changed status prediction without modifying target.
      - A missing key is fetched and verified in check mode, too; the index is not.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: full
options:
  name:
    description: Short name, used in file names. With O(distribution), use V(components).
    type: str
    required: true
  host:
    description: Name of the host, for messages.
    type: str
    required: true
  state:
    description: Whether the repository should be configured. C(absent) does not remove packages that came from it.
    type: str
    choices: [present, absent]
    default: present
  url:
    description: URL of the repository.
    type: str
    default: ''
  suite:
    description: Suite. If it ends with C(/), the repository is flat. Only for apt.
    type: str
    default: ./
  components:
    description: Components of the suite. Only for apt.
    type: list
    elements: str
    default: []
  distribution:
    description: Whether to add O(components) to the distribution's repositories. Only for apt.
    type: bool
    default: false
  fingerprint:
    description: Fingerprint of the key, 40 hexadecimal digits, with or without spaces.
    type: str
    default: ''
  nvidia:
    description:
      - For a repository of NVIDIA, V(cuda), V(libnvidia-container) or V(doca). Address and key default to those of
        NVIDIA for this system and override the options of the same name.
    type: dict
    suboptions:
      declared:
        description:
          - C(urls), C(key_urls) and C(fingerprints) of the site, by name of the repository.
          - C(url), C(suite), C(components), C(key_url), C(key_file), C(fingerprint) and C(priority) of the calling
            role. Empty values default to NVIDIA's.
        type: dict
        required: true
      system:
        description: The host's C(distribution), C(version), C(major), C(family) and C(architecture).
        type: dict
        required: true
  key:
    description: The key, ASCII-armored. Overrides O(key_url).
    type: str
    default: ''
  key_url:
    description: URL of the key. The host fetches it.
    type: str
    default: ''
  pins:
    description: Pinned versions of packages. Only for apt.
    type: list
    elements: dict
    default: []
    suboptions:
      packages:
        description: Names or patterns of the packages to pin, separated by spaces.
        type: str
        required: true
      version:
        description: Version or pattern to pin.
        type: str
        required: true
      priority:
        description: Pin priority. Above 1000, installed packages are also downgraded.
        type: int
        default: 1001
  owner:
    description: Owner of the pins, used in the name of their file. Without it no pins are written.
    type: str
    default: ''
  bundle:
    description: >-
      URL of a bundle of C(busbar bundle), from which the repository and its key are used instead of O(url) and
      O(key_url).
    type: str
    default: ''
  header:
    description: Lines that are written as comments at the top of each file.
    type: str
    default: '# Written by busbar.'
"""

EXAMPLES = r"""
- name: Configure a repository of the site
  busbar.cluster.package_repository:
    name: site
    host: "{{ inventory_hostname }}"
    url: https://mirror.example.org/site/debian13/
    key_url: https://mirror.example.org/site/key.asc
    fingerprint: 02182E60104FCDC26EAE1B8597A5D4CB8793F200
"""

RETURN = r"""
changed_paths:
  description: The files that were (or in check mode would be) written or removed.
  returned: always
  type: list
  elements: str
problems:
  description: Reasons why the repository cannot be configured, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_files import current_text, keep_files
from ..module_utils.common.host_repository import PINS, RefusedError, keep_repository
from ..module_utils.common.package_commands import run_manager
from ..module_utils.common.package_sources import NORMAL_PRIORITY
from ..module_utils.common.problems import make_problem, problem_lines, refusal
from ..module_utils.nvidia.repositories import nvidia_repository

if TYPE_CHECKING:
    from collections.abc import Iterable

OPTIONS: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "host": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "url": {"type": "str", "default": ""},
    "suite": {"type": "str", "default": "./"},
    "components": {"type": "list", "elements": "str", "default": []},
    "distribution": {"type": "bool", "default": False},
    "fingerprint": {"type": "str", "default": ""},
    "nvidia": {
        "type": "dict",
        "options": {"declared": {"type": "dict", "required": True}, "system": {"type": "dict", "required": True}},
    },
    "key": {"type": "str", "default": "", "no_log": False},
    "key_url": {"type": "str", "default": "", "no_log": False},
    "pins": PINS,
    "owner": {"type": "str", "default": ""},
    "bundle": {"type": "str", "default": ""},
    "header": {"type": "str", "default": "# Written by busbar."},
}

# NVIDIA's repositories override these defaults. With apt the index is always signed.
DEFAULTS = {"priority": NORMAL_PRIORITY, "signed_packages": True, "signed_metadata": False}
# Options of the nvidia_repository role that a site declares by repository name.
BY_NAME = ("url", "key_url", "fingerprint")
# Format for `apt-get indextargets --format`; entries end with a separator, because an embedded key has many lines.
FIELDS = ("SOURCESENTRY", "REPO_URI", "RELEASE", "COMPONENT", "ORIGIN", "SIGNED_BY")
SEPARATOR, END = "\x1f", "\x1e"
TARGET_FORMAT = SEPARATOR.join(f"$({field})" for field in FIELDS) + END
DISTRIBUTIONS = ("Debian", "Ubuntu")


class Target(TypedDict):
    """An index of apt: source file, repository URL, suite, component, origin and key."""

    file: str
    uri: str
    suite: str
    component: str
    origin: str
    signed_by: str


def parse_targets(text: str) -> list[Target]:
    """Return the output of `apt-get indextargets` in TARGET_FORMAT; unknown fields are ''."""
    targets: list[Target] = []
    for entry in text.split(END):
        values = entry.strip().split(SEPARATOR)
        if len(values) != len(FIELDS):
            continue
        known = ["" if value.startswith("$(") else value for value in values]
        targets.append(
            {
                "file": known[0].rpartition(":")[0],
                "uri": known[1],
                "suite": known[2],
                "component": known[3],
                "origin": known[4],
                "signed_by": known[5],
            }
        )
    return targets


def component_sources(targets: Iterable[Target], wanted: Iterable[str], own: str, header: str) -> str:
    """Return the text of a .sources file that adds the wanted components to each repository of the distribution.

    The file `own` itself is ignored. Return '' if the other files already have all components.
    """
    present: dict[tuple[str, str, str], set[str]] = {}
    for target in targets:
        if target["origin"] in DISTRIBUTIONS and target["file"] != own:
            place = (target["uri"], target["suite"], target["signed_by"])
            present.setdefault(place, set()).add(target["component"])
    stanzas = []
    for (uri, suite, signed_by), components in present.items():
        missing = [component for component in wanted if component not in components]
        if missing and "main" in components:
            lines = ["Types: deb", f"URIs: {uri}", f"Suites: {suite}", f"Components: {' '.join(missing)}"]
            if signed_by:
                lines.append("Signed-By: " + signed_by.strip().replace("\n", "\n "))
            stanzas.append("\n".join(lines) + "\n")
    return "\n".join([f"{header}\n", *stanzas]) if stanzas else ""


def targets_of(module: AnsibleModule) -> list[Target]:
    """Return the package indexes that apt fetches."""
    command = ["apt-get", "indextargets", "--format", TARGET_FORMAT, "Created-By: Packages"]
    status, out, err = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})
    if status != 0:
        module.fail_json(msg=f"{module.params['host']}: apt cannot read its sources: {err.strip()}")
    return parse_targets(out)


def update(module: AnsibleModule, *options: str) -> str:
    """Update the package lists; return the errors, or ''."""
    status, output = run_manager(module, ["apt-get", "update", "-o", "APT::Update::Error-Mode=any", *options])
    return "" if status == 0 else " ".join(line for line in output.splitlines() if line[:2] in {"E:", "W:"})


def fetch_index(module: AnsibleModule, text: str) -> None:
    """Fetch the index of the sources in `text`, or fail the module."""
    with tempfile.TemporaryDirectory(prefix="busbar-") as name:
        Path(name).chmod(0o755)
        place = Path(name) / "new.sources"
        place.write_text(text, encoding="utf-8")
        place.chmod(0o644)
        options = {"Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": name, "APT::Get::List-Cleanup": "0"}
        wrong = update(module, *(word for key, value in options.items() for word in ("-o", f"{key}={value}")))
    if wrong:
        remedy = "check that the mirror in the system's apt sources offers these components"
        components = " ".join(module.params["components"])
        module.fail_json(msg=f"{module.params['host']}: {components} not available: {wrong}\n    remedy: {remedy}")


def keep_components(module: AnsibleModule) -> None:
    """Add components to the distribution's repositories, and exit the module."""
    params, path = module.params, Path(f"/etc/apt/sources.list.d/busbar-{module.params['name']}.sources")
    before = current_text(path) or ""
    known = targets_of(module)
    if not known and not module.check_mode:
        update(module)
        known = targets_of(module)
    if known:
        after = component_sources(known, params["components"], str(path), params["header"])
    else:  # check mode without package lists: the repositories that lack the components are unknown
        after = before or f"{params['header']}\nComponents: {' '.join(params['components'])}\n"
    if after not in {"", before} and not module.check_mode:
        fetch_index(module, after)
    state = "present" if after else "absent"
    changed, diff = keep_files(module, [{"path": str(path), "content": after, "state": state}])
    module.exit_json(changed=bool(changed), changed_paths=changed, diff=diff)


def bundled(bundle: str, url: str) -> str:
    """Return the URL of the copy in a bundle."""
    return f"{bundle}/files/{url.partition('://')[2]}" if url else url


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if module.params["distribution"]:
        keep_components(module)
    params, nvidia = DEFAULTS | module.params, module.params["nvidia"]
    name, host = params["name"], params["host"]
    if nvidia:
        chosen = nvidia_repository(name, nvidia["system"], nvidia["declared"], host)
        if chosen["problems"] and params["state"] == "present":
            module.fail_json(**refusal("This step changed nothing:", chosen["problems"]))
        params = params | chosen
    if params["bundle"]:
        params = params | {key: bundled(params["bundle"], params[key]) for key in ("url", "key_url")}
    try:
        done = keep_repository(module, params)
    except RefusedError as exc:
        option = f"{exc.option}s.{name}" if nvidia and exc.option in BY_NAME else exc.option
        key = f"{'nvidia' if nvidia else name}_repository_{option}"
        problem = make_problem([host], key, exc.problem, exc.remedy)
        module.fail_json(msg="\n".join(problem_lines(problem, host)), problems=[problem])
    module.exit_json(**done)


if __name__ == "__main__":
    main()
