"""Install, remove and hold packages with apt or dnf."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .package_changes import (
    DPKG_FORMAT,
    RPM_FORMAT,
    Changes,
    Present,
    Wanted,
    changes_for,
    is_of_family,
    lock_lines,
    lock_name,
    locks_about,
    parse_dpkg,
    parse_madison,
    parse_rpm,
    resolved,
    touched_packages,
    version_fits,
)
from .package_commands import (
    APT,
    ENVIRONMENT,
    INTERRUPTED,
    error_text,
    fetch_problems,
    install_command,
    lists_are_fresh,
    run_manager,
    services_held,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Packages", "host_packages"]

LOCKS = Path("/etc/dnf/plugins/versionlock.list")
# dpkg-query prints this for all packages; a package whose maintainer script failed has one of the UNFINISHED states.
STATES = "${Package}\\t${Version}\\t${db:Status-Status}\\n"
UNFINISHED = {"half-installed", "unpacked", "half-configured", "triggers-awaited", "triggers-pending"}
LOCK_PLUGIN = "python3-dnf-plugin-versionlock"
VERSIONS = "check the available versions (apt list -a, dnf list --showduplicates), or choose others"


class Packages:
    """Wanted and installed packages of a host."""

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - Ansible has no types
        """Read the parameters of the module and the installed packages."""
        self.module, self.params = module, module.params
        # `name` entries accept any version.
        plain: list[Wanted] = [{"name": name, "version": "", "hold": None} for name in self.params["name"]]
        self.wanted: list[Wanted] = plain + self.params["packages"]
        self.present = self.read()
        # Output of the last update of the package lists, for the error message about an unknown package.
        self.fetched = ""

    def read(self) -> dict[str, Present]:
        """Return the wanted packages that are installed."""
        raise NotImplementedError

    def stream_is_enabled(self) -> bool:
        """Return whether the wanted module stream is enabled; True on systems without streams."""
        return True

    def change(self, changes: Changes) -> None:
        """Make the changes and read the installed packages again."""
        raise NotImplementedError

    def changes(self) -> Changes:
        """Return the difference between wanted and installed packages."""
        return changes_for(self.wanted, self.params["absent"], self.present, self.params["family"])

    def patterns(self) -> list[str]:
        """Return the patterns of the packages in `absent` and `family`."""
        return [*self.params["absent"], *(self.params["family"] or {"names": []})["names"]]

    def family_held(self) -> list[str]:
        """Return the packages of the family that are held."""
        held = (name for name, item in self.present.items() if item["held"])
        return sorted(name for name in held if is_of_family(name, self.params["family"]))

    def pinned_versions(self) -> list[str]:
        """Return NAME=VERSION of each package that has its declared version.

        A transaction that lists them does not up- or downgrade them to satisfy other packages.
        """
        found = ((each, self.present.get(each["name"])) for each in self.wanted if each["version"])
        return [
            f"{each['name']}={here['version']}"
            for each, here in found
            if here and version_fits(here["version"], each["version"])
        ]

    def run(self, *command: str) -> tuple[int, str]:
        """Return the exit status and the output of a package manager."""
        return run_manager(self.module, command)

    def must(self, *command: str) -> None:
        """Run a command; fail the module if it fails."""
        status, output = self.run(*command)
        if status != 0:
            self.fail(list(command), output)

    def unfinished(self) -> str:
        """Describe the packages that a failed transaction left half-installed or removed, or return ''."""
        return ""

    def fail(self, words: list[str], output: str) -> NoReturn:
        """Fail the module with the errors in the output and the packages left in a partial state."""
        half = self.unfinished()
        remedy = f"\n    remedy: {VERSIONS}" if any("=" in word for word in words) and not half else ""
        problem = error_text(output)
        lists = fetch_problems("" if half else f"{self.fetched}\n{output}", problem)
        self.module.fail_json(msg=f"cannot install {', '.join(words)}: {problem}{half}{lists or remedy}", output=output)
        raise SystemExit  # not reached: fail_json exits


class Apt(Packages):
    """Packages of Debian and Ubuntu."""

    def read(self) -> dict[str, Present]:
        """Return the wanted packages that are installed."""
        names = [each["name"] for each in self.wanted] + self.patterns()
        if not names:
            return {}
        return parse_dpkg(self.module.run_command(["dpkg-query", "-W", "-f", DPKG_FORMAT, *names])[1])

    def change(self, changes: Changes) -> None:
        """Make the changes in one transaction, then set and remove holds; a version change removes a package's hold."""
        plain = [word for word in changes["install"] if "=" not in word]
        exact, fetched = self.exact_words(
            [word for word in changes["install"] if "=" in word], lacking_lists=bool(plain)
        )
        moves = [*exact, *(f"{name}-" for name in changes["remove"])]
        words = [
            *((self.params["files"] or plain) if plain else []),
            *(self.pinned_versions() if moves else []),
            *moves,
        ]
        if words:
            self.transaction(words, fetched=fetched, moves=bool(moves))
        self.present = self.read()
        marks = self.changes()
        for action in ("unhold", "hold"):
            if marks[action]:
                self.must("apt-mark", action, *marks[action])
        self.present = self.read()

    def exact_words(self, install: list[str], *, lacking_lists: bool) -> tuple[list[str], bool]:
        """Return NAME=VERSION for packages in apt's lists, and whether the lists were updated."""
        fetched = lacking_lists and not lists_are_fresh()
        if fetched:
            self.fetch_lists()
        words, lacking = self.resolve(install)
        if lacking and not fetched:  # a package may be newer than the lists
            fetched = True
            self.fetch_lists()
            words, lacking = self.resolve(install)
        if lacking:
            remedy = "choose an available version, or check that the repository is configured and complete"
            lists = fetch_problems(self.fetched) or f"\n    remedy: {remedy}"
            self.module.fail_json(msg=f"no such version: {'; '.join(lacking)}{lists}")
        return words, fetched

    def fetch_lists(self) -> None:
        """Update the package lists; a failure is reported only if an installation fails."""
        self.fetched = self.run(*APT, "update")[1]

    def resolve(self, install: list[str]) -> tuple[list[str], list[str]]:
        """Return each package with its newest matching version, and a line for each package without one."""
        if not install:
            return [], []
        command = ["apt-cache", "madison", *(word.partition("=")[0] for word in install)]
        return resolved(install, parse_madison(self.module.run_command(command, environ_update=ENVIRONMENT)[1]))

    def transaction(self, words: list[str], *, fetched: bool, moves: bool) -> None:
        """Run one apt transaction; release holds of the family first, because apt does not change held packages."""
        options = ["--allow-downgrades", "--allow-change-held-packages"] if moves else []
        command = install_command(self.module, recommends=self.params["recommends"], apt=options)
        self.refuse_protected([*command, *words])
        held = self.family_held() if moves else []
        if held:
            self.must("apt-mark", "unhold", *held)
        try:
            with services_held(held=not self.params["start_services"]):
                status, output = self.run(*command, *words)
                if status != 0 and INTERRUPTED in output:
                    self.must("dpkg", "--configure", "-a", "--force-confold")
                    status, output = self.run(*command, *words)
                if status != 0 and not fetched:
                    self.fetch_lists()  # a package in the old lists may no longer exist
                    status, output = self.run(*command, *words)
        finally:
            self.present = self.read()
            if kept := [name for name in held if name in self.present]:
                self.must("apt-mark", "hold", *kept)
        if status != 0:
            self.fail(words, output)

    def unfinished(self) -> str:
        """Describe the packages that dpkg unpacked but did not configure, or return ''."""
        status, out, _ = self.module.run_command(["dpkg-query", "-W", "-f", STATES])
        words = (line.split("\t") for line in out.splitlines())
        half = [f"{word[0]} {word[1]} ({word[2]})" for word in words if len(word) > 2 and word[2] in UNFINISHED]  # noqa: PLR2004
        if status != 0 or not half:
            return ""
        return (
            f"\n    partly installed, so the host differs from its previous state: {', '.join(half)}"
            "\n    remedy: fix the reported error, run dpkg --configure -a (see dpkg --audit), and run again"
        )

    def refuse_protected(self, command: list[str]) -> None:
        """Fail the module if the transaction would change a protected package."""
        if not self.params["protect"]:
            return
        touched = touched_packages(self.run(*command, "--simulate")[1], self.params["protect"])
        if touched:
            remedy = "choose versions that are compatible with the installed packages"
            self.module.fail_json(
                msg=f"the transaction would also change {', '.join(touched)}. Nothing was changed\n    remedy: {remedy}"
            )


class Dnf(Packages):
    """Packages of Red Hat Enterprise Linux and its rebuilds."""

    # Packages removed because their files conflicted with new ones.
    gone: Sequence[str] = ()

    def read(self) -> dict[str, Present]:
        """Return the wanted packages that are installed, or provided by another package if no version is wanted."""
        listed = ""
        if names := [each["name"] for each in self.wanted]:
            listed = self.module.run_command(["rpm", "-q", "--qf", RPM_FORMAT, *names])[1]
        if patterns := self.patterns():
            listed += self.module.run_command(["rpm", "-qa", "--qf", RPM_FORMAT, *patterns])[1]
        found = parse_rpm(listed, self.locks())
        for each in self.wanted:
            name = each["name"]
            provided = ["rpm", "-q", "--whatprovides", name]
            if name not in found and not each["version"] and self.module.run_command(provided)[0] == 0:
                found[name] = {"version": "with another name", "held": False}
        return found

    def stream_is_enabled(self) -> bool:
        """Return whether the wanted module stream is enabled."""
        name, _, wanted = self.params["stream"].partition(":")
        if not name:
            return True
        out = self.module.run_command(["dnf", "-q", "module", "list", "--enabled", name])[1]
        return any(line.split()[:2] == [name, wanted] for line in out.splitlines())

    def change(self, changes: Changes) -> None:
        """Make the changes; remove version locks first, because dnf hides locked-out versions."""
        if not self.stream_is_enabled():
            self.must("dnf", "-y", "module", "reset", self.params["stream"].partition(":")[0])
            self.must("dnf", "-y", "module", "enable", self.params["stream"])
        plain = [word for word in changes["install"] if "=" not in word]
        exact = [word for word in changes["install"] if "=" in word]
        named = {word.partition("=")[0] for word in exact}.union(changes["hold"], changes["unhold"], changes["remove"])
        freed = self.free(named, family=bool(exact))
        words = [
            *((self.params["files"] or plain) if plain else []),
            *(self.pinned_versions() if exact else []),
            *exact,
        ]
        if changes["hold"] or self.params["family"]:
            words.append(LOCK_PLUGIN)
        if words:
            options = ["--allowerasing"] if exact or changes["remove"] else []
            command = install_command(self.module, recommends=self.params["recommends"], dnf=options)
            self.install(freed.difference(changes["unhold"]), changes, [*command, *words])
        # The first transaction may already have removed some of these packages.
        self.present = self.read()
        if gone := self.changes()["remove"]:
            self.step(freed.difference(changes["unhold"]), "dnf", "-y", "remove", *gone)
            self.present = self.read()
        # A stale lock of a removed package would prevent the installation of another version.
        self.free({name for name in freed if name not in self.present}, family=False)
        if lock := self.changes()["hold"]:
            self.must("dnf", "-q", "versionlock", "add", *lock)
        self.present = self.read()

    def locks(self) -> list[str]:
        """Return the lines of the version lock file."""
        return lock_lines(LOCKS.read_text(encoding="utf-8")) if LOCKS.exists() else []

    def free(self, names: set[str], *, family: bool) -> set[str]:
        """Remove the version locks of these packages, and of the family if `family` is set; return the unlocked names.

        Locks are deleted by their full line and for every version, because dnf adds no lock if another one exists.
        """

        def concerns(name: str) -> bool:
            return name in names or (family and is_of_family(name, self.params["family"]))

        lines = locks_about(self.locks(), concerns)
        if lines:
            self.must("dnf", "-q", "versionlock", "delete", *lines)
        return {lock_name(line) for line in lines}

    def install(self, freed: set[str], changes: Changes, command: list[str]) -> None:
        """Install packages; if a file conflicts with a package to remove, remove that package first."""
        command = [word.replace("=", "-", 1) if not word.startswith("-") else word for word in command]
        status, output = self.run(*command)
        in_the_way = [name for name in changes["remove"] if f"with file from package {name}-" in output]
        if status != 0 and in_the_way:
            self.step(freed, "dnf", "-y", "remove", *in_the_way)
            self.gone = in_the_way
        if status != 0:
            self.step(freed, *command)

    def unfinished(self) -> str:
        """Describe the packages that were removed before the installation failed."""
        return f"\n    removed before the failed installation: {', '.join(self.gone)}" if self.gone else ""

    def step(self, freed: set[str], *command: str) -> None:
        """Run a command; on failure restore the version locks and fail the module."""
        status, output = self.run(*command)
        if status == 0:
            return
        self.present = self.read()
        if again := sorted(name for name in freed if name in self.present):
            self.run("dnf", "-q", "versionlock", "add", *again)
        self.fail(list(command), output)


def host_packages(module: Any) -> Packages:  # noqa: ANN401 - Ansible has no types
    """Return the host's package manager, initialized with the parameters of the `packages` module."""
    return Apt(module) if module.get_bin_path("apt-get") else Dnf(module)
