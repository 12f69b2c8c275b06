"""Values that a role refuses whatever the host is: found where they are written, before any host is asked."""

from __future__ import annotations

import re
import zoneinfo
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from ...module_utils.containers.enroot_config import declaration_problems as enroot_problems
from ...module_utils.nvidia.rdma_problems import declaration_problems as rdma_problems
from ..common.near_names import near_name
from ..containers.module_files import module_file_problems
from ..containers.pyxis import pyxis_problems
from ..monitoring.grafana_problems import grafana_problems
from ..monitoring.journal_remote import journal_remote_problems
from ..nvidia.cuda_support import release_of
from ..nvidia.dcgm_problems import MAJORS
from ..slurm.scripts import script_problems
from ..slurm.spank_plan import declaration_problems as spank_problems
from .options import places_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from .options import Setting

    Values = Mapping[str, Any]
    Fault = tuple[str, str, str]
    Check = tuple[tuple[str, ...], Callable[[Values], list[Problem]]]

__all__ = ["CHECK_NAMES", "option_faults", "value_problems"]

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")
_SEVERITIES = ("ISOLATE", "RESET", "MONITOR", "OFF", False)
# Checks of a node's health that `node_health_severities` may name.
CHECK_NAMES = (
    *("gpu_count", "gpu", "gpu_clocks", "gpu_links", "pcie_replays", "nvlink_crc", "dcgm", "fabric_manager", "xid"),
    *("nics", "link_flaps", "infiniband_errors", "disk", "mounts", "memory", "swap", "memory_errors", "clock"),
    *("services", "kernel", "stray_processes"),
)
# Numbers above 0, each with the largest that is allowed.
_LIMITS = {
    "node_health_clock_offset_s": None,
    "node_health_drain_percent": 100,
    "node_health_infiniband_errors": None,
    "node_health_link_flaps": None,
    "node_health_link_flaps_hours": 168,
    "node_health_nvlink_crc_per_second": None,
    "node_health_pcie_replays_per_minute": None,
    "node_health_repair_limit": None,
    "node_health_timeout_s": None,
    **dict.fromkeys(
        (
            *("alertmanager_port", "alertmanager_cluster_port", "dcgm_port", "dcgm_exporter_port", "identity_port"),
            *("jupyterhub_port", "jupyterhub_hub_port", "jupyterhub_proxy_port", "jupyterhub_proxy_api_port"),
            *("nfs_server_rdma_port", "node_exporter_port", "prometheus_port", "slurm_port", "ssh_port"),
        ),
        65535,
    ),
}
_CLUSTER = (re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}"), "use letters, digits, '_' and '-', at most 40")
_FORMS = {
    "cluster_name": _CLUSTER,
    "slurm_cluster_name": _CLUSTER,
    "hosts_domain": (re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*"), "give a domain, such as cluster.example.org"),
}
_JOURNAL = {
    "receiver": "x",
    "address": "x",
    "port": 19532,
    "max_use": "1G",
    "keep_free": "1G",
    "max_file_size": "1M",
    "max_age_days": 9999,
    "rotate_days": 1,
}
_RDMA = {
    "source": "none",
    "naming": "fallback",
    "names": {},
    "interface_names": {},
    "modules": [],
    "ipoib": [],
    "networks": [],
    "roce_mode": "",
    "roce_tos": -1,
    "gid_index": "",
}
_GRAFANA = {
    **dict.fromkeys(("package_url", "package_sha256", "version", "repository_url", "repository_fingerprint"), ""),
    "source": "none",
    "repository_key_url": "",
    "repository_key_file": "",
    "address": "127.0.0.1",
    "admin_password": "-" * 32,
    "admin_user": "admin",
    "prometheus_url": "http://x",
    "settings": {},
}
_RDMA_NAMES = {"ipoib": "ipoib_interfaces", "networks": "ipoib_networks", "gid_index": "nccl_gid_index"}


def value_problems(settings: Iterable[Setting]) -> list[Problem]:
    """Return the values that cannot be, each with the place where it is set; those with templates are passed over."""
    plain = [each for each in settings if "{{" not in str(each.value)]
    latest = {each.name: each for each in plain}
    problems: list[Problem] = []
    for setting in plain:
        given = {name: each.value for name, each in latest.items()} | {setting.name: setting.value}
        for found in option_faults(given, names=[setting.name]):
            name = _name(found)
            # What is missing beside an option is told with that one, what is set elsewhere with its own place.
            place = latest.get(name, setting) if name != setting.name else setting
            hosts = [place.host] if place.host else []
            problem = make_problem(hosts, found["key"], f"{found['problem']}{places_of([place])}", found["remedy"])
            problems += [problem] if problem not in problems else []
    return problems


def option_faults(values: Values, host: str = "", names: Collection[str] = ()) -> list[Problem]:
    """Return what is wrong with options, of all that are known here or of some; those of a wrong type are passed over.

    Args:
        values: options by name.
        host: whose options they are.
        names: those to look at, with the ones that are judged together with them; none for all.
    """
    problems: list[Problem] = []
    for options, check in _CHECKS:
        given = {name: values[name] for name in options if name in values}
        try:
            problems += check(given) if given.keys() & (names or given.keys()) else []
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    return [make_problem([host] if host else [], each["key"], each["problem"], each["remedy"]) for each in problems]


def _name(problem: Problem) -> str:
    """Return the option of a problem, without the entry."""
    return re.split(r"[.:\[]", problem["key"])[0]


def _each(values: Values, faults: Callable[[str, Any], Iterable[Fault]]) -> list[Problem]:
    """Return the problems of options that are judged one by one."""
    return [make_problem([], *fault) for name, value in values.items() for fault in faults(name, value)]


def _limits(name: str, value: Any) -> Iterator[Fault]:  # noqa: ANN401 - as a site writes it
    most = _LIMITS[name]
    if not 0 < float(value) <= (most or float("inf")):
        yield name, f"{value} is out of bounds", f"give more than 0{f', at most {most}' if most else ''}"


def _forms(name: str, value: Any) -> Iterator[Fault]:  # noqa: ANN401
    form, remedy = _FORMS[name]
    if value and not form.fullmatch(str(value)):
        yield name, f"{value!r} cannot be used", remedy


def _severities(name: str, value: Any) -> Iterator[Fault]:  # noqa: ANN401
    for check, severity in value.items():
        if check not in CHECK_NAMES:
            near = near_name(str(check), CHECK_NAMES)
            meant = f"did you mean {near}? " if near else ""
            yield f"{name}.{check}", "is not a check", f"{meant}The checks are {', '.join(CHECK_NAMES)}"
        elif severity not in _SEVERITIES:
            yield f"{name}.{check}", f"{severity!r} is not a severity", "give ISOLATE, RESET, MONITOR or OFF"


def _archives(name: str, value: Any) -> Iterator[Fault]:  # noqa: ANN401
    for entry in value:
        if not _SHA256.fullmatch(str(entry.get("sha256"))):
            yield f"{name}[{entry.get('url')}]", "sha256 is not a SHA-256", "write its 64 hexadecimal digits"


def _checksums(name: str, value: Any) -> Iterator[Fault]:  # noqa: ANN401
    for machine, checksum in value.items():
        if not _SHA256.fullmatch(str(checksum)):
            yield f"{name}.{machine}", "is not a SHA-256", "the release names it beside the installer"


def _releases(name: str, value: Any) -> Iterator[Fault]:  # noqa: ANN401
    for version in value if isinstance(value, list) else filter(None, [value]):
        try:
            release_of(str(version))
        except ValueError as exc:
            yield name, str(exc), "name releases, best as text: ['12.8', '13.0']"


def _majors(name: str, value: Any) -> Iterator[Fault]:  # noqa: ANN401
    unknown = [str(major) for major in value if str(major) not in MAJORS]
    if unknown:
        yield name, f"DCGM 4 has no package for CUDA {', '.join(unknown)}", f"use some of {', '.join(MAJORS)}"


def _updates(name: str, value: Any) -> Iterator[Fault]:  # noqa: ANN401
    if name == "security_updates_spread_s" and int(value) < 0:
        yield name, f"{value} is below 0", "give seconds, 0 for all hosts at once"
    wrong = [str(each) for each in value if not _PACKAGE.fullmatch(str(each))] if isinstance(value, list) else []
    if wrong:
        remedy = "give the beginning of names of packages, without patterns, such as mariadb-"
        yield name, f"{', '.join(wrong)}: no package begins so", remedy


def _timezone(name: str, value: Any) -> Iterator[Fault]:  # noqa: ANN401
    zones = zoneinfo.available_timezones()
    # A provisioning host may have no list of zones.
    if zones and str(value or "") not in {"", *zones}:
        near = near_name(str(value), zones)
        remedy = f"did you mean {near}? " if near else ""
        remedy += "`timedatectl list-timezones` lists the names, such as Europe/Berlin; empty leaves hosts as they are"
        yield name, f"{value!r} is not a time zone", remedy


def _journal(values: Values) -> list[Problem]:
    given = {name.removeprefix("journal_remote_"): value for name, value in values.items()}
    return journal_remote_problems({**_JOURNAL, **given}, "")


def _grafana(values: Values) -> list[Problem]:
    given = {name.removeprefix("grafana_"): value for name, value in values.items()}
    return grafana_problems({**_GRAFANA, **given}, "")


def _rdma(values: Values) -> list[Problem]:
    given = {key: values[name] for key in _RDMA if (name := f"rdma_{_RDMA_NAMES.get(key, key)}") in values}
    return rdma_problems("", {**_RDMA, **given})


def _one(name: str, faults: Callable[[str, Any], Iterable[Fault]]) -> Check:
    return (name,), lambda values: _each(values, faults)


# Options that are judged together, and what judges them.
_CHECKS: list[Check] = [
    _one("dcgm_cuda", _majors),
    _one("gpudirect_gdrcopy_archives", _archives),
    _one("hosts_timezone", _timezone),
    _one("miniforge_checksums", _checksums),
    _one("node_health_severities", _severities),
    (tuple(_LIMITS), lambda values: _each(values, _limits)),
    (tuple(_FORMS), lambda values: _each(values, _forms)),
    (("cuda_versions", "cuda_default_version", "cuda_absent_versions"), lambda values: _each(values, _releases)),
    (("security_updates_spread_s", "security_updates_exclude"), lambda values: _each(values, _updates)),
    (("enroot_settings",), lambda values: enroot_problems([], {}, values["enroot_settings"])),
    (("lmod_modules",), lambda values: module_file_problems(values["lmod_modules"], "")),
    (("pyxis_options",), lambda values: pyxis_problems(values["pyxis_options"], "")),
    (("slurm_job_scripts",), lambda values: script_problems(values["slurm_job_scripts"])),
    (("slurm_spank_plugins",), lambda values: spank_problems(values["slurm_spank_plugins"])),
    (tuple(f"journal_remote_{key}" for key in _JOURNAL if key not in {"receiver", "address"}), _journal),
    (tuple(f"grafana_{key}" for key in _GRAFANA), _grafana),
    (tuple(f"rdma_{_RDMA_NAMES.get(key, key)}" for key in _RDMA), _rdma),
]
