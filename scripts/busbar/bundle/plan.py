"""Determine the files that the hosts of an inventory download. Ansible evaluates it without contacting the hosts."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_choice import driver_choice
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_packages import driver_packages
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_plan import driver_plan
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.repositories import nvidia_repository

from busbar.errors import UsageError
from busbar.paths import collection
from busbar.run.playbook import inventory_hosts
from busbar.run.site import explain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from busbar.run.site import Site


@dataclasses.dataclass
class HostClass:
    """Hosts that need the same packages from the same repositories of the same system.

    Attributes:
        system: name of the system, as in roles/hosts/files/bundle_systems.yml.
        hosts: names of the hosts.
        packages: name of each package with its version or pattern, which may be empty; @NAME is a module stream.
        pins: patterns of further packages with their version.
        repositories: repositories in addition to the system's own, with name, url, suite, components, key_url (or
            key_file on this machine), fingerprint.
    """

    system: str
    hosts: list[str]
    packages: list[list[str]]
    pins: list[list[str]]
    repositories: list[dict[str, Any]]

    @property
    def wanted(self) -> dict[str, Any]:
        """The attributes that define the class, without its hosts."""
        return {key: value for key, value in dataclasses.asdict(self).items() if key != "hosts"}


@dataclasses.dataclass
class Plan:
    """The contents of a bundle.

    Attributes:
        cluster: name of the cluster.
        classes: the classes of hosts.
        downloads: SHA-256 of each URL, empty where the role has none.
        requirements: files of requirements for pip, each with a system.
        images: container images.
    """

    cluster: str
    classes: list[HostClass]
    downloads: dict[str, str]
    requirements: list[list[str]]
    images: list[str]

    @property
    def fingerprint(self) -> str:
        """A hash of all that the hosts need, which another host of an existing class does not change."""
        wanted = [each.wanted for each in self.classes]
        content = [self.cluster, wanted, self.downloads, self.requirements, self.images]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def systems() -> dict[str, dict[str, Any]]:
    """Return the supported systems by name."""
    text = (collection() / "roles/hosts/files/bundle_systems.yml").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return found


def assigned_systems(site: Site, choices: Sequence[str]) -> dict[str, str]:
    """Return the system of each host; later choices override earlier ones.

    Args:
        site: the inventory.
        choices: each a system for all hosts, or SYSTEM=PATTERN with an Ansible pattern of hosts.

    Raises:
        UsageError: a system is unknown, a pattern matches no host, or a host has no system.
    """
    known, playbook = systems(), site.playbook("steps/bundle")
    found: dict[str, str] = {}
    for choice in choices:
        name, _, pattern = choice.partition("=")
        if name not in known:
            message = f"--system {choice}: unknown system {name} (known: {', '.join(known)})"
            raise UsageError(message)
        hosts = inventory_hosts(playbook, pattern or "all")
        if not hosts:
            message = f"--system {choice}: matches no host in the inventory"
            raise UsageError(message)
        found |= dict.fromkeys(hosts, name)
    every = [host for host in inventory_hosts(playbook, "all") if host not in {"localhost", "127.0.0.1"}]
    missing = [host for host in every if host not in found]
    if missing or not every:
        message = (
            f"{', '.join(missing[:5]) or 'inventory'}: the system of the host is unknown. Set it for all hosts, such as"
            " --system debian13, or for some: --system rocky9=slurm_compute"
        )
        raise UsageError(message)
    return {host: found[host] for host in every}


def make_plan(site: Site, assigned: Mapping[str, str]) -> Plan:
    """Evaluate the inventory with Ansible.

    Raises:
        UsageError: Ansible failed, or the inventory has an option that a bundle does not support.
    """
    known = systems()
    machine = {"architecture": platform.machine(), "kernel": "generic", "virtualization_tech_guest": []}
    facts = {host: known[system]["facts"] | machine for host, system in assigned.items()}
    with tempfile.TemporaryDirectory(prefix="busbar-") as folder:
        path = Path(folder) / "facts.json"
        path.write_text(json.dumps({"bundle_facts": facts}), encoding="utf-8")
        run = site.ask(site.playbook("steps/bundle"), "-e", f"@{path}", log="bundle")
    wanted = run.custom.get("busbar_bundle") or {}
    if run.returned or not wanted:
        explain(run)
        message = "the packages of the inventory could not be determined; see above"
        raise UsageError(message)
    return plan_from(wanted, run.custom["busbar_bundle_repositories"], assigned, facts)


def plan_from(
    wanted: Mapping[str, Sequence[Mapping[str, Any]]],
    declared: Mapping[str, Mapping[str, Any]],
    assigned: Mapping[str, str],
    facts: Mapping[str, Mapping[str, Any]],
) -> Plan:
    """Group the hosts with equal packages and repositories into classes.

    Args:
        wanted: the entries of playbooks/vars/bundle_packages.yml by host.
        declared: the declared repositories by host.
        assigned: system of each host.
        facts: facts of each host.

    Raises:
        UsageError: a host has an option that a bundle does not support.
    """
    plan = Plan(next(iter(declared.values()))["cluster"], [], {}, [], [])
    classes: dict[str, HostClass] = {}
    for host, entries in wanted.items():
        if declared[host]["slurm"].get("suite"):
            message = f"{host}: slurm_repository.suite is not supported in a bundle. Use a repository of the site"
            raise UsageError(message)
        own = HostClass(assigned[host], [host], [], [], [])
        for entry in entries:
            _add_entry(own, plan, entry, declared[host], facts[host])
        own.packages = [list(each) for each in sorted({(name, version) for name, version in own.packages})]
        own.pins.sort()
        own.repositories.sort(key=lambda each: str(each["name"]))
        key = json.dumps(own.wanted, sort_keys=True)
        if key in classes:
            classes[key].hosts.append(host)
        else:
            classes[key] = own
    plan.classes = list(classes.values())
    plan.downloads, plan.requirements = dict(sorted(plan.downloads.items())), sorted(plan.requirements)
    plan.images.sort()
    return plan


def _add_entry(
    own: HostClass, plan: Plan, entry: Mapping[str, Any], declared: Mapping[str, Any], facts: Mapping[str, Any]
) -> None:
    host = own.hosts[0]
    own.packages += [[name, ""] for name in entry.get("names") or []]
    own.packages += [[each["name"], str(each.get("version") or "")] for each in entry.get("packages") or []]
    if entry.get("driver"):
        names, pins = _driver(entry["driver"], host, facts)
        own.packages += names
        own.pins += pins
    name = str(entry.get("repository") or "")
    if name and name not in [each["name"] for each in own.repositories]:
        own.repositories.append(_repository(name, host, declared, facts))
    for url, digest in _downloads(entry):
        plan.downloads[url] = digest
    needed = [[str(name), own.system] for name in entry.get("requirements") or []]
    plan.requirements += [each for each in needed if each not in plan.requirements]
    # Other images are files on the hosts.
    images = [name for name in entry.get("images") or [] if not name.startswith("/")]
    plan.images += [name for name in images if name not in plan.images]


def _driver(driver: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the packages of the NVIDIA driver, and the version of each package of the same release."""
    system = {"distribution": facts["distribution"], "major": facts["distribution_major_version"], "container": False}
    hardware, settings = driver["hardware"], driver["settings"]
    planned = driver_plan(host, hardware, settings, system)
    names = driver_packages(driver_choice(hardware, settings, system, planned["branch"]))
    locked = (driver.get("locked") or {}).get(planned["key"])
    pattern = f"{settings.get('version') or locked or planned['branch']}*"
    stream = [[f"@{names.stream}", ""]] if names.stream else []
    packages = [*([name, pattern] for name in names.exact), *([name, ""] for name in names.free), *stream]
    return packages, [[name, pattern] for name in planned["family"]]


def _repository(name: str, host: str, declared: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a repository.

    Raises:
        UsageError: the repository does not support this system.
    """
    if name == "grafana":
        return {"name": name} | dict(declared["grafana"])
    system = {
        "distribution": facts["distribution"],
        "version": facts["distribution_version"],
        "major": facts["distribution_major_version"],
        "family": facts["os_family"],
        "architecture": facts["architecture"],
    }
    key_file = (declared.get("key_files") or {}).get(name) or ""
    given = dict(declared["nvidia"]) | ({"url": declared["doca"]} if name == "doca" else {}) | {"key_file": key_file}
    found = nvidia_repository(name, system, given, host)  # type: ignore[arg-type]  # a TypedDict of strings
    for problem in found["problems"]:
        message = f"{host}: {problem['key']}: {problem['problem']}. {problem['remedy']}"
        raise UsageError(message)
    kept = ("url", "suite", "components", "key_url", "fingerprint")
    return {"name": name, "key_file": key_file} | {key: found[key] for key in kept}  # type: ignore[literal-required]


def _downloads(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for each in entry.get("downloads") or []:
        url = str(each.get("url") or each.get("source") or "")
        if entry.get("base"):
            url = f"{str(entry['base']).rstrip('/')}/{each['file']}"
        # Other sources are files on the provisioning host.
        if url.startswith(("http://", "https://")):
            yield url, str(each.get("sha256") or "").lower()


def hosts_text(hosts: Sequence[str]) -> str:
    """Return the first three names of hosts and the number of further hosts."""
    return ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")  # noqa: PLR2004
