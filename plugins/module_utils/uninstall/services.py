"""Restore units, mounts and accounts during uninstallation."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.baseline import BASELINE, active_units, units
from ..common.package_commands import ENVIRONMENT
from .host_state import UNITS, RefusedError, copy_of, is_below, read_rows
from .remove_packages import UNIT_KINDS, PackagesOfHost

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ServicesOfHost"]

FSTAB = "/etc/fstab"
_NFS_SERVER = "nfs-server.service"
# The kernel enables all versions after a boot; rpc.nfsd disables those missing from its configuration.
_NFS_VERSIONS = ("+3", "+4.0", "+4.1", "+4.2")
# /etc/systemd/system/NAME.service.d/FILE
_DROP_IN = 5


def mounted() -> set[str]:
    """Return the host's mount points without stat(), which hangs if a file server is unreachable."""
    rows = (line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
    return {row[1].replace("\\040", " ") for row in rows}


def allow_nfs_versions(control: Path = Path("/proc/fs/nfsd/versions")) -> None:
    """Enable all NFS versions of the kernel while no server runs.

    The kernel keeps disabled minor versions until the next boot, and rpc.nfsd only sets the versions in its
    configuration (nfs-utils, nfssvc_setvers).
    """
    for version in _NFS_VERSIONS:
        # The kernel may lack a version. It accepts only whole lines (nfsctl.c, __write_versions).
        with contextlib.suppress(OSError):
            control.write_text(f"{version}\n", encoding="utf-8")


class ServicesOfHost(PackagesOfHost):
    """A host on which removed services are stopped, and the state of the others is restored."""

    def stop_units(self) -> None:
        """Stop and disable the units whose files busbar wrote."""
        for path in sorted(Path(name) for name in self.entries if is_below(name, [str(UNITS)])):
            if path.parent == UNITS and path.suffix in UNIT_KINDS and path.exists() and not copy_of(str(path)).exists():
                self.output("systemctl", "disable", "--now", path.name)

    def unmount(self) -> None:
        """Unmount the mounts that busbar added to fstab.

        Raises:
            RefusedError: a mount is in use.
        """
        last, copy = BASELINE / "last/fstab", copy_of(FSTAB)
        before = copy.read_text(encoding="utf-8").splitlines() if copy.exists() else []
        text = last.read_text(encoding="utf-8") if last.exists() else ""
        lines = [line.split() for line in text.splitlines() if line not in before]
        places = [line[1].replace("\\040", " ") for line in lines if len(line) > 1 and not line[0].startswith("#")]
        for place in sorted(places, reverse=True):
            if self.module.check_mode or place not in mounted():
                continue
            unit = self.output("systemd-escape", "--path", "--suffix=mount", place).strip()
            self.module.run_command(["systemctl", "stop", unit.replace(".mount", ".automount"), unit])
            if place in mounted():
                message = f"{place} is in use and cannot be unmounted; see `fuser -vm {place}`"
                raise RefusedError(message)
            self.removed.append(f"mount {place}")

    def restore_units(self, former: Mapping[str, str]) -> None:
        """Reload systemd, and restore the state of units from the baseline."""
        self.output("systemctl", "daemon-reload")
        now, active = units(self.module), active_units(self.module)
        for name in sorted(self.baseline["units"].keys() & now.keys()):
            back = name not in former
            if not back and name not in self.given["units"]:
                continue
            wanted = self.baseline["units"][name]
            if wanted in {"enabled", "disabled"} and now[name] != wanted:
                self.output("systemctl", "enable" if wanted == "enabled" else "disable", name)
                self.restored.append(f"unit {name}: {wanted}")
            if name in self.baseline["active"] and name not in active:
                self.output("systemctl", "start", name)
            elif name in active and name not in self.baseline["active"] and not back:
                self.output("systemctl", "stop", name)
        self.module.run_command(["systemctl", "reset-failed"])

    def touched(self, *tops: str) -> bool:
        """Return whether busbar wrote below one of these paths, including killed runs."""
        return any(is_below(name, tops) for name in self.entries)

    def reload(self) -> None:
        """Reload remaining services with their restored files."""
        if self.touched("/etc/sysctl.d", "/etc/modprobe.d", "/etc/modules-load.d"):
            self.kept.append("sysctls and loaded modules of the running kernel: they stay until the next boot")
        if self.module.check_mode:
            return
        if self.touched("/etc/ssh", "/etc/pam.d/sshd"):
            status, out, err = self.module.run_command(["sshd", "-t"])
            if status:
                self.module.fail_json(
                    msg=f"{self.given['host']}: sshd rejects its restored configuration: {err or out}"
                )
            name = "ssh.service" if "ssh.service" in self.baseline["units"] else "sshd.service"
            self.output("systemctl", "try-reload-or-restart", name)
        drop_ins = [name for name in self.entries if is_below(name, [str(UNITS)]) and name.count("/") == _DROP_IN]
        for unit in sorted({name.split("/")[4].removesuffix(".d") for name in drop_ins}):
            if unit.endswith(".service") and unit in self.baseline["active"]:
                self.output("systemctl", "try-restart", unit)
        # exportfs is removed with an NFS server that busbar installed.
        if self.module.get_bin_path("exportfs"):
            self.restore_exports()
        if self.touched("/etc/systemd/journald.conf.d"):
            self.output("systemctl", "try-restart", "systemd-journald")
        if self.touched("/etc/udev"):
            self.output("udevadm", "control", "--reload")

    def restore_exports(self) -> None:
        """Restore the exports of an NFS server that existed before; the kernel still has busbar's exports."""
        if self.touched("/etc/exports.d"):
            self.output("exportfs", "-ra")
        if _NFS_SERVER in self.baseline["active"] and self.touched("/etc/nfs.conf.d"):
            self.output("systemctl", "stop", _NFS_SERVER)
            allow_nfs_versions()
            self.output("systemctl", "start", _NFS_SERVER)

    def accounts(self) -> None:
        """Remove users and groups; their homes stay."""
        owners = {str(Path(path).stat().st_uid): path for path in self.data}
        made = {*self.given["accounts"], *self.names}
        users = read_rows("users")
        fresh = users.keys() - self.baseline["users"].keys()
        self.kept += [
            f"user {name}: neither declared nor created by an installed package" for name in sorted(fresh - made)
        ]
        for name in sorted(fresh & made):
            _name, _password, uid, _gid, _comment, home, _shell = users[name]
            if uid in owners:
                self.kept.append(f"user {name}: owns {owners[uid]}, which stays")
            elif self.delete("user", name) and home in self.homes and Path(home).is_dir():
                self.kept.append(f"home {home}: belongs to user {name}, UID {uid}; homes are never removed")
        groups, left = read_rows("groups"), read_rows("users").keys()
        for name in sorted((groups.keys() - self.baseline["groups"].keys()) & made):
            if members := left & set(groups[name][3].split(",")):
                self.kept.append(f"group {name}: has the members {', '.join(sorted(members))}")
            else:
                self.delete("group", name)

    def delete(self, kind: str, name: str) -> bool:
        """Remove a user or group, unless programs run as the user or it is the primary group of a user."""
        status, err = 0, ""
        if not self.module.check_mode:
            status, _out, err = self.module.run_command([f"{kind}del", name], environ_update=ENVIRONMENT)
        if status == 0:
            self.removed.append(f"{kind} {name}")
            return True
        self.kept.append(f"{kind} {name}: {' '.join(err.split())}")
        if kind == "user":
            self.problems.append(f"user {name} stays: {' '.join(err.split())}; end its programs and run again")
        return False
