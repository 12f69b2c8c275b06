"""The packages of a host that is brought back, and its data while they go."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

from ..common.host_baseline import DEPTHS, paths_below
from ..common.package_commands import APT, ENVIRONMENT, INTERRUPTED, error_text, run_manager
from .base import BUSBAR, HostBase, RefusedError
from .packages import (
    STATUS_FORMAT,
    choose_packages,
    parse_conffiles,
    parse_left_over,
    parse_simulation,
    parse_status,
)
from .paths import is_below

__all__ = ["AWAY", "UNIT_KINDS", "PackagesOfHost"]

# Data waits here while packages go whose scripts might take it along, or what it lies in.
AWAY = BUSBAR / "data"
# Copies of files of others, as long as packages go.
GUARD = BUSBAR / "guard"
PACKAGED = "/var/lib"
UNIT_KINDS = (".service", ".timer", ".socket", ".path", ".mount", ".target")


class PackagesOfHost(HostBase):
    """Takes packages away, and leaves data and what others wrote."""

    def plan_packages(self) -> None:
        """Find out which packages go, and ask the package manager whether it would take others along.

        Raises:
            RefusedError: it would.
        """
        automatic = [name for name, (_version, marked) in self.installed.items() if marked]
        brought, before = self.record.changes["packages"], self.baseline["packages"]
        if not self.module.get_bin_path("dpkg-query"):
            self.plan_rpm(set(brought) & self.installed.keys() - before.keys())
            return
        listed = self.output("dpkg-query", "-W", "-f", STATUS_FORMAT)
        between, given_up = parse_left_over(listed)
        # apt forgets at once, for all that it is about to remove, that nobody asked for them by name.
        automatic += [*given_up, *self.record.changes["going"]]
        self.going, stays = choose_packages(brought, before, parse_status(listed), automatic)
        self.going += sorted(set(brought).intersection(between) - before.keys())
        self.kept += [f"package {name}: {why}" for name, why in stays.items()]
        self.back = sorted(name for name in self.record.changes["removed"] if name not in self.installed)
        if self.going or self.back:
            command = [*self.package_command(), "--simulate"]
            out = self.output(*command)
            gone, come = parse_simulation(out)
            if strange := sorted(gone - set(self.going)) + sorted(come - set(self.back)):
                message = f"apt would also touch {', '.join(strange)}; see `{' '.join(command)}`"
                raise RefusedError(message)

    def plan_rpm(self, candidates: set[str]) -> None:
        """Ask rpm which packages nothing else needs, until it takes all that are left."""
        self.back = sorted(name for name in self.record.changes["removed"] if name not in self.installed)
        going = sorted(candidates)
        while going:
            status, out, err = self.module.run_command(["rpm", "-e", "--test", *going], environ_update=ENVIRONMENT)
            if status == 0:
                break
            # "libfoo is needed by (installed) bar-1.0-1.el9.x86_64": what it needs is asked for by name.
            needing = {line.rsplit(" ", 1)[-1] for line in f"{out}\n{err}".splitlines() if "is needed by" in line}
            needed = set(self.output("rpm", "-q", "--requires", *sorted(needing)).split("\n")) if needing else set()
            words = sorted({line.split()[0] for line in needed if line})
            provided = ["rpm", "-q", "--qf", "%{NAME}\n", "--whatprovides", *words]
            owners = self.module.run_command(provided)[1]
            stays = set(owners.split()) & set(going)
            if not stays:
                message = f"rpm would not let go of them: {' '.join(err.split())}"
                raise RefusedError(message)
            self.kept += [f"package {name}: needed by another one" for name in sorted(stays)]
            going = [name for name in going if name not in stays]
        self.going = going

    def package_command(self) -> list[str]:
        """Return how the packages go, and those come back that busbar's had replaced."""
        if self.module.get_bin_path("apt-get"):
            verb = "remove" if self.immovable() else "purge"
            words = [*APT, "--allow-change-held-packages", "--no-install-recommends", verb]
            return [*words, *self.going, *(f"{name}+" for name in self.back)]
        return ["dnf", "-y", "--setopt=clean_requirements_on_remove=False", "remove", *self.going]

    def change_packages(self) -> None:
        """Take packages away; data stays where it is, and files that others wrote are kept."""
        if not self.going and not self.back:
            return
        if self.module.check_mode:
            return
        for path in self.immovable():
            self.kept.append(f"settings of the packages: to purge them could remove {path}, which cannot be moved away")
        self.guard()
        self.stop_packaged()
        for path in self.data:
            self.put_away(path)
        try:
            status, said = self.take_away()
        finally:
            for path in self.data:
                self.bring_back(path)
        if status == 0 and self.back and not self.module.get_bin_path("apt-get"):
            status, said = run_manager(self.module, ["dnf", "-y", "install", *self.back], recorded=False)
        self.release_guarded()
        if status != 0:
            self.module.fail_json(
                msg=f"{self.given['host']}: the packages cannot be removed: {error_text(said)}\n"
                "    remedy: put right what it names and run this again; it goes on where it ended",
                output=said,
            )
        automatic = [name for name in self.back if self.record.changes["removed"][name] == "automatic"]
        if automatic and self.module.get_bin_path("apt-mark"):
            self.output("apt-mark", "auto", *automatic)

    def take_away(self) -> tuple[int, str]:
        """Have the package manager take the packages away; its exit status and what it said."""
        self.record.changes["going"] = self.going
        self.record.save()
        status, said = run_manager(self.module, self.package_command(), recorded=False)
        if status != 0 and INTERRUPTED in said:
            self.output("dpkg", "--configure", "-a", "--force-confold")
            status, said = run_manager(self.module, self.package_command(), recorded=False)
        if status == 0 and (rest := self.only_removed()):
            status, said = run_manager(self.module, [*APT, "purge", *rest], recorded=False)
        return status, said

    def only_removed(self) -> list[str]:
        """Return packages whose settings apt left: of one that a killed run left half there, it purges nothing."""
        if not self.on_debian() or self.immovable():
            return []
        between, _given_up = parse_left_over(self.output("dpkg-query", "-W", "-f", STATUS_FORMAT))
        return sorted(set(self.going).intersection(between))

    def stop_packaged(self) -> None:
        """Stop what packages that go have started: data is given another name meanwhile."""
        lister = ["dpkg-query", "-L"] if self.on_debian() else ["rpm", "-q", "-l"]
        listed = self.output(*lister, *self.going).splitlines() if self.going else []
        found = {Path(line).name for line in listed if "/systemd/system/" in line and line.endswith(UNIT_KINDS)}
        running = set(self.output("systemctl", "list-units", "--all", "--no-legend", "--plain").split())
        if stopped := sorted(name for name in found & running if "@" not in name):
            self.output("systemctl", "stop", *stopped)

    def holds(self) -> list[str]:
        """Return the packages that busbar held and that stay."""
        if not self.module.get_bin_path("apt-mark"):
            return []
        held = set(self.output("apt-mark", "showhold").split()) - set(self.baseline["held"]) - set(self.going)
        return sorted(held & set(self.record.changes["held"]))

    def release_guarded(self) -> None:
        """Keep the copies of files that went with a package; of a run that was killed, too."""
        for copy in sorted(path for path in GUARD.rglob("*") if path.is_file()):
            name = f"/{copy.relative_to(GUARD)}"
            if not os.path.lexists(name):
                self.keep_aside(copy, name, "gone with a package, and not busbar's")
        shutil.rmtree(GUARD, ignore_errors=True)

    def guard(self) -> None:
        """Copy files of /etc that neither busbar nor a package wrote so: scripts of packages remove what they find."""
        came = parse_conffiles(self.output("dpkg-query", "-W", "-f", "${Conffiles}\\n")) if self.on_debian() else {}
        listed = (
            set(self.output("dpkg-query", "-L", *sorted(self.installed)).splitlines()) if self.on_debian() else set()
        )
        GUARD.mkdir(mode=0o700, exist_ok=True)
        for name in paths_below("/etc", DEPTHS["/etc"]):
            path = Path(name)
            if name in self.before or path.is_symlink() or not path.is_file():
                continue
            entry = self.record.changes["paths"].get(name)
            data = path.read_bytes()
            ours = entry is not None and hashlib.sha256(data).hexdigest() in entry["texts"]
            as_it_came = came.get(name) == hashlib.md5(data, usedforsecurity=False).hexdigest()
            if data and not ours and not as_it_came and (name in came or name not in listed):
                copy = GUARD / name.lstrip("/")
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)

    def put_away(self, path: str) -> None:
        """Move a directory of data to where no script of a package finds it.

        Only where packages have theirs: elsewhere, and on file systems that are shared, others work with it meanwhile.
        """
        place, away = Path(path), AWAY / path.lstrip("/")
        if not is_below(path, [PACKAGED]) or path in self.immovable() or not place.is_dir():
            return
        AWAY.mkdir(mode=0o700, exist_ok=True)
        away.parent.mkdir(parents=True, exist_ok=True)
        place.rename(away)

    def immovable(self) -> list[str]:
        """Return data that scripts of packages may find and that cannot be moved away: on a file system of its own."""
        device = Path(PACKAGED).stat().st_dev
        found = [path for path in self.data if is_below(path, [PACKAGED]) and Path(path).is_dir()]
        return [path for path in found if Path(path).is_symlink() or Path(path).stat().st_dev != device]

    def bring_back(self, path: str) -> None:
        """Move data back; what a killed run has left, too."""
        away, place = AWAY / path.lstrip("/"), Path(path)
        if not away.exists():
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            with contextlib.suppress(OSError):
                place.rmdir()
        if place.exists():
            self.kept.append(f"data {away}: {place} has been made anew meanwhile")
        else:
            away.rename(place)
