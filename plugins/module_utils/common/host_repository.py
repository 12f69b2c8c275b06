# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Configure a signed package repository on a host, or change nothing on failure."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.urls import open_url

from .host_files import keep_files
from .openpgp_key import extract_key, fingerprints, normal_fingerprint
from .package_commands import run_manager
from .package_sources import (
    Source,
    apt_paths,
    apt_preferences,
    apt_source,
    configures_url,
    dnf_paths,
    dnf_repository,
    source_problems,
)

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

__all__ = ["PINS", "RefusedError", "keep_repository"]

PINS: dict[str, Any] = {
    "type": "list",
    "elements": "dict",
    "default": [],
    "options": {
        "packages": {"type": "str", "required": True},
        "version": {"type": "str", "required": True},
        "priority": {"type": "int", "default": 1001},
    },
}
ROOT = Path("/")
KEY_TIMEOUT_S = 30


class RefusedError(Exception):
    """A repository was rejected; the attributes are the option, the problem and the remedy."""

    def __init__(self, option: str, problem: str, remedy: str) -> None:
        """Store the option, the problem and the remedy."""
        super().__init__(problem)
        self.option, self.problem, self.remedy = option, problem, remedy


def read(path: str) -> str | None:
    """Return the text of a file, or None if it does not exist."""
    try:
        return (ROOT / path.lstrip("/")).read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None


def fetch(url: str) -> bytes:
    """Return the content of a URL.

    Raises:
        RefusedError: the download failed.
    """
    try:
        with open_url(url, timeout=KEY_TIMEOUT_S) as answer:
            return bytes(answer.read())
    except Exception as exc:  # the errors of urllib, ssl and http.client have no common base
        remedy = "set a URL that this host can reach, or set key to the key's text"
        raise RefusedError(
            option="key_url", problem=f"cannot download the key from {url}: {exc}", remedy=remedy
        ) from exc


def wanted_key(params: dict[str, Any], present: str | None) -> str:
    """Return only the declared key, armoured: the host's copy if it is valid, otherwise the given or downloaded one.

    Raises:
        RefusedError: the fingerprint differs from the declared one.
    """
    try:
        wanted = normal_fingerprint(params["fingerprint"])
    except ValueError as exc:
        raise RefusedError(
            option="fingerprint", problem=str(exc), remedy="set the fingerprint from the vendor, not from the mirror"
        ) from exc
    if present is not None and not params["key"] and has_only_key(present, wanted):
        return present
    place = "in option key" if params["key"] else f"at {params['key_url']}"
    data = params["key"].encode() if params["key"] else fetch(params["key_url"])
    try:
        key = extract_key(data, wanted)
        found = ", ".join(fingerprints(data))
    except ValueError as exc:
        remedy = "set the URL or file of the key itself; a proxy may have answered instead"
        raise RefusedError(option="key_url", problem=f"the content {place} is not a key: {exc}", remedy=remedy) from exc
    if key is None:
        problem = f"the key {place} has another fingerprint (found {found}, expected {wanted}). Nothing was changed"
        remedy = "ask the vendor for the fingerprint of its signing key; if it equals the one found, set it here"
        raise RefusedError(option="fingerprint", problem=problem, remedy=remedy)
    return key


def has_only_key(text: str, wanted: str) -> bool:
    """Return whether a key file contains only the wanted key."""
    try:
        return fingerprints(text.encode()) == [wanted]
    except ValueError:
        return False


def other_sources(source: Source, own: str) -> list[str]:
    """Return the other apt source files that configure the same repository."""
    folder = ROOT / "etc/apt/sources.list.d"
    files = [ROOT / "etc/apt/sources.list", *folder.glob("*.list"), *folder.glob("*.sources")]
    names = {f"/{path.relative_to(ROOT)}": path for path in files if path.exists()}
    return sorted(
        name for name, path in names.items() if name != own and configures_url(path.read_text("utf-8"), source["url"])
    )


def fetch_index(module: AnsibleModule, source: Source, files: dict[str, str], paths: dict[str, str]) -> None:
    """Test the repository by downloading its index with temporary copies of the new files.

    Raises:
        RefusedError: the download failed.
    """
    with tempfile.TemporaryDirectory(prefix="busbar-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # apt reads the key as user _apt
        (folder / "repos").mkdir(mode=0o755)
        key = folder / Path(paths["key"]).name
        key.write_text(files[paths["key"]], encoding="utf-8")
        key.chmod(0o644)
        text = files[paths["source"]].replace(paths["key"], str(key))
        (folder / "repos" / Path(paths["source"]).name).write_text(text, encoding="utf-8")
        (folder / "repos" / Path(paths["source"]).name).chmod(0o644)
        partial = ROOT / "var/lib/apt/lists/partial"
        before = set(partial.glob("*"))
        status, output = run_update(module, folder / "repos", source["name"])
    if status != 0:
        for left in set(partial.glob("*")) - before:
            left.unlink()
        lines = [line for line in output.splitlines() if line.startswith(("E:", "W:", "Error"))]
        lines = [line for line in lines if "Some index files failed" not in line]
        reason = " ".join(lines or output.splitlines()[-5:])
        remedy = "check its URL and that the declared key signs it. Nothing was changed"
        raise RefusedError(option="url", problem=f"repository {source['url']} cannot be used: {reason}", remedy=remedy)


def run_update(module: AnsibleModule, sources: Path, name: str) -> tuple[int, str]:
    """Update the index of the sources in a folder; return exit status and output, in English."""
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
    """Check the source declaration.

    Raises:
        RefusedError: the declaration is invalid.
    """
    for problem in source_problems(source):
        raise RefusedError(*problem)
    if not params["key"] and not params["key_url"]:
        raise RefusedError(option="key_url", problem="the key is missing", remedy="set key_url or key")


def plan(module: AnsibleModule, params: dict[str, Any], source: Source) -> tuple[dict[str, str], dict[str, str]]:
    """Return the contents of the repository's files ('' removes a file), and the paths of key and source.

    Raises:
        RefusedError: the declaration is invalid.
    """
    on_apt = bool(module.get_bin_path("apt-get"))
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
        if others := other_sources(source, paths["source"]):
            remedy = (
                "remove that entry (a package such as cuda-keyring may have added it), because apt accepts one key "
                "per repository"
            )
            raise RefusedError(
                option="url", problem=f"{source['url']} is already configured in {', '.join(others)}", remedy=remedy
            )
        files[paths["source"]] = apt_source(source, paths["key"], params["header"])
        files[paths["preferences"]] = apt_preferences([], params["header"], source)
        if params["owner"]:
            files[pins] = apt_preferences(params["pins"], params["header"])
    else:
        checks = {"packages": params["signed_packages"], "metadata": params["signed_metadata"]}
        files[paths["source"]] = dnf_repository(source, paths["key"], params["header"], checks)
    return files, paths


def keep_repository(module: AnsibleModule, params: dict[str, Any]) -> dict[str, Any]:
    """Write or remove the files of a repository, except in check mode; return the result of the module.

    Args:
        module: the running module.
        params: options of the package_repository module.

    Raises:
        RefusedError: the repository is rejected; nothing was changed.
    """
    source: Source = {key: params[key] for key in ("name", "url", "suite", "components", "priority")}  # type: ignore[assignment]
    files, paths = plan(module, params, source)
    unknown = any((read(paths[part]) or "") != files[paths[part]] for part in ("key", "source"))
    if unknown and params["state"] == "present" and not module.check_mode:
        fetch_index(module, source, files, paths)
    items = [
        {"path": str(ROOT / path.lstrip("/")), "content": text, "state": "present" if text else "absent"}
        for path, text in files.items()
    ]
    written, diff = keep_files(module, items)
    return {"changed": bool(written), "changed_paths": written, "diff": diff}
