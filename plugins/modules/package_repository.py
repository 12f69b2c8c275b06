"""Module that makes a signed package repository known, or leaves everything as it was."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_repository
author: busbar contributors
short_description: Make a signed package repository known
description:
  - Writes the key, the source and the preferences of a package repository, for apt or dnf.
  - The key is trusted by its fingerprint. Other keys in its file are left out; a file with only others is refused.
  - Before a new or changed repository is put in place, its index is fetched with that key. When its signature is wrong,
    or it does not answer, the module fails and nothing has changed.
  - When key and source are as they should be, nothing is fetched. So a later run works without the network.
  - Neither gpg nor Python's apt bindings are needed.
notes:
  - Writes C(/etc/apt/keyrings/busbar-NAME.asc), C(/etc/apt/sources.list.d/busbar-NAME.sources),
    C(/etc/apt/preferences.d/busbar-repository-NAME.pref) and C(/etc/apt/preferences.d/busbar-OWNER.pref), or with dnf
    C(/etc/pki/rpm-gpg/RPM-GPG-KEY-busbar-NAME) and C(/etc/yum.repos.d/busbar-NAME.repo).
attributes:
  check_mode:
    description:
      - Can run in check mode and return changed status prediction without modifying target.
      - A key that is not there yet is fetched and checked then, too; the index is not.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: full
options:
  name:
    description: Short name, of which the names of the files are made.
    type: str
    required: true
  host:
    description: Name of the host, for messages.
    type: str
    default: ''
  state:
    description: Whether the repository should be known. C(absent) leaves the packages that came from it.
    type: str
    choices: [present, absent]
    default: present
  url:
    description: Address of the repository.
    type: str
    default: ''
  suite:
    description: Suite; one that ends in C(/) is a flat one. Only for apt.
    type: str
    default: ./
  components:
    description: Components of the suite. Only for apt.
    type: list
    elements: str
    default: []
  fingerprint:
    description: Fingerprint of the key, 40 hexadecimal digits, with or without spaces.
    type: str
    default: ''
  key:
    description: The key itself, armoured. Goes before O(key_url).
    type: str
    default: ''
  key_url:
    description: Where the host fetches the key.
    type: str
    default: ''
  priority:
    description: Priority of what this repository's host serves, as in apt_preferences(5). 500 is that of any other.
    type: int
    default: 500
  signed_packages:
    description: Whether each package carries a signature of the key. Only for dnf.
    type: bool
    default: true
  signed_metadata:
    description: Whether the index carries one. Only for dnf; for apt it always does.
    type: bool
    default: false
  pins:
    description: Versions at which packages are kept. Only for apt.
    type: list
    elements: dict
    default: []
    suboptions:
      packages:
        description: Names or patterns, separated by spaces.
        type: str
        required: true
      version:
        description: Version or pattern.
        type: str
        required: true
      priority:
        description: Above 1000, what is installed is taken back to it, too.
        type: int
        default: 1001
  owner:
    description: Whose pins these are, for the name of their file. Without it there are none.
    type: str
    default: ''
  header:
    description: First lines of each file, as comments.
    type: str
    default: '# Written by busbar.'
"""

EXAMPLES = r"""
- name: Know a mirror of NVIDIA's repository
  busbar.cluster.package_repository:
    name: cuda
    url: https://mirror.example.org/cuda/debian13/x86_64/
    key_url: https://mirror.example.org/cuda/debian13/x86_64/8793F200.pub
    fingerprint: 02182E60104FCDC26EAE1B8597A5D4CB8793F200
"""

RETURN = r"""
changed_paths:
  description: The files that were (or in check mode would be) written or removed.
  returned: always
  type: list
  elements: str
"""

import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils.common.openpgp_key import (
    extract_key,
    fingerprints,
    normal_fingerprint,
)
from ..module_utils.common.package_commands import run_manager
from ..module_utils.common.package_sources import (
    NORMAL_PRIORITY,
    Source,
    apt_paths,
    apt_preferences,
    apt_source,
    dnf_paths,
    dnf_repository,
    source_problems,
    speaks_of,
)

OPTIONS: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "host": {"type": "str", "default": ""},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "url": {"type": "str", "default": ""},
    "suite": {"type": "str", "default": "./"},
    "components": {"type": "list", "elements": "str", "default": []},
    "fingerprint": {"type": "str", "default": ""},
    "key": {"type": "str", "default": "", "no_log": False},
    "key_url": {"type": "str", "default": "", "no_log": False},
    "priority": {"type": "int", "default": NORMAL_PRIORITY},
    "signed_packages": {"type": "bool", "default": True},
    "signed_metadata": {"type": "bool", "default": False},
    "pins": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "packages": {"type": "str", "required": True},
            "version": {"type": "str", "required": True},
            "priority": {"type": "int", "default": 1001},
        },
    },
    "owner": {"type": "str", "default": ""},
    "header": {"type": "str", "default": "# Written by busbar."},
}
# What a site declares for each repository by its name.
BY_NAME = ("url", "key_url", "fingerprint")
ROOT = Path("/")
KEY_TIMEOUT_S = 30


class RefusedError(Exception):
    """What is wrong, and the way out."""

    def __init__(self, option: str, problem: str, remedy: str) -> None:
        """Keep the option that is at fault with problem and remedy."""
        super().__init__(problem)
        self.option, self.problem, self.remedy = option, problem, remedy


def read(path: str) -> str | None:
    """Return the text of a file of the host, or None when there is none."""
    try:
        return (ROOT / path.lstrip("/")).read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None


def fetch(url: str) -> bytes:
    """Return what lies at an address.

    Raises:
        RefusedError: when it is not available.
    """
    try:
        with open_url(url, timeout=KEY_TIMEOUT_S) as answer:
            return bytes(answer.read())
    except Exception as exc:  # the errors of urllib, ssl and http.client have no common base
        remedy = "give an address that this host reaches, or the key as a file (nvidia_repository_key_files)"
        raise RefusedError(
            option="key_url", problem=f"the key at {url} cannot be fetched: {exc}", remedy=remedy
        ) from exc


def wanted_key(params: dict[str, Any], present: str | None) -> str:
    """Return the key alone, armoured: the one on the host when it is the right one, else the one given or fetched.

    Raises:
        RefusedError: when it is not the key that was declared.
    """
    try:
        wanted = normal_fingerprint(params["fingerprint"])
    except ValueError as exc:
        raise RefusedError(
            option="fingerprint", problem=str(exc), remedy="take it from the vendor, not from the mirror"
        ) from exc
    if present is not None and not params["key"] and sound(present, wanted):
        return present
    place = "given" if params["key"] else f"at {params['key_url']}"
    data = params["key"].encode() if params["key"] else fetch(params["key_url"])
    try:
        key = extract_key(data, wanted)
        found = ", ".join(fingerprints(data))
    except ValueError as exc:
        remedy = "give the address (or file) of the key itself; perhaps a proxy answered in its place"
        raise RefusedError(option="key_url", problem=f"what is {place} is no key: {exc}", remedy=remedy) from exc
    if key is None:
        problem = f"the key {place} is {found}, but {wanted} is declared; nothing was changed"
        remedy = "ask the vendor which key it signs with; if it is this one, declare its fingerprint"
        raise RefusedError(option="fingerprint", problem=problem, remedy=remedy)
    return key


def sound(text: str, wanted: str) -> bool:
    """Return whether a key file holds the wanted key and no other."""
    try:
        return fingerprints(text.encode()) == [wanted]
    except ValueError:
        return False


def others_of(source: Source, own: str) -> list[str]:
    """Return the apt sources of others that name the same repository."""
    folder = ROOT / "etc/apt/sources.list.d"
    files = [ROOT / "etc/apt/sources.list", *folder.glob("*.list"), *folder.glob("*.sources")]
    names = {f"/{path.relative_to(ROOT)}": path for path in files if path.exists()}
    return sorted(
        name for name, path in names.items() if name != own and speaks_of(path.read_text("utf-8"), source["url"])
    )


def fetch_index(module: AnsibleModule, source: Source, files: dict[str, str], paths: dict[str, str]) -> None:
    """Fetch the index with the files that are not in place yet.

    Raises:
        RefusedError: when that fails.
    """
    with tempfile.TemporaryDirectory(prefix="busbar-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # apt reads the key as a user of its own
        (folder / "repos").mkdir(mode=0o755)
        key = folder / Path(paths["key"]).name
        key.write_text(files[paths["key"]], encoding="utf-8")
        key.chmod(0o644)
        text = files[paths["source"]].replace(paths["key"], str(key))
        (folder / "repos" / Path(paths["source"]).name).write_text(text, encoding="utf-8")
        (folder / "repos" / Path(paths["source"]).name).chmod(0o644)
        partial = ROOT / "var/lib/apt/lists/partial"
        before = set(partial.glob("*"))
        status, said = run_update(module, folder / "repos", source["name"])
    if status != 0:
        for left in set(partial.glob("*")) - before:
            left.unlink()
        lines = [line for line in said.splitlines() if line.startswith(("E:", "W:", "Error"))]
        lines = [line for line in lines if "Some index files failed" not in line]
        reason = " ".join(lines or said.splitlines()[-5:])
        remedy = "check its address and that it is signed by the declared key; nothing was changed"
        raise RefusedError(option="url", problem=f"repository {source['url']} is refused: {reason}", remedy=remedy)


def run_update(module: AnsibleModule, sources: Path, name: str) -> tuple[int, str]:
    """Fetch the index of what the folder names; return the status and what was said, in English."""
    if module.get_bin_path("apt-get"):
        options = {
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": sources,
            "APT::Get::List-Cleanup": 0,
            "APT::Update::Error-Mode": "any",
        }
        command = ["apt-get", "update", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    else:
        command = ["dnf", "-y", f"--setopt=reposdir={sources}", f"--repo=busbar-{name}", "makecache"]
    return run_manager(module, command, {"LC_ALL": "C.UTF-8"})


def check_source(params: dict[str, Any], source: Source) -> None:
    """See that the source can be written down.

    Raises:
        RefusedError: when it cannot.
    """
    for problem in source_problems(source):
        raise RefusedError(*problem)
    if not params["key"] and not params["key_url"]:
        raise RefusedError(option="key_url", problem="no key is given", remedy="give its address or its file")


def plan(module: AnsibleModule, source: Source) -> tuple[dict[str, str], dict[str, str]]:
    """Return the files of the repository, each with its text ('': absent), and where key and source lie.

    Raises:
        RefusedError: when the repository cannot be known as it is declared.
    """
    params, on_apt = module.params, bool(module.get_bin_path("apt-get"))
    paths = apt_paths(params["name"]) if on_apt else dnf_paths(params["name"])
    files = dict.fromkeys(paths.values(), "")
    pins = f"/etc/apt/preferences.d/busbar-{params['owner']}.pref"
    if params["owner"] and on_apt:
        files[pins] = ""
    if params["state"] == "absent":
        return files, paths
    check_source(params, source)
    files[paths["key"]] = wanted_key(params, read(paths["key"]))
    if on_apt:
        if others := others_of(source, paths["source"]):
            remedy = (
                "remove it there (a package such as cuda-keyring may have brought it), since apt wants one key each"
            )
            raise RefusedError(
                option="url", problem=f"{source['url']} is already named in {', '.join(others)}", remedy=remedy
            )
        files[paths["source"]] = apt_source(source, paths["key"], params["header"])
        files[paths["preferences"]] = apt_preferences([], params["header"], source)
        if params["owner"]:
            files[pins] = apt_preferences(params["pins"], params["header"])
    else:
        checks = {"packages": params["signed_packages"], "metadata": params["signed_metadata"]}
        files[paths["source"]] = dnf_repository(source, paths["key"], params["header"], checks)
    return files, paths


def put(module: AnsibleModule, path: str, text: str) -> None:
    """Write a file whole, or remove it when there is no text."""
    place = ROOT / path.lstrip("/")
    if not text:
        place.unlink()
        return
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", prefix="busbar-", delete=False, encoding="utf-8") as stream:
        stream.write(text)
    Path(stream.name).chmod(0o644)
    module.add_cleanup_file(stream.name)
    module.atomic_move(stream.name, str(place))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    params = module.params
    source: Source = {key: params[key] for key in ("name", "url", "suite", "components", "priority")}  # type: ignore[assignment]
    try:
        files, paths = plan(module, source)
        before = {path: read(path) or "" for path in files}
        changed = [path for path, text in files.items() if before[path] != text]
        unknown = {paths["key"], paths["source"]} & set(changed)
        if unknown and params["state"] == "present" and not module.check_mode:
            fetch_index(module, source, files, paths)
    except RefusedError as exc:
        declared = f"{exc.option}s.{params['name']}" if exc.option in BY_NAME else exc.option
        place = ": ".join(filter(None, (params["host"], f"nvidia_repository_{declared}")))
        module.fail_json(msg=f"{place}: {exc.problem}\n    remedy: {exc.remedy}")
    if not module.check_mode:
        for path in changed:
            put(module, path, files[path])
    diff = [
        {"before": before[path], "after": files[path], "before_header": path, "after_header": path} for path in changed
    ]
    module.exit_json(changed=bool(changed), changed_paths=changed, diff=diff)


if __name__ == "__main__":
    main()
