"""Brings a host back to what it was before busbar: what goes, what comes back, what stays and why."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.host_baseline import DEPTHS, active_units, deeper, installed_packages, paths_below, units
from ..common.host_record import ACCOUNTS, Record, existing, sha256
from ..common.package_commands import APT, ENVIRONMENT, error_text, run_manager
from .accounts import choose_groups, choose_users, read_rows, running_uids
from .packages import STATUS_FORMAT, choose_packages, parse_conffiles, parse_simulation, parse_status
from .paths import Step, is_below, merged, path_step, top_paths, without_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible.module_utils.basic import AnsibleModule

__all__ = ["Host", "RefusedError"]

BUSBAR = Path("/var/lib/busbar")
KEPT = BUSBAR / "kept"
UNITS = Path("/etc/systemd/system")
FSTAB = "/etc/fstab"
# A directory of data waits under this name while packages go whose scripts might take it along.
AWAY = ".busbar-data"
PACKAGED = "/var/lib"
_UNIT_KINDS = (".service", ".timer", ".socket", ".path", ".mount", ".target")
_UID, _HOME = 2, 5
_FIRST_PERSON = 1000
# What package managers and the system write for themselves.
_OF_THE_SYSTEM = (
    *("/var/lib/dpkg", "/var/lib/apt", "/var/cache/apt", "/var/cache/debconf", "/var/cache/ldconfig", "/var/log/apt"),
    *("/var/lib/rpm", "/var/lib/dnf", "/var/cache/dnf", "/var/lib/systemd", "/var/log/journal", "/var/log/dpkg.log"),
    *("/var/lib/pam", "/var/lib/ucf", "/etc/ld.so.cache", "/root/.ansible", "/root/.cache"),
)


class RefusedError(Exception):
    """Why nothing is changed."""


class Host:
    """One host: what its record says, what is there, and what is done about it."""

    def __init__(self, module: AnsibleModule, record: Record) -> None:
        """Look at everything; change nothing."""
        self.module, self.record = module, record
        self.given = module.params
        self.baseline: dict[str, Any] = record.baseline or {}
        self.before = set(self.baseline["paths"])
        self.removed: list[str] = []
        self.restored: list[str] = []
        self.kept: list[str] = []
        self.problems: list[str] = []
        self.diff: list[dict[str, str]] = []
        self.installed = installed_packages(module)
        self.users = read_rows(ACCOUNTS["users"])
        self.data = [path for path in self.given["data"] if os.path.lexists(path)]
        self.homes = [row[_HOME] for row in self.users.values() if int(row[_UID]) >= _FIRST_PERSON]

    # What the package manager does.

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
        status = parse_status(self.output("dpkg-query", "-W", "-f", STATUS_FORMAT))
        self.going, stays = choose_packages(brought, before, status, automatic)
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
            owners = self.module.run_command(
                [
                    "rpm",
                    "-q",
                    "--qf",
                    "%{NAME}\n",
                    "--whatprovides",
                    *sorted({word.split()[0] for word in needed if word}),
                ]
            )[1]
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
            words = [*APT, "--allow-change-held-packages", "--no-install-recommends", "purge"]
            return [*words, *self.going, *(f"{name}+" for name in self.back)]
        return ["dnf", "-y", "--setopt=clean_requirements_on_remove=False", "remove", *self.going]

    def change_packages(self) -> None:
        """Take packages away; data stays where it is, and files that others wrote are kept."""
        if not self.going and not self.back:
            return
        if self.module.check_mode:
            return
        guarded = self.guard()
        self.stop_packaged()
        for path in self.data:
            self.put_away(path)
        try:
            status, said = run_manager(self.module, self.package_command(), recorded=False)
        finally:
            for path in self.data:
                self.bring_back(path)
        if status == 0 and self.back and not self.module.get_bin_path("apt-get"):
            status, said = run_manager(self.module, ["dnf", "-y", "install", *self.back], recorded=False)
        for path, copy in guarded.items():
            if not os.path.lexists(path):
                self.keep_aside(copy, path, "gone with a package, and not busbar's")
        shutil.rmtree(BUSBAR / "guard", ignore_errors=True)
        if status != 0:
            self.module.fail_json(
                msg=f"{self.given['host']}: the packages cannot be removed: {error_text(said)}\n"
                "    remedy: put right what it names and run this again; it goes on where it ended",
                output=said,
            )
        automatic = [name for name in self.back if self.record.changes["removed"][name] == "automatic"]
        if automatic and self.module.get_bin_path("apt-mark"):
            self.output("apt-mark", "auto", *automatic)

    def stop_packaged(self) -> None:
        """Stop what packages that go have started: data is given another name meanwhile."""
        lister = ["dpkg-query", "-L"] if self.on_debian() else ["rpm", "-q", "-l"]
        listed = self.output(*lister, *self.going).splitlines() if self.going else []
        found = {Path(line).name for line in listed if "/systemd/system/" in line and line.endswith(_UNIT_KINDS)}
        running = set(self.output("systemctl", "list-units", "--all", "--no-legend", "--plain").split())
        if stopped := sorted(name for name in found & running if "@" not in name):
            self.output("systemctl", "stop", *stopped)

    def holds(self) -> list[str]:
        """Return the packages that busbar held and that stay."""
        if not self.module.get_bin_path("apt-mark"):
            return []
        held = set(self.output("apt-mark", "showhold").split()) - set(self.baseline["held"]) - set(self.going)
        return sorted(held & set(self.record.changes["held"]))

    def guard(self) -> dict[str, Path]:
        """Copy files of /etc that neither busbar nor a package wrote so: scripts of packages remove what they find."""
        came = parse_conffiles(self.output("dpkg-query", "-W", "-f", "${Conffiles}\\n")) if self.on_debian() else {}
        listed = (
            set(self.output("dpkg-query", "-L", *sorted(self.installed)).splitlines()) if self.on_debian() else set()
        )
        guarded = {}
        (BUSBAR / "guard").mkdir(mode=0o700, exist_ok=True)
        for name in paths_below("/etc", DEPTHS["/etc"]):
            path = Path(name)
            if name in self.before or path.is_symlink() or not path.is_file():
                continue
            entry = self.record.changes["paths"].get(name)
            data = path.read_bytes()
            ours = entry is not None and hashlib.sha256(data).hexdigest() in entry["texts"]
            as_it_came = came.get(name) == hashlib.md5(data, usedforsecurity=False).hexdigest()
            if not ours and not as_it_came and (name in came or name not in listed):
                copy = BUSBAR / "guard" / hashlib.sha256(name.encode()).hexdigest()
                shutil.copy2(path, copy)
                guarded[name] = copy
        return guarded

    def on_debian(self) -> bool:
        """Return whether dpkg rules here."""
        return self.module.get_bin_path("dpkg-query") is not None

    def put_away(self, path: str) -> None:
        """Give a directory of data another name, so that no script of a package finds it.

        Only where packages have theirs: elsewhere, and on file systems that are shared, others work with it meanwhile.
        """
        place = Path(path)
        if not is_below(path, [PACKAGED]) or place.is_symlink() or not place.is_dir():
            return
        if place.stat().st_dev == Path(PACKAGED).stat().st_dev:
            place.rename(f"{path}{AWAY}")

    def bring_back(self, path: str) -> None:
        """Give data its name back; what a killed run has left, too."""
        away, place = Path(f"{path}{AWAY}"), Path(path)
        if not away.exists():
            return
        if place.exists():
            with contextlib.suppress(OSError):
                place.rmdir()
        if place.exists():
            self.kept.append(f"data {away}: {place} has been made anew meanwhile")
        else:
            away.rename(place)

    # Files.

    def step(self, name: str, entry: Mapping[str, Any]) -> Step:
        """Return what is done with a path of the record."""
        if where := is_below(name, [*self.given["data"], *self.homes]):
            return Step("leave" if os.path.lexists(name) else "", why=f"in {where}")
        path = Path(name)
        now, original = existing(path), self.record.original(name)
        text = sha256(path) if now and now["kind"] == "file" else ""
        return path_step(self.entry(name, entry), now, text, sha256(original) if original.exists() else "")

    def entry(self, name: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the entry of a path; a file that came with a package of busbar was not there before."""
        came_later = name not in self.before if not deeper(name) else entry.get("of_package", False)
        return {**entry, "was": None} if came_later else entry

    def note_owners(self) -> None:
        """Note which paths came with packages that go, as long as these can tell."""
        if not self.going or not self.on_debian():
            return
        owned = set(self.output("dpkg-query", "-L", *self.going).splitlines())
        for name, entry in self.record.changes["paths"].items():
            if entry["was"] and name in owned and deeper(name):
                entry["of_package"] = True

    def put_right(self, name: str, entry: Mapping[str, Any], step: Step) -> None:
        """Do what is to be done with a file or link, and tell it."""
        path = Path(name)
        if step.action == "leave":
            self.kept.append(f"{name}: {step.why}")
            return
        if step.action in {"", "rmdir"}:
            return
        now = existing(path)
        if step.aside and now:
            self.keep_aside(path, name, step.why, copy=True)
        if step.action == "remove":
            self.show(name, now, "")
            self.removed.append(name)
            if not self.module.check_mode:
                path.unlink()
            return
        self.restored.append(name)
        self.restore(path, self.entry(name, entry), step)

    def restore(self, path: Path, entry: Mapping[str, Any], step: Step) -> None:
        """Give a path back what was there; in place where it cannot be replaced, as the bind mount of a container."""
        was, kept = entry["was"], self.record.original(str(path))
        if was["kind"] == "link":
            self.show(str(path), existing(path), f"-> {was['target']}\n")
            if not self.module.check_mode:
                path.unlink(missing_ok=True)
                path.symlink_to(was["target"])
            return
        data = kept.read_bytes()
        if step.action == "merge":
            now = path.read_text(encoding="utf-8", errors="replace")
            data = merged(data.decode(errors="replace"), entry["last"], now).encode()
        self.show(str(path), existing(path), data.decode(errors="replace"))
        if self.module.check_mode:
            return
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor, fresh = os.open(kept.with_suffix(".back"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), ""
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        fresh = str(kept.with_suffix(".back"))
        os.chown(fresh, was["uid"], was["gid"])
        os.chmod(fresh, was["mode"])  # noqa: PTH101
        self.module.atomic_move(fresh, str(path), unsafe_writes=True)
        os.chown(path, was["uid"], was["gid"])
        path.chmod(was["mode"])

    def show(self, name: str, now: Mapping[str, Any] | None, after: str) -> None:
        """Add a file to the diff; secrets are not shown."""
        before = ""
        if now and now["kind"] == "file":
            hidden = not now["mode"] & 0o004
            before = "(not shown)\n" if hidden else Path(name).read_text(encoding="utf-8", errors="replace")
            after = "(not shown)\n" if hidden and after else after
        elif now and now["kind"] == "link":
            before = f"-> {now['target']}\n"
        self.diff.append({"before": before, "after": after, "before_header": name, "after_header": name})

    def keep_aside(self, source: Path, name: str, why: str, *, copy: bool = False) -> None:
        """Keep what somebody else wrote."""
        place = KEPT / name.lstrip("/")
        self.kept.append(f"{name}: {why}; kept as {place}")
        if self.module.check_mode:
            return
        KEPT.mkdir(mode=0o700, exist_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        if copy:
            shutil.copy2(source, place)
        else:
            shutil.move(str(source), str(place))

    def blocks(self) -> None:
        """Take out what Ansible's own modules set in files that are not busbar's."""
        for item in self.given["blocks"]:
            path = Path(item["path"])
            if not path.is_file():
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            after = without_block(text, item["begin"], item["end"])
            if after != text:
                self.show(str(path), existing(path), after)
                self.restored.append(str(path))
                if not self.module.check_mode:
                    found = path.stat()
                    fresh = path.with_name(f"{path.name}.busbar-new")
                    fresh.write_text(after, encoding="utf-8")
                    fresh.chmod(found.st_mode & 0o7777)
                    os.chown(fresh, found.st_uid, found.st_gid)
                    fresh.replace(path)
            if not after.strip() and str(path) not in self.before and not self.module.check_mode:
                path.unlink()

    def made(self) -> None:
        """Take away links and empty directories that builtin modules made; a file only with the text that was given."""
        for item in self.given["made"]:
            path = Path(item["path"])
            now = existing(path)
            if now is None or str(path) in self.before or is_below(str(path), self.data):
                continue
            same = now["kind"] == "file" and item["content"] and path.read_text(errors="replace") == item["content"]
            if now["kind"] == "link" or same:
                self.show(str(path), now, "")
                self.removed.append(str(path))
                if not self.module.check_mode:
                    path.unlink()
            elif now["kind"] == "directory":
                self.remove_directory(path)
            else:
                self.kept.append(f"{path}: not as busbar made it")

    def replaced(self) -> None:
        """Give back what builtin modules have replaced: the name of the host, its time zone."""
        for name in self.given["replaced"]:
            entry, path = self.record.changes["paths"].get(name), Path(name)
            now, original = existing(path), self.record.original(name)
            if entry is None or entry["was"] is None or now is None:
                continue
            same = now["kind"] == entry["was"]["kind"] and now.get("target") == entry["was"].get("target")
            if now["kind"] == "file" and original.exists():
                same = sha256(path) == sha256(original)
            if not same:
                self.restored.append(name)
                self.restore(path, entry, Step("restore"))
                if name == "/etc/hostname" and not self.module.check_mode:
                    self.output("hostname", "-F", name)

    def remove_directory(self, path: Path) -> None:
        """Remove a directory that is empty; in check mode others may still be in it."""
        if self.module.check_mode:
            return
        with contextlib.suppress(OSError):
            path.rmdir()
            self.removed.append(str(path))

    # Units, mounts and accounts.

    def own_units(self) -> list[str]:
        """Return the units whose file busbar wrote."""
        found = (Path(name) for name, entry in self.record.changes["paths"].items() if entry["was"] is None)
        return sorted(
            path.name for path in found if path.parent == UNITS and path.suffix in _UNIT_KINDS and path.exists()
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
            if self.module.check_mode or not os.path.ismount(place):
                continue
            unit = self.output("systemd-escape", "--path", "--suffix=mount", place).strip()
            self.module.run_command(["systemctl", "stop", unit.replace(".mount", ".automount"), unit])
            if os.path.ismount(place):
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
        changed = [path for path in (*self.removed, *self.restored) if path.startswith("/")]
        if self.module.check_mode:
            return
        if any(is_below(path, ["/etc/ssh", "/etc/pam.d/sshd"]) for path in changed):
            status, out, err = self.module.run_command(["sshd", "-t"])
            if status:
                self.module.fail_json(msg=f"{self.given['host']}: sshd refuses its former files: {err or out}")
            name = "ssh.service" if "ssh.service" in self.baseline["units"] else "sshd.service"
            self.output("systemctl", "try-reload-or-restart", name)
        folders = {path.split("/")[4] for path in changed if path.startswith(f"{UNITS}/") and path.count("/") > 4}  # noqa: PLR2004
        for unit in sorted(each.removesuffix(".d") for each in folders if each.endswith(".service.d")):
            if unit in self.baseline["active"]:
                self.output("systemctl", "try-restart", unit)
        if any(is_below(path, ["/etc/systemd/journald.conf.d"]) for path in changed):
            self.output("systemctl", "try-restart", "systemd-journald")
        if any(is_below(path, ["/etc/udev"]) for path in changed):
            self.output("udevadm", "control", "--reload")
        if any(is_below(path, ["/etc/sysctl.d", "/etc/modprobe.d", "/etc/modules-load.d"]) for path in changed):
            self.kept.append("settings and modules of the running kernel: they go with the next boot")

    def accounts(self) -> None:
        """Take users and groups away; homes and what is in them stay."""
        owners = {Path(path).stat().st_uid: path for path in self.data}
        made = {*self.record.changes["users"], *self.given["users"]}
        # Scripts of packages that went have taken some along.
        users, running = read_rows(ACCOUNTS["users"]), running_uids()
        if self.module.check_mode:  # services run until their packages go
            running = {uid for uid in running if uid >= _FIRST_PERSON}
        going, stay = choose_users(made, self.baseline["users"], users, running, owners)
        self.kept += [f"user {name}: {why}" for name, why in stay.items()]
        self.problems += [f"user {name} {why}" for name, why in stay.items() if "run this again" in why]
        for name in going:
            self.removed.append(f"user {name}")
            home, uid = users[name][_HOME], users[name][_UID]
            if int(uid) >= _FIRST_PERSON and Path(home).is_dir():
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

    # All of it.

    def run(self) -> None:
        """Bring the host back, or in check mode tell what that means.

        Raises:
            RefusedError: that cannot be done as a whole; nothing was changed.
        """
        for path in self.given["data"]:
            if not self.module.check_mode:
                self.bring_back(path)
        self.data = [path for path in self.given["data"] if os.path.lexists(path)]
        self.plan_packages()
        former = units(self.module)
        if not self.module.check_mode:
            self.note_owners()
            self.record.save()
        self.unmount()
        self.stop_units()
        steps = {name: self.step(name, entry) for name, entry in self.record.changes["paths"].items()}
        self.removed += [f"package {name}" for name in self.going]
        self.restored += [f"package {name}" for name in self.back]
        for name, step in steps.items():
            if step.aside:
                self.keep_aside(Path(name), name, step.why, copy=True)
        held = self.holds()
        self.change_packages()
        if held:
            self.restored += [f"package {name}: no longer held" for name in held]
            if not self.module.check_mode:
                self.output("apt-mark", "unhold", *held)
        self.files(steps)
        self.bring_units_back(former)
        self.reload()
        self.accounts()
        self.kept += [f"data {path}: never removed" for path in self.data if os.path.lexists(path)]
        self.finish()

    def files(self, planned: Mapping[str, Step]) -> None:
        """Put all paths right, directories last and the deepest of them first."""
        told = {name for name, step in planned.items() if step.aside}
        entries = self.record.changes["paths"]
        for name, entry in entries.items():
            step = planned[name] if self.module.check_mode else self.step(name, entry)
            self.put_right(name, entry, step._replace(aside=step.aside and name not in told))
        self.blocks()
        self.made()
        self.replaced()
        directories = [name for name, step in planned.items() if step.action == "rmdir"]
        for name in sorted(directories, reverse=True):
            if not is_below(name, [*self.given["data"], *self.homes]):
                self.remove_directory(Path(name))

    def finish(self) -> None:
        """Tell what nobody accounts for, and let the record go when all is done."""
        now = [path for top, depth in DEPTHS.items() for path in paths_below(top, depth)]
        known = (*_OF_THE_SYSTEM, *self.data, *self.homes, str(BUSBAR))
        unknown = [path for path in now if path not in self.before and not is_below(path, known)]
        if self.module.check_mode:
            return
        self.kept += [f"{path}: made since by programs or people" for path in top_paths(unknown)]
        if self.problems:
            return
        for each in sorted(BUSBAR.iterdir()):
            if each in {KEPT, self.record.folder}:
                continue
            histories = [each] if each.suffix == ".jsonl" else sorted(each.rglob("*.jsonl"))
            for history in histories:
                self.keep_aside(history, str(history), "a history")
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink(missing_ok=True)
        shutil.rmtree(self.record.folder)
        with contextlib.suppress(OSError):
            BUSBAR.rmdir()

    def output(self, *words: str) -> str:
        """Return what a program prints, or fail the module."""
        status, out, err = self.module.run_command(list(words), environ_update=ENVIRONMENT)
        if status != 0:
            shown = " ".join(words)[:200]
            self.module.fail_json(
                msg=f"{self.given['host']}: `{shown}` ends with {status}: {' '.join(f'{err} {out}'.split())}\n"
                "    remedy: put that right and run this again; it goes on where it ended"
            )
        return str(out)


def told(items: Iterable[str]) -> list[str]:
    """Return lines without repetitions, in their order."""
    return list(dict.fromkeys(items))
