"""Module that reads the installed and available Slurm versions of a host, and configures the package source."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_release
author: busbar contributors (!UNKNOWN)
short_description: Return the installed and the available version of Slurm
description:
  - Reads the installed packages of Slurm, the versions that apt offers, the other packages that an upgrade would
    change, and whether each daemon runs the installed program.
  - Also evaluates O(repository) before it is configured. Writes its files only with O(write).
  - Installs nothing. On a host with dnf, returns no offer.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  repository:
    description: The option C(slurm_repository) of the role slurm.
    type: dict
    default: {}
  also:
    description: Additional packages from the suite, if O(repository) does not list any.
    type: list
    elements: str
    default: []
  write:
    description: Whether to write source and preferences, or remove them if O(repository) is empty.
    type: bool
    default: false
  download:
    description: Whether to download the packages, so that a later upgrade does not wait for the network. Not in check
      mode.
    type: bool
    default: false
  mpi:
    description: Whether to return RV(lost) without O(download). Downloads the packages with MPI plugins into a
      temporary directory, also in check mode.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Read the installed and available Slurm versions
  busbar.cluster.slurm_release:
    repository: {release: "26.05", suite: testing}
  register: found
"""

RETURN = r"""
installed:
  description: Version of each installed package of Slurm.
  returned: always
  type: dict
offered:
  description: Version of each package that apt would install.
  returned: always
  type: dict
removes:
  description: Packages that apt would remove.
  returned: always
  type: list
  elements: str
error:
  description: Reason why apt would fail.
  returned: always
  type: str
lost:
  description: MPI types of srun that the upgrade would remove, such as V(pmix). With O(download) or O(mpi).
  returned: always
  type: list
  elements: str
plugins:
  description: C(library), C(file) with the line that loads it, and C(slurm), the version that it was built for, of each
    third-party SPANK plugin. Plugins whose package would be upgraded, too, are omitted.
  returned: always
  type: list
  elements: dict
daemons:
  description: C(current), C(stale) (an older program runs) or C(stopped), for each enabled daemon.
  returned: always
  type: dict
"""

import contextlib
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.baseline import before_write
from ..module_utils.common.package_commands import APT, ENVIRONMENT, error_text, lists_are_fresh, run_manager
from ..module_utils.common.package_upgrades import parse_apt
from ..module_utils.slurm.apt_source import (
    PREFERENCES,
    SLURM_PACKAGES,
    SOURCE,
    distribution_archive,
    preferences_text,
    repository_problems,
    source_text,
)
from ..module_utils.slurm.foreign_spank_plugins import foreign_plugins
from ..module_utils.slurm.releases import parse_candidates, release_text
from ..module_utils.slurm.spank_package_names import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OPTIONS: dict[str, Any] = {
    "repository": {"type": "dict", "default": {}},
    "also": {"type": "list", "elements": "str", "default": []},
    "write": {"type": "bool", "default": False},
    "download": {"type": "bool", "default": False},
    "mpi": {"type": "bool", "default": False},
}
DAEMONS = ("slurmdbd", "slurmctld", "slurmd", "sackd")
# Source packages of Slurm from Debian, SchedMD and older Ubuntu releases. The package "slurm" is an unrelated network
# monitor.
MAKERS = {"slurm-wlm", "slurm-smd", "slurm-llnl"}
KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/ubuntu-archive-keyring.gpg")
ARCHIVES = Path("/var/cache/apt/archives")
_FIELDS = 4
_MPI = re.compile(r"/mpi_([a-z0-9_]+?)(?:_v\d+)?\.so\b")


def wanted_files(module: AnsibleModule) -> dict[str, str]:
    """Return the content of each file; empty for a file that should be absent."""
    repository = module.params["repository"]
    if not repository:
        return {SOURCE: "", PREFERENCES: ""}
    if problems := repository_problems(repository):
        module.fail_json(msg="; ".join(f"{key}: {problem}: {remedy}" for key, problem, remedy in problems))
    url = repository.get("url") or ""
    if repository.get("suite") and not url:
        lines = module.run_command(["apt-get", "indextargets", "--format", "$(REPO_URI)|$(CODENAME)|$(ORIGIN)"])[1]
        url = distribution_archive(lines, codename())
        if not url:
            module.fail_json(
                msg="slurm_repository.url: the apt sources of this host have no archive of its "
                "distribution: set the URL"
            )
    keyring = repository.get("keyring") or next((path for path in KEYRINGS if Path(path).exists()), "")
    if repository.get("suite") and not keyring:
        module.fail_json(
            msg="slurm_repository.keyring: this host does not have the key of its distribution: set the path"
        )
    return {
        SOURCE: source_text(repository, url, keyring),
        PREFERENCES: preferences_text(repository, module.params["also"]),
    }


def codename(path: Path = Path("/etc/os-release")) -> str:
    """Return the codename of the distribution release."""
    rows = (line.partition("=") for line in path.read_text(encoding="utf-8").splitlines())
    return next((value.strip('"') for key, _, value in rows if key == "VERSION_CODENAME"), "")


@contextlib.contextmanager
def options_with_files(files: dict[str, str]) -> Iterator[list[str]]:
    """Yield apt options that make apt use a copy of its configuration with these files."""
    with tempfile.TemporaryDirectory(prefix="busbar-") as folder:
        # A separate cache, because apt takes seconds to rebuild its cache whenever its configuration changes.
        options = [
            word
            for name in ("pkgcache", "srcpkgcache")
            for word in ("-o", f"Dir::Cache::{name}={Path(folder, name)}.bin")
        ]
        for path, name in ((SOURCE, "sourceparts"), (PREFERENCES, "preferencesparts")):
            place = Path(folder, name)
            shutil.copytree(Path(path).parent, place, symlinks=True)
            copy = place / Path(path).name
            copy.unlink(missing_ok=True)
            if files[path]:
                copy.write_text(files[path], encoding="utf-8")
            options += ["-o", f"Dir::Etc::{name}={place}"]
        yield options


def write(module: AnsibleModule, files: dict[str, str]) -> None:
    """Write the files, and remove those that should be absent."""
    before_write(module, {path: text or None for path, text in files.items() if text or Path(path).exists()})
    for path, text in files.items():
        if text:
            fresh = Path(f"{path}.new")
            fresh.write_text(text, encoding="utf-8")
            fresh.chmod(0o644)
            fresh.replace(path)
        else:
            Path(path).unlink(missing_ok=True)


def fetch(module: AnsibleModule, options: list[str], files: dict[str, str], names: Sequence[str]) -> None:
    """Update missing or old package lists; only the list of the new source if the others are fresh."""
    if not lists_are_fresh():
        must(module, [*APT, "update"])
    if not files[SOURCE] or is_known(candidates(module, options, names), module.params["repository"]):
        return
    with tempfile.TemporaryDirectory(prefix="busbar-") as folder:
        Path(folder, Path(SOURCE).name).write_text(files[SOURCE], encoding="utf-8")
        only = ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={folder}"]
        kept = ["-o", "APT::Get::List-Cleanup=0", "-o", "Acquire::Languages=none", "-o", "APT::Update::Error-Mode=any"]
        must(module, [*APT, *only, *kept, "update"])


def must(module: AnsibleModule, command: list[str]) -> None:
    """Run apt; fail the module if it fails."""
    status, output = run_manager(module, command)
    if status:
        module.fail_json(msg=f"apt cannot fetch its lists: {error_text(output)}")


def installed_packages(module: AnsibleModule) -> dict[str, str]:
    """Return the versions of the installed Slurm packages."""
    form = "${db:Status-Status} ${Package} ${Version} ${source:Package}\\n"
    output = module.run_command(["dpkg-query", "-W", "-f", form, *SLURM_PACKAGES])[1]
    rows = [line.split() for line in output.splitlines()]
    return {row[1]: row[2] for row in rows if len(row) == _FIELDS and row[0] == "installed" and row[3] in MAKERS}


def daemon_states(module: AnsibleModule) -> dict[str, str]:
    """Return the state of each enabled daemon's program; see program_state()."""
    found = {}
    for name in DAEMONS:
        output = module.run_command(["systemctl", "show", "-p", "UnitFileState,ActiveState,MainPID", name])[1]
        unit = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
        if unit.get("UnitFileState") != "enabled":
            continue
        found[name] = "stopped" if unit.get("ActiveState") != "active" else program_state(unit.get("MainPID", "0"))
    return found


def program_state(pid: str, proc: Path = Path("/proc")) -> str:
    """Return `current`, `stale` if the program file has been replaced since the process started, or `stopped`."""
    try:
        return "stale" if str((proc / pid / "exe").readlink()).endswith(" (deleted)") else "current"
    except OSError:
        return "stopped"


def candidates(module: AnsibleModule, options: list[str], names: Sequence[str]) -> dict[str, str]:
    """Return the versions that apt would install."""
    output = module.run_command(["apt-cache", *options, "policy", *names], environ_update=ENVIRONMENT)[1]
    return {name: versions[1] for name, versions in parse_candidates(output).items() if versions[1]}


def is_known(offered: dict[str, str], repository: dict[str, Any]) -> bool:
    """Return whether apt's package lists contain the requested release."""
    return any(release_text(version) == str(repository.get("release")) for version in offered.values())


def install(module: AnsibleModule, options: list[str], versions: dict[str, str], how: str) -> tuple[int, str]:
    """Run apt for an upgrade with the option `how` (--simulate or --download-only); return exit status and output."""
    words = [f"{name}={version}" for name, version in versions.items()]
    return run_manager(module, [*APT, *options, how, "--no-install-recommends", "install", *words])


def mpi_types(listing: str) -> set[str]:
    """Return the MPI types whose plugins are in a list of files; mpi_pmix_v5.so belongs to pmix."""
    return {match[1] for line in listing.splitlines() if (match := _MPI.search(line))}


def lost_types(module: AnsibleModule, versions: dict[str, str], archives: Path = ARCHIVES) -> list[str]:
    """Return the MPI types of the installed packages that are missing from the downloaded packages."""
    present, coming = "", ""
    for name, version in versions.items():
        present += module.run_command(["dpkg-query", "-L", name])[1]
        for path in archives.glob(f"{name}_{version.replace(':', '%3a')}_*.deb"):
            coming += module.run_command(["dpkg-deb", "--contents", str(path)])[1]
    return sorted(mpi_types(present) - mpi_types(coming)) if coming else []


def lost_in_offer(module: AnsibleModule, options: list[str], versions: dict[str, str]) -> list[str]:
    """Return the MPI types that are missing from the available packages, after downloading them temporarily."""
    listed = {name: module.run_command(["dpkg-query", "-L", name])[1] for name in versions}
    holders = {name: version for name, version in versions.items() if mpi_types(listed[name])}
    if not holders:
        return []
    with tempfile.TemporaryDirectory(prefix="busbar-") as folder:
        command = [*APT, *options, "download", *(f"{name}={version}" for name, version in holders.items())]
        status, out, err = module.run_command(command, cwd=folder, environ_update=ENVIRONMENT)
        if status:
            module.fail_json(msg=f"cannot download the Slurm packages: {error_text(out + err)}")
        return lost_types(module, holders, Path(folder))


def plugins(module: AnsibleModule, moves: dict[str, str]) -> list[dict[str, str]]:
    """Return the SPANK plugins not installed by busbar that the package upgrade does not replace."""
    found = foreign_plugins()
    owned = (module.run_command(["dpkg-query", "-S", each["library"]])[1].partition(":")[0] for each in found)
    return [each for each, owner in zip(found, owned) if owner not in moves]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if not module.get_bin_path("apt-get"):
        if module.params["repository"]:
            module.fail_json(msg="slurm_repository: only supported with apt: leave it empty on this host")
        module.exit_json(
            changed=False,
            installed={},
            offered={},
            removes=[],
            error="",
            lost=[],
            plugins=[],
            daemons=daemon_states(module),
        )
    files = wanted_files(module)
    before = {path: Path(path).read_text(encoding="utf-8") if Path(path).exists() else "" for path in files}
    changed = module.params["write"] and files != before
    if changed and not module.check_mode:
        write(module, files)
    in_place = files == before or (changed and not module.check_mode)
    with contextlib.nullcontext(list[str]()) if in_place else options_with_files(files) as options:
        installed = installed_packages(module)
        names = [*installed] or ["slurmctld"]
        # If an earlier task inspected the host, its package lists are up to date.
        if changed or not module.params["write"]:
            fetch(module, options, files, names)
        offered = candidates(module, options, names)
        moves = {name: offered[name] for name in installed if offered.get(name, installed[name]) != installed[name]}
        # Before a task with O(write), another task has already simulated the upgrade.
        looks = moves and not module.params["write"]
        status, output = install(module, options, moves, "--simulate") if looks else (0, "")
        lost: list[str] = []
        # Packages of SPANK plugins are removed and rebuilt during the upgrade.
        removes = [name for name in parse_apt(output)[1] if not name.startswith(PREFIX)]
        error = error_text(output) if status else ""
        if module.params["download"] and not (removes or error or module.check_mode) and moves:
            status, output = install(module, options, moves, "--download-only")
            if status:
                module.fail_json(msg=f"cannot download the Slurm packages: {error_text(output)}")
            lost = lost_types(module, moves)
        elif module.params["mpi"]:
            lost = lost_in_offer(module, options, moves)
    diff = [
        {"before": before[path], "after": text, "before_header": path, "after_header": path}
        for path, text in files.items()
        if changed and text != before[path]
    ]
    module.exit_json(
        changed=changed,
        installed=installed,
        offered=offered,
        removes=removes,
        error=error,
        lost=lost,
        plugins=plugins(module, moves),
        daemons=daemon_states(module),
        diff=diff,
    )


if __name__ == "__main__":
    main()
