"""The units, mounts and accounts of a host that is brought back."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.host_baseline import active_units, units
from ..common.host_record import ACCOUNTS
from .accounts import HOME, UID, choose_groups, choose_users, read_rows, running_uids
from .base import FIRST_PERSON, UNITS, HostBase, RefusedError
from .host_packages import UNIT_KINDS
from .paths import is_below

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ServicesOfHost"]

FSTAB = "/etc/fstab"
_NFS_SERVER = "nfs-server.service"
# As the kernel begins; what the server's own configuration leaves out, rpc.nfsd takes away at its start.
_NFS_VERSIONS = ("+3", "+4.0", "+4.1", "+4.2")
# /etc/systemd/system/NAME.service.d/FILE
_DROP_IN = 5


def mounted() -> set[str]:
    """Return the mount points of the host; asking one whose server is away would hang."""
    rows = (line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
    return {row[1].replace("\\040", " ") for row in rows}


def allow_nfs_versions(control: Path = Path("/proc/fs/nfsd/versions")) -> None:
    """Let the kernel serve all versions of NFS that it has, while no server runs.

    It remembers until the next boot which minor versions were switched off, and rpc.nfsd names only those that its
    configuration has (nfs-utils, nfssvc_setvers).
    """
    for version in _NFS_VERSIONS:
        # One that this kernel was built without. It takes whole lines only (nfsctl.c, __write_versions).
        with contextlib.suppress(OSError):
            control.write_text(f"{version}\n", encoding="utf-8")


class ServicesOfHost(HostBase):
    """Stops what goes, and gives what stays its former state."""

    def own_units(self) -> list[str]:
        """Return the units whose file busbar wrote."""
        found = (Path(name) for name, entry in self.record.changes["paths"].items() if entry["was"] is None)
        return sorted(
            path.name for path in found if path.parent == UNITS and path.suffix in UNIT_KINDS and path.exists()
        )

    def stop_units(self) -> None:
        """Stop and disable the units whose file goes."""
        for name in self.own_units():
            if not self.module.check_mode:
                self.output("systemctl", "disable", "--now", name)

    def unmount(self) -> None:
        """Unmount what busbar has mounted by lines of fstab.

        Raises:
            RefusedError: somebody works there.
        """
        entry = self.record.changes["paths"].get(FSTAB)
        if not entry or "last" not in entry:
            return
        original = self.record.original(FSTAB)
        before = original.read_text(encoding="utf-8").splitlines() if original.exists() else []
        lines = [line.split() for line in entry["last"].splitlines() if line not in before]
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

    def bring_units_back(self, former: Mapping[str, str]) -> None:
        """Let systemd read its files again, and give the units of before their former state."""
        if self.module.check_mode:
            return
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

    def reload(self) -> None:
        """Have services that stay read the files that they have now."""
        # All of them: a run that was killed may have written them and told nobody.
        changed = list(self.record.changes["paths"])
        if any(is_below(path, ["/etc/sysctl.d", "/etc/modprobe.d", "/etc/modules-load.d"]) for path in changed):
            self.kept.append("settings and modules of the running kernel: they go with the next boot")
        if self.module.check_mode:
            return
        if any(is_below(path, ["/etc/ssh", "/etc/pam.d/sshd"]) for path in changed):
            status, out, err = self.module.run_command(["sshd", "-t"])
            if status:
                self.module.fail_json(msg=f"{self.given['host']}: sshd refuses its former files: {err or out}")
            name = "ssh.service" if "ssh.service" in self.baseline["units"] else "sshd.service"
            self.output("systemctl", "try-reload-or-restart", name)
        folders = {
            path.split("/")[4] for path in changed if path.startswith(f"{UNITS}/") and path.count("/") == _DROP_IN
        }
        for unit in sorted(each.removesuffix(".d") for each in folders if each.endswith(".service.d")):
            if unit in self.baseline["active"]:
                self.output("systemctl", "try-restart", unit)
        self._withdraw_exports(changed)
        if any(is_below(path, ["/etc/systemd/journald.conf.d"]) for path in changed):
            self.output("systemctl", "try-restart", "systemd-journald")
        if any(is_below(path, ["/etc/udev"]) for path in changed):
            self.output("udevadm", "control", "--reload")

    def _withdraw_exports(self, changed: Sequence[str]) -> None:
        """Let an NFS server of before export what it did then; the kernel still has what busbar exported."""
        # It goes with the package of a server that busbar has installed.
        if self.module.get_bin_path("exportfs") is None:
            return
        if any(is_below(path, ["/etc/exports.d"]) for path in changed):
            self.output("exportfs", "-ra")
        if _NFS_SERVER in self.baseline["active"] and any(is_below(path, ["/etc/nfs.conf.d"]) for path in changed):
            self.output("systemctl", "stop", _NFS_SERVER)
            allow_nfs_versions()
            self.output("systemctl", "start", _NFS_SERVER)

    def accounts(self) -> None:
        """Take users and groups away; homes and what is in them stay."""
        owners = {Path(path).stat().st_uid: path for path in self.data}
        made = {*self.record.changes["users"], *self.given["users"]}
        # Scripts of packages that went have taken some along.
        users, running = read_rows(ACCOUNTS["users"]), running_uids()
        if self.module.check_mode:  # services run until their packages go
            running = {uid for uid in running if uid >= FIRST_PERSON}
        going, stay = choose_users(made, self.baseline["users"], users, running, owners)
        self.kept += [f"user {name}: {why}" for name, why in stay.items()]
        self.problems += [f"user {name} {why}" for name, why in stay.items() if "run this again" in why]
        for name in going:
            self.removed.append(f"user {name}")
            home, uid = users[name][HOME], users[name][UID]
            if int(uid) >= FIRST_PERSON and Path(home).is_dir():
                self.kept.append(f"home {home}: of user {name}, number {uid}; homes are never removed")
            if not self.module.check_mode:
                self.output("userdel", name)
        left = read_rows(ACCOUNTS["users"])
        if self.module.check_mode:
            left = {name: row for name, row in left.items() if name not in going}
        made = {*self.record.changes["groups"], *self.given["users"]}
        groups, held = choose_groups(made, self.baseline["groups"], read_rows(ACCOUNTS["groups"]), left)
        self.kept += [f"group {name}: {why}" for name, why in held.items()]
        for name in groups:
            self.removed.append(f"group {name}")
            if not self.module.check_mode:
                self.output("groupdel", name)
