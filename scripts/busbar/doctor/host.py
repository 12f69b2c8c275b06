"""Findings about the provisioning host and the site's files on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import time
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.plugin_utils.report_files import folders, read_report
from ansible_collections.busbar.cluster.plugins.plugin_utils.run_lock import (
    Holder,
    LockedError,
    lock_paths,
    refuse_if_locked,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.secret_store import SecretError

from busbar.doctor.finding import ERROR, WARNING, Finding, here
from busbar.errors import UsageError
from busbar.paths import collection
from busbar.run.detached import find, site_runs_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MIN_FREE_MIB = 1024
_OLD_DAYS = 30
_DAY_S = 86400
_SSH_ADD_TIMEOUT_S = 10
_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")


def host_findings(site: Path, *, sandbox: bool, private_keys: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield the problems with the provisioning host.

    Args:
        site: the site's folder, whose disk needs free space.
        sandbox: whether the cluster runs in podman.
        private_keys: SSH key files that the inventory refers to.
    """
    yield from _packages()
    if not (collection() / "playbooks" / "site.yml").is_file():
        remedy = "reinstall busbar: scripts/setup in a checkout, or its wheel"
        yield here(ERROR, "collection", f"busbar.cluster is not in {collection()}", remedy)
    programs = {"ssh": "install the OpenSSH client: apt install openssh-client, dnf install openssh-clients"}
    if sandbox:
        programs["podman"] = "run scripts/setup --sandbox"
    for name, remedy in programs.items():
        if shutil.which(name) is None:
            yield here(ERROR, name, "the program is not installed", remedy)
    if not sandbox:
        yield from _keys(private_keys)
    free = shutil.disk_usage(site).free >> 20
    if free < _MIN_FREE_MIB:
        problem = f"{free} MiB are free (expected at least {_MIN_FREE_MIB} MiB)"
        yield here(ERROR, f"disk {site}", problem, f"delete files: du -x -d2 {site} | sort -n | tail")


def _packages() -> Iterator[Finding]:
    """Yield packages that are missing or have a version that busbar[ansible] does not support."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - `busbar --help` needs no Ansible

    try:
        needed = [Requirement(line) for line in metadata.requires("busbar") or []]
    except metadata.PackageNotFoundError:
        remedy = "install it: scripts/setup in a checkout, or its wheel"
        yield here(ERROR, "busbar", "the package is not installed in this Python", remedy)
        return
    for each in needed:
        if each.marker is not None and not each.marker.evaluate({"extra": "ansible"}):
            continue
        try:
            version = metadata.version(each.name)
        except metadata.PackageNotFoundError:
            version = ""
        if not version or not each.specifier.contains(version, prereleases=True):
            problem = f"version {version} is installed" if version else "the package is not installed"
            problem += f" (expected {each.specifier})"
            yield here(ERROR, each.name, problem, "run scripts/setup, or pip install --upgrade 'busbar[ansible]'")


def _keys(named: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding if no login key exists, and one for each missing key file."""
    for path in sorted(set(named)):
        try:
            problem = "" if Path(path).expanduser().is_file() else "does not exist"
        except PermissionError:
            problem = "cannot be read by this user"
        if problem:
            remedy = "correct ansible_ssh_private_key_file, or create the key: ssh-keygen -t ed25519"
            yield here(ERROR, "ansible_ssh_private_key_file", f"the key {path} {problem}", remedy)
    if named or any((Path.home() / ".ssh" / name).is_file() for name in _KEYS):
        return
    try:
        agent = subprocess.run(
            ["ssh-add", "-l"], check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SSH_ADD_TIMEOUT_S
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        agent = 1
    if agent:
        remedy = "run ssh-keygen -t ed25519 and busbar ssh bootstrap, or ssh-add, or use -k for a password"
        yield here(WARNING, "ssh key", "no key found in ~/.ssh or in an SSH agent", remedy)


def site_findings(site: Path, sources: Sequence[str], secrets: Sequence[Path]) -> Iterator[Finding]:
    """Yield the problems with a site's files.

    Args:
        site: folder of the site.
        sources: sources of its inventory.
        secrets: folders of its secrets.
    """
    for folder in secrets:
        yield from secret_findings(folder)
    yield from _interrupted_runs(site, sources)
    yield from _validation(site)


def secret_findings(folder: Path) -> Iterator[Finding]:
    """Yield secrets that other users can read, or that this user cannot read."""
    if not folder.is_dir():
        return
    modes = [(folder, 0o700)]
    # Public keys may be readable.
    public = (".pub", "known_hosts", "ssh_host_keys.json", ".crt")
    if os.access(folder, os.R_OK | os.X_OK):
        modes += [(path, 0o600) for path in sorted(folder.iterdir()) if path.is_file() and path.suffix != ".lock"]
    for path, mode in modes:
        found = path.stat()
        if found.st_uid != os.geteuid() and os.geteuid() != 0:
            problem = f"is owned by UID {found.st_uid} (expected {os.geteuid()})"
            yield here(ERROR, str(path), problem, f"run busbar as that user, or: sudo chown {os.geteuid()} {path}")
        elif not os.access(path, os.R_OK):
            yield here(ERROR, str(path), "cannot be read", f"chmod {mode:o} {path}")
        elif found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) and not path.name.endswith(public):
            problem = f"is accessible to other users (mode {stat.S_IMODE(found.st_mode):04o})"
            yield here(ERROR, str(path), problem, f"chmod {mode:o} {path}")
    yield from _authority(folder)


def _authority(folder: Path) -> Iterator[Finding]:
    """Yield a finding if this host does not trust the certificate authority of the cluster's host keys."""
    from ansible_collections.busbar.cluster.plugins.plugin_utils.ssh_authority import (  # noqa: PLC0415 - as above
        CURRENT,
        trusted_lines,
    )

    trusted = folder / "known_hosts"
    renew = "busbar provision base --tags ssh"
    try:
        if not (folder / CURRENT).is_file():
            return
        keys = [line.split()[1] for line in trusted_lines(folder, create=False)]
        known = trusted.read_text(encoding="utf-8", errors="replace") if trusted.is_file() else ""
    except PermissionError:
        # `secret_findings` has reported the owner of the folder.
        return
    except (SecretError, OSError) as exc:
        yield here(ERROR, CURRENT, str(exc), renew)
        return
    if not all(key in known for key in keys):
        yield here(ERROR, str(trusted), "does not trust the SSH certificate authority of the cluster", renew)


def is_busy(sources: Sequence[str]) -> str:
    """Return the run that uses the inventory now, or an empty string."""
    try:
        refuse_if_locked(sources)
    except LockedError as exc:
        return str(exc)
    return ""


def _interrupted_runs(site: Path, sources: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding for each run and each detached validation that did not finish."""
    if not is_busy(sources):
        for path in lock_paths(sources):
            holder = None
            with contextlib.suppress(OSError):
                holder = Holder.read(path.read_text(encoding="utf-8", errors="replace"))
            if holder is not None:
                yield here(WARNING, "interrupted run", str(holder), f"run it again: {holder.command}")
    try:
        last = find(site_runs_folder(site))
    except UsageError:
        return
    newer = any(
        (report / "report.json").stat().st_mtime > last.folder.stat().st_mtime for report in _reports(site)[-1:]
    )
    if not last.runs and last.exit_code is None and not newer:
        yield here(WARNING, "validation", f"{last.name} was killed", "restart it: busbar validate --detach")


def _reports(site: Path) -> list[Path]:
    """Return the folders of the reports, oldest first."""
    place = site / "reports"
    return folders(place) if place.is_dir() else []


def _validation(site: Path) -> Iterator[Finding]:
    """Yield the result of the last validation, and its age."""
    known = _reports(site)
    if not known:
        yield here(WARNING, "validation", "the cluster has not been validated", "busbar validate")
        return
    last = known[-1]
    show = f"busbar report show {last.name}"
    try:
        report = read_report(last)
    except (OSError, ValueError) as exc:
        yield here(WARNING, "validation", f"the report {last.name} cannot be read: {exc}", "busbar validate")
        return
    verdict = str(report["verdict"])
    if verdict != "PASS":
        severity = ERROR if verdict == "FAIL" else WARNING
        problem = f"the last validation ({last.name}) ended with {verdict}: {report['reason']}"
        yield here(severity, "validation", problem, f"{show}; busbar validate")
    age = (time.time() - (last / "report.json").stat().st_mtime) / _DAY_S
    if age > _OLD_DAYS:
        when = datetime.fromtimestamp((last / "report.json").stat().st_mtime, timezone.utc).date()
        yield here(WARNING, "validation", f"the last validation is {age:.0f} days old ({when})", "busbar validate")
