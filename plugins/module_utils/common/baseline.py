"""The state of a host before busbar, saved once before the first change; `uninstall` compares the host with it.

`/var/lib/busbar/baseline` (readable only by root) contains
- `host.json`: packages, holds, users, groups, units and paths before the first change;
- `files`: copies of `/etc`, and of each other file that busbar replaced, made before the first write;
- `written`: one line for each changed file, with the hash that busbar wrote, to detect later manual changes;
- `last`: the content that busbar last wrote to files that also contain lines of other programs.

apt logs the transactions of busbar to history-busbar.log; `dnf history` shows them with a comment.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible.module_utils.basic import AnsibleModule

__all__ = [
    "ACCOUNTS",
    "BASELINE",
    "COMMENT",
    "HISTORY",
    "SHARED",
    "TOPS",
    "active_units",
    "before_making",
    "before_packages",
    "before_write",
    "dnf_transactions",
    "installed_packages",
    "listed_paths",
    "names_in",
    "read_written",
    "signs_of_busbar",
    "take_baseline",
    "units",
]

ACCOUNTS = {"users": Path("/etc/passwd"), "groups": Path("/etc/group")}
BASELINE = Path("/var/lib/busbar/baseline")
HISTORY = Path("/var/log/apt/history-busbar.log")
COMMENT = "--comment=busbar"
# Directories whose entries are listed; other directories contain files of the system, of packages and of users.
TOPS = ("/etc", "/usr/local", "/opt", "/srv", "/root", "/var/lib", "/var/log", "/var/spool", "/var/cache")
# Other programs also add lines to these files. A comparison with the content that busbar last wrote identifies them.
SHARED = ("/etc/hosts", "/etc/fstab")
# Accounts are removed with userdel and groupdel, never restored from a copy.
_SECRETS = ("shadow", "shadow-", "gshadow", "gshadow-")
# Files of older busbar releases that did not take a baseline.
_OLDER = ("/etc/sudoers.d/busbar", "/usr/local/lib/busbar", "/etc/security/limits.d/80-busbar.conf")
_DPKG = "${Package}\\t${Version}\\t${db:Status-Status}\\n"
_RPM = "%{NAME}\t%{VERSION}-%{RELEASE}\n"
_UNIT_FIELDS = 2


def take_baseline(module: AnsibleModule) -> None:
    """Take the baseline unless it exists; fail the module if it cannot be saved."""
    if module.check_mode or (BASELINE / "host.json").exists():
        return
    fresh = BASELINE.with_name("baseline.new")
    try:
        older = signs_of_busbar()
        BASELINE.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = os.open(BASELINE.parent, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not BASELINE.exists():
                shutil.rmtree(fresh, ignore_errors=True)
                (fresh / "files").mkdir(mode=0o700, parents=True)
                fresh.chmod(0o700)
                _output(module, "cp", "-a", "--one-file-system", "/etc", str(fresh / "files"))
                for name in _SECRETS:
                    (fresh / "files/etc" / name).unlink(missing_ok=True)
                (fresh / "host.json").write_text(json.dumps({**_host(module), "older": older}), encoding="utf-8")
                _output(module, "sync", "--file-system", str(fresh))
                fresh.rename(BASELINE)
        finally:
            os.close(lock)
    except OSError as exc:
        module.fail_json(msg=f"{BASELINE}: the state of this host cannot be saved, so nothing was changed: {exc}")


def before_write(module: AnsibleModule, files: Mapping[str, str | bytes | None]) -> None:
    """Record files before they are written, or removed (content None)."""
    data = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    _append(
        module, {name: "absent" if text is None else hashlib.sha256(text).hexdigest() for name, text in data.items()}
    )
    if module.check_mode:
        return
    for name in SHARED:
        if (text := data.get(name)) is not None:
            last = BASELINE / "last" / Path(name).name
            last.parent.mkdir(mode=0o700, exist_ok=True)
            last.write_bytes(text)


def before_making(module: AnsibleModule, kind: str, *paths: Path) -> None:
    """Record a `directory`, `link` or `tree` before busbar creates it; `uninstall` removes it with its contents."""
    _append(module, {str(path): kind for path in paths})


def before_packages(module: AnsibleModule, command: Sequence[str]) -> list[str]:
    """Take the baseline before a package manager runs; return the command that marks its transaction as busbar's."""
    take_baseline(module)
    words = list(command)
    if module.check_mode:
        return words
    if "install" in words:  # an interrupted uninstallation is not resumed after an installation
        (BASELINE / "going").unlink(missing_ok=True)
    if words[:2] == ["apt-mark", "hold"]:
        _append(module, dict.fromkeys(words[2:], "hold"))
    if words[0] == "dnf" and "versionlock" not in words:
        return ["dnf", COMMENT, *words[1:]]
    return ["apt-get", "-o", f"Dir::Log::History={HISTORY}", *words[1:]] if words[0] == "apt-get" else words


def read_written() -> dict[str, list[str]]:
    """Return the hashes and kinds that busbar wrote at each path, oldest first."""
    found: dict[str, list[str]] = {}
    path = BASELINE / "written"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        kind, _, name = line.partition(" ")
        found.setdefault(name, []).append(kind)
    return found


def _append(module: AnsibleModule, entries: Mapping[str, str]) -> None:
    """Add lines to `written`, and copy files outside /etc before they are replaced for the first time."""
    take_baseline(module)
    if module.check_mode or not entries:
        return
    try:
        known = read_written()
        for name in entries.keys() - known.keys():
            if name.startswith("/") and not name.startswith("/etc/") and Path(name).is_file():
                copy = BASELINE / "files" / name.lstrip("/")
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(name, copy, follow_symlinks=False)
                shutil.chown(copy, Path(name).stat().st_uid, Path(name).stat().st_gid)
        with (BASELINE / "written").open("a", encoding="utf-8") as stream:
            stream.writelines(f"{kind} {name}\n" for name, kind in entries.items())
    except OSError as exc:
        module.fail_json(msg=f"{BASELINE}: the previous files cannot be saved, so nothing was changed: {exc}")


def _host(module: AnsibleModule) -> dict[str, Any]:
    """Return packages, holds, accounts, units and paths of this host."""
    held = _output(module, "apt-mark", "showhold").split() if module.get_bin_path("apt-mark") else []
    return {
        "format": 2,
        "time": int(time.time()),
        "packages": installed_packages(module),
        "held": held,
        **{kind: names_in(path) for kind, path in ACCOUNTS.items()},
        "units": units(module),
        "active": active_units(module),
        "paths": listed_paths(module),
        # Skip history from before the baseline.
        "history": HISTORY.stat().st_size if HISTORY.exists() else 0,
        "transactions": dnf_transactions(module),
    }


def dnf_transactions(module: AnsibleModule) -> list[str]:
    """Return the IDs of the transactions in the history of dnf."""
    if module.get_bin_path("dpkg-query") or not module.get_bin_path("dnf"):
        return []
    return re.findall(r"^ *(\d+) \|", module.run_command(["dnf", "-q", "history", "list"])[1], re.MULTILINE)


def names_in(path: Path) -> dict[str, int]:
    """Return the accounts in a file such as /etc/passwd with their IDs."""
    rows = (line.split(":") for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    return {row[0]: int(row[2]) for row in rows if len(row) > _UNIT_FIELDS and row[2].isdigit()}


def listed_paths(module: AnsibleModule) -> list[str]:
    """Return the paths below TOPS on the same file system, three levels deep."""
    words = ["find", *TOPS, "-xdev", "-mindepth", "1", "-maxdepth", "3"]
    # `find` fails if a directory is missing or is removed during the run, but lists the others.
    return str(module.run_command(words)[1]).splitlines()


def installed_packages(module: AnsibleModule) -> dict[str, tuple[str, bool]]:
    """Return the version of each installed package, and whether it was installed as a dependency."""
    if module.get_bin_path("dpkg-query"):
        rows = [line.split("\t") for line in _output(module, "dpkg-query", "-W", "-f", _DPKG).splitlines()]
        automatic = set(_output(module, "apt-mark", "showauto").split())
        return {row[0]: (row[1], row[0] in automatic) for row in rows if row[2] == "installed"}
    rows = [line.split("\t") for line in _output(module, "rpm", "-qa", "--qf", _RPM).splitlines()]
    wanted = set(_output(module, "dnf", "-q", "repoquery", "--userinstalled", "--qf", "%{name}\\n").split())
    return {row[0]: (row[1], row[0] not in wanted) for row in rows}


def signs_of_busbar() -> list[str]:
    """Return traces of an older busbar release that changed this host without a baseline.

    Files that an uninstallation kept, and the dumps of upgrade_slurm, are ignored.
    """
    found = [path for path in _OLDER if Path(path).exists()]
    beside = BASELINE.parent.iterdir() if BASELINE.parent.is_dir() else []
    left = {BASELINE.name, "baseline.new", "kept", "upgrade_slurm"}
    found += sorted(str(path) for path in beside if path.name not in left)
    if "# BEGIN busbar" in Path("/etc/hosts").read_text(encoding="utf-8", errors="replace"):
        found.append("host names of the cluster in /etc/hosts")
    return found


def units(module: AnsibleModule) -> dict[str, str]:
    """Return the unit files and whether they are enabled."""
    listed = _output(module, "systemctl", "list-unit-files", "--no-legend", "--no-pager", "--plain")
    rows = (line.split() for line in listed.splitlines())
    return {row[0]: row[1] for row in rows if len(row) >= _UNIT_FIELDS}


def active_units(module: AnsibleModule) -> list[str]:
    """Return the services, sockets and timers that are active."""
    # sd_booted(3): the directory is missing if systemd is not the init process.
    if not Path("/run/systemd/system").is_dir():
        return []
    kinds = "--type=service,socket,timer,path"
    listed = _output(module, "systemctl", "list-units", kinds, "--state=active", "--no-legend", "--no-pager", "--plain")
    return sorted(row[0] for row in (line.split() for line in listed.splitlines()) if row)


def _output(module: AnsibleModule, *words: str) -> str:
    """Return the output of a program.

    Raises:
        OSError: the program failed.
    """
    # systemctl waits 25 s by default; reading all units takes longer on an emulated or very busy machine.
    environment = {"LC_ALL": "C.UTF-8", "SYSTEMD_BUS_TIMEOUT": "300s"}
    status, out, err = module.run_command(list(words), environ_update=environment)
    if status != 0:
        message = f"`{' '.join(words)}` exited with status {status}: {' '.join(f'{err} {out}'.split())}"
        raise OSError(message)
    return str(out)
