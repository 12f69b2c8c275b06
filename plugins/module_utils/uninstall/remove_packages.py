"""Remove packages during uninstallation, and protect data while package scripts run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.baseline import (
    ACCOUNTS,
    BASELINE,
    HISTORY,
    dnf_transactions,
    installed_packages,
    names_in,
)
from ..common.package_commands import APT, ENVIRONMENT, INTERRUPTED, error_text, run_manager
from .host_state import BUSBAR, RefusedError, is_below
from .paths import PathsOfHost

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = [
    "AWAY",
    "UNIT_KINDS",
    "PackagesOfHost",
    "parse_history",
    "parse_simulation",
    "parse_transactions",
]

# Data that package scripts would delete is moved here while the packages are removed.
AWAY = BUSBAR / "data"
# Copies of files that busbar did not write, kept here while packages are removed.
GUARD = BUSBAR / "guard"
GOING = BASELINE / "going"
SCRIPTS = Path("/var/lib/dpkg/info")
PACKAGED = "/var/lib"
UNIT_KINDS = (".service", ".timer", ".socket", ".path", ".mount", ".target")
# Omits the patterns of packages that apt never removes automatically, such as kernels and their headers.
APT_SETTINGS = """\
Dir::Etc::parts "/dev/null";
Dir::State::extended_states "{marks}";
APT::AutoRemove::RecommendsImportant "false";
APT::AutoRemove::SuggestsImportant "false";
APT::Ignore-Hold "true";
"""
_NAME = re.compile(r"[a-z_][a-z0-9_-]*")


class PackagesOfHost(PathsOfHost):
    """A host whose packages are removed, while data and files that busbar did not write are kept."""

    def plan_packages(self) -> None:
        """Choose the packages to remove and reinstall, and simulate the transaction with the package manager.

        Raises:
            RefusedError: the package manager would change other packages as well.
        """
        if self.on_debian():
            # apt does not read the journal of a killed dpkg. Any dpkg that may write merges it.
            self.module.run_command(["dpkg", "--set-selections"], data="\n")
        installed = installed_packages(self.module)
        brought, taken = self.history()
        self.back = sorted(name for name in taken & self.baseline["packages"].keys() if name not in installed)
        left = json.loads(GOING.read_text(encoding="utf-8")) if GOING.exists() else {"packages": [], "names": []}
        fresh = brought.keys() - self.baseline["packages"].keys()
        here = fresh & installed.keys()
        if not self.on_debian():
            self.plan_rpm(here)
        else:
            # apt clears the automatic mark of all packages before it removes them.
            dependencies = {name for name in here - set(left["packages"]) if brought[name] == AUTOMATIC}
            named = {name for name in dependencies if not installed[name][1]}
            self.kept += [f"package {name}: explicitly installed later" for name in sorted(named)]
            half = self.partially_removed(fresh)
            going = half | self.unneeded(half | here - named, left["packages"])
            # autoremove keeps all providers of a needed virtual package, although one is enough.
            for name in sorted(here - named - going):
                command = ["apt-get", "--simulate", "purge", *sorted(going), name]
                status, output, _err = self.module.run_command(command, environ_update=ENVIRONMENT)
                gone, come = parse_simulation(output)
                if status == 0 and not gone - going - {name} and not come:
                    going.add(name)
                else:
                    needing = ", ".join(sorted(gone - going - {name})) or "the system"
                    self.kept.append(f"package {name}: needed by {needing}")
            self.going = sorted(going)
        self.names = {*left["names"], *self.new_names()}
        if self.on_debian() and (self.going or self.back):
            command = [*self.package_command(), "--simulate"]
            gone, come = parse_simulation(self.output(*command))
            if strange := sorted(gone - set(self.going)) + sorted(come - set(self.back)):
                message = f"apt would also change {', '.join(strange)}; check `{' '.join(command)}`"
                raise RefusedError(message)

    def unneeded(self, names: set[str], left: list[str]) -> set[str]:
        """Return the packages that apt would remove if they were automatic, because no other package needs them.

        Args:
            names: packages.
            left: packages chosen by a killed run, used if apt cannot resolve the state after that run.
        """
        kind = self.output("dpkg", "--print-architecture").strip()
        with tempfile.TemporaryDirectory(prefix="busbar-") as folder:
            marks, settings = Path(folder, "marks"), Path(folder, "settings")
            rows = (f"Package: {name}\nArchitecture: {kind}\nAuto-Installed: 1\n" for name in sorted(names))
            marks.write_text("\n".join(rows), encoding="utf-8")
            settings.write_text(APT_SETTINGS.format(marks=marks), encoding="utf-8")
            environment = {**ENVIRONMENT, "APT_CONFIG": str(settings)}
            command = ["apt-get", "--simulate", "autoremove"]
            status, out, err = self.module.run_command(command, environ_update=environment)
        if status != 0 and not left:
            message = f"apt did not report which packages are needed: {' '.join(err.split())}"
            raise RefusedError(message)
        return names & (set(left) if status != 0 else parse_simulation(out)[0])

    def partially_removed(self, names: Collection[str]) -> set[str]:
        """Return partially removed packages, such as those with remaining configuration files."""
        rows = self.output("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n").splitlines()
        states = [row.split() for row in rows]
        return {name for name, state in states if name in names and state not in {"installed", "not-installed"}}

    def history(self) -> tuple[dict[str, str], set[str]]:
        """Return the packages that busbar's transactions installed, and the packages that they removed."""
        if self.on_debian():
            data = HISTORY.read_bytes() if HISTORY.exists() else b""
            return parse_history(data[self.baseline["history"] :].decode(errors="replace"))
        fresh = [each for each in dnf_transactions(self.module) if each not in self.baseline["transactions"]]
        return parse_transactions(self.output("dnf", "history", "info", *fresh) if fresh else "")

    def new_names(self) -> set[str]:
        """Return new users and groups that appear in the scripts of removed packages."""
        if not self.on_debian():
            text = self.output("rpm", "-q", "--scripts", "--provides", *self.going) if self.going else ""
        else:
            kinds = [f"{name}{end}inst" for name in self.going for end in (".pre", ".post", ":*.pre", ":*.post")]
            scripts = [path for kind in kinds for path in SCRIPTS.glob(kind)]
            text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in scripts)
        fresh = {name for kind, path in ACCOUNTS.items() for name in names_in(path).keys() - set(self.baseline[kind])}
        return fresh & set(_NAME.findall(text))

    def plan_rpm(self, candidates: set[str]) -> None:
        """Reduce the candidates to the packages that rpm can remove, because no other package needs them."""
        going = sorted(candidates)
        while going:
            status, out, err = self.module.run_command(["rpm", "-e", "--test", *going], environ_update=ENVIRONMENT)
            if status == 0:
                break
            # rpm prints: libfoo is needed by (installed) bar-1.0-1.el9.x86_64
            needing = {line.rsplit(" ", 1)[-1] for line in f"{out}\n{err}".splitlines() if "is needed by" in line}
            needed = set(self.output("rpm", "-q", "--requires", *sorted(needing)).split("\n")) if needing else set()
            words = sorted({line.split()[0] for line in needed if line})
            owners = self.module.run_command(["rpm", "-q", "--qf", "%{NAME}\n", "--whatprovides", *words])[1]
            stays = set(owners.split()) & set(going)
            if not stays:
                message = f"rpm refuses to remove {', '.join(going)}: {' '.join(err.split())}"
                raise RefusedError(message)
            self.kept += [f"package {name}: needed by another package" for name in sorted(stays)]
            going = [name for name in going if name not in stays]
        self.going = going

    def package_command(self) -> list[str]:
        """Return the command that removes packages and, with apt, reinstalls the packages that they replaced."""
        if self.module.get_bin_path("apt-get"):
            verb = "remove" if self.immovable() else "purge"
            words = [*APT, "--allow-change-held-packages", "--no-install-recommends", verb]
            return [*words, *self.going, *(f"{name}+" for name in self.back)]
        return ["dnf", "-y", "--setopt=clean_requirements_on_remove=False", "remove", *self.going]

    def change_packages(self) -> None:
        """Remove packages, but keep data and files that busbar did not write."""
        if self.module.check_mode or not (self.going or self.back):
            return
        for path in self.immovable():
            self.kept.append(f"package settings: a purge could remove {path}, which cannot be moved away")
        GOING.write_text(json.dumps({"packages": self.going, "names": sorted(self.names)}), encoding="utf-8")
        self.guard()
        for path in self.data:
            self.move_data_away(path)
        try:
            status, output = self.remove_packages()
        finally:
            for path in self.data:
                self.move_data_back(path)
        if status == 0 and self.back and not self.module.get_bin_path("apt-get"):
            status, output = run_manager(self.module, ["dnf", "-y", "install", *self.back], recorded=False)
        self.release_guarded()
        if status != 0:
            self.module.fail_json(
                msg=f"{self.given['host']}: the packages cannot be removed: {error_text(output)}\n"
                "    remedy: fix the reported errors and run again; a repeated run resumes",
                output=output,
            )
        automatic = [name for name in self.back if self.baseline["packages"][name][1]]
        if automatic and self.module.get_bin_path("apt-mark"):
            self.output("apt-mark", "auto", *automatic)

    def remove_packages(self) -> tuple[int, str]:
        """Remove the packages; return exit status and output of the package manager."""
        status, output = run_manager(self.module, self.package_command(), recorded=False)
        if status != 0 and INTERRUPTED in output:
            self.output("dpkg", "--configure", "-a", "--force-confold")
            status, output = run_manager(self.module, self.package_command(), recorded=False)
        # apt does not purge packages that a killed run left partially removed.
        purged = status == 0 and self.on_debian() and not self.immovable()
        if rest := sorted(self.partially_removed(self.going)) if purged else []:
            status, output = run_manager(self.module, [*APT, "purge", *rest], recorded=False)
        return status, output

    def stop_packaged(self) -> None:
        """Stop the services of removed packages, because their files and data are moved."""
        lister = ["dpkg-query", "-L"] if self.on_debian() else ["rpm", "-q", "-l"]
        listed = self.output(*lister, *self.going).splitlines() if self.going else []
        found = {Path(line).name for line in listed if "/systemd/system/" in line and line.endswith(UNIT_KINDS)}
        running = set(self.output("systemctl", "list-units", "--all", "--no-legend", "--plain").split())
        if stopped := sorted(name for name in found & running if "@" not in name):
            self.output("systemctl", "stop", *stopped)

    def holds(self) -> list[str]:
        """Return the remaining packages that busbar holds."""
        if not self.module.get_bin_path("apt-mark"):
            return []
        held = set(self.output("apt-mark", "showhold").split()) - set(self.baseline["held"]) - set(self.going)
        return sorted(name for name in held if "hold" in self.entries.get(name, []))

    def release_guarded(self) -> None:
        """Move saved copies of files that a package removed to /var/lib/busbar/kept; resumes a killed run."""
        for copy in sorted(path for path in GUARD.rglob("*") if path.is_file()):
            name = f"/{copy.relative_to(GUARD)}"
            if not os.path.lexists(name):
                self.save_copy(copy, name, "removed with a package, but not created by busbar")
        shutil.rmtree(GUARD, ignore_errors=True)

    def guard(self) -> None:
        """Copy files in /etc that busbar did not write, because package scripts remove whole directories."""
        of_packages: set[str] = set()
        if self.on_debian() and self.going:
            of_packages = set(self.output("dpkg-query", "-L", *self.going).splitlines())
            # dpkg --verify marks changed configuration files: ??5?????? c /etc/default/munge
            checked = self.module.run_command(["dpkg", "--verify", *self.going])[1].splitlines()
            of_packages -= {line.partition(" c ")[2] for line in checked if "5" in line.partition(" c ")[0]}
        for path in Path("/etc").rglob("*"):
            fresh = str(path) not in of_packages and not self.in_baseline(path)
            if fresh and path.is_file() and not path.is_symlink() and path.stat().st_size:
                copy = GUARD / str(path).lstrip("/")
                copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.copy2(path, copy)

    def move_data_away(self, path: str) -> None:
        """Move data below /var/lib out of reach of package scripts; data elsewhere is in use by other programs."""
        place, away = Path(path), AWAY / path.lstrip("/")
        if not is_below(path, [PACKAGED]) or path in self.immovable() or not place.is_dir():
            return
        AWAY.mkdir(mode=0o700, exist_ok=True)
        away.parent.mkdir(parents=True, exist_ok=True)
        place.rename(away)

    def immovable(self) -> list[str]:
        """Return mount points and links with data that package scripts may remove and that cannot be moved."""
        device = Path(PACKAGED).stat().st_dev
        found = [path for path in self.data if is_below(path, [PACKAGED]) and Path(path).is_dir()]
        return [path for path in found if Path(path).is_symlink() or Path(path).stat().st_dev != device]

    def move_data_back(self, path: str) -> None:
        """Move data back, even if a previous run was killed."""
        away, place = AWAY / path.lstrip("/"), Path(path)
        if not away.exists():
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            with contextlib.suppress(OSError):
                place.rmdir()
        if place.exists():
            self.kept.append(f"data {away}: {place} was recreated in the meantime")
        else:
            away.rename(place)


# Installed as a dependency.
AUTOMATIC = "automatic"
_IN_HISTORY = re.compile(r"([a-z0-9][a-z0-9+.-]+):\S+ \(([^)]*)\)")


def parse_simulation(text: str) -> tuple[set[str], set[str]]:
    """Return the packages that `apt-get --simulate` would remove and those that it would install."""
    rows = [line.split() for line in text.splitlines()]
    words = [(row[0], row[1].partition(":")[0]) for row in rows if len(row) > 1]
    return (
        {name for action, name in words if action in {"Remv", "Purg"}},
        {name for action, name in words if action == "Inst"},
    )


def parse_history(text: str) -> tuple[dict[str, str], set[str]]:
    """Return the packages that were installed ('manual' or 'automatic') and removed according to apt's history.

    Killed transactions are included, because apt logs a transaction before it starts dpkg.
    """
    brought: dict[str, str] = {}
    taken: set[str] = set()
    for line in text.splitlines():
        key, _, rest = line.partition(": ")
        names = {match[1]: match[2] for match in _IN_HISTORY.finditer(rest)}
        if key == "Install":
            brought |= {
                name: AUTOMATIC if reason.endswith(f", {AUTOMATIC}") else "manual" for name, reason in names.items()
            }
        elif key in {"Remove", "Purge"}:
            taken |= {name for name in names if brought.pop(name, None) is None}
    return brought, taken


def parse_transactions(text: str) -> tuple[dict[str, str], set[str]]:
    """Return the same as `parse_history` from `dnf history info`, for the transactions with busbar's comment."""
    brought: dict[str, str] = {}
    taken: set[str] = set()
    for block in text.split("Transaction ID")[1:]:
        if "--comment=busbar" not in block:
            continue
        for words in (line.split() for line in block.partition("Packages Altered:")[2].splitlines()):
            # The name includes version and release: munge-0.5.13-13.el9.x86_64
            if len(words) > 1 and words[0] in {"Install", "Dep-Install"}:
                brought[words[1].rsplit("-", 2)[0]] = "manual"
            elif len(words) > 1 and words[0] in {"Removed", "Erase", "Obsoleted"}:
                taken.add(words[1].rsplit("-", 2)[0])
    return brought, taken - brought.keys()
