"""Converts drivers, MIG, storage, containers and services of DeepOps."""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.mig_layouts import layout_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.gres_conf import gres_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm

from busbar.adopt.draft import ASK, CARRIED, DEFAULT, LEFT
from busbar.adopt.nfs import adopt_exports, adopt_mounts
from busbar.adopt.source import is_on, resolved, unresolved
from busbar.adopt.tables import data

if TYPE_CHECKING:
    from busbar.adopt.reading import Reading

# Oldest branch of the driver that NVIDIA still updates.
_OLDEST_BRANCH = 535
_OPEN = "nvidia_driver_ubuntu_use_open_kernel_modules"
_CUDA = re.compile(r"cuda-toolkit[-=](\d+)[-.](\d+)(?:\.(\d+))?")
# Variables that switch a role off, and the option for it.
_SWITCHES = {
    "slurm_cluster_install_cuda": "cuda_source",
    "slurm_cluster_install_nvidia_driver": "nvidia_driver_source",
    "install_dcgm": "dcgm_source",
}
_ENROOT_SETTING = re.compile(r"(?:ENROOT|MELLANOX|NVIDIA)_(?!\w*_PATH\b)[A-Z_]+")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy")


def gpus(reading: Reading) -> None:
    """Set driver, CUDA, DCGM and the detection of GPUs."""
    draft = reading.draft
    branches: dict[str, str] = {}
    for name in ("nvidia_driver_branch", "nvidia_driver_ubuntu_branch"):
        for host, value in reading.by_host(name).items():
            if not str(value).isdecimal() or int(value) < _OLDEST_BRANCH:
                reading.note(
                    name, ASK, f"branch {value} gets no more updates: which one should nvidia_driver_branch be?"
                )
            elif branches.setdefault(host, str(value)) == str(value):
                reading.note(name, CARRIED, "nvidia_driver_branch")
        reading.leave(name, "nvidia_driver_branch is set, too")
    draft.spread("nvidia_driver_branch", branches)
    modules = {host: "open" if is_on(value) else "proprietary" for host, value in reading.by_host(_OPEN).items()}
    if "open" in modules.values():
        draft.spread("nvidia_driver_kernel_modules", modules)
        reading.note(_OPEN, CARRIED, "nvidia_driver_kernel_modules")
    reading.leave(_OPEN, "nvidia_driver_kernel_modules: auto chooses for each GPU; `proprietary` keeps these modules")
    for name, option in _SWITCHES.items():
        off = {host: "none" for host, value in reading.by_host(name).items() if not is_on(value)}
        draft.spread(option, off)
        where = f" on {fold_for_slurm(off)}" if len(off) < len(draft.hosts) else ""
        reading.note_if_set(name, CARRIED if off else DEFAULT, f"{option}: none{where}" if off else option)
    version = _CUDA.search(str(reading.value("cuda_version")))
    if draft.variables.get("cuda_source") == "none":
        reading.leave("cuda_version", "without effect, because CUDA is not installed")
    elif version:
        reading.carry("cuda_version", {"cuda_versions": [".".join(filter(None, version.groups()))]})
    reading.note_if_set("cuda_version", DEFAULT, "the newest toolkit")
    detects = reading.on("slurm_autodetect_nvml") and reading.release >= "23.08" and reading.on("slurm_manage_gpus")
    if detects and not reading.has("slurm_gres_conf_template"):
        _gres_mode(reading)


def _gres_mode(reading: Reading) -> None:
    """Have slurmd detect GPUs by NVML where the profile of the hardware permits it."""
    name, compute = "slurm_autodetect_nvml", reading.draft.groups["slurm_compute"]
    refused = [host for host in compute if gres_problems([host], reading.gpu(host), None, "nvml")]
    if not refused:
        reading.carry(name, {"slurm_gres_mode": "nvml"})
        return
    for host in compute:
        reading.draft.hosts[host] |= {} if host in refused else {"slurm_gres_mode": "nvml"}
    reading.note(name, LEFT, f"the GPU type of {fold_for_slurm(refused)} needs slurm_gres_mode: files, the default")


def mig(reading: Reading) -> None:
    """Set the MIG layouts of nodes whose GPUs support them."""
    name, compute, hosts = "mig_manager_profile", reading.draft.groups["slurm_compute"], reading.draft.hosts
    values = {host: str(value) for host, value in reading.by_host(name).items() if host in compute}
    for_all = len(values) == len(compute) and len(set(values.values())) == 1
    layouts = _layouts(reading)
    for profile in dict.fromkeys(values.values()):
        named = [host for host, value in values.items() if value == profile]
        layout, folded = layouts.get(profile), fold_for_slurm(named)
        if layout is None:
            reading.note(name, ASK, f"{profile} of {folded} is not a layout that busbar can read: set mig_layout")
            continue
        if not layout:
            reading.note(name, DEFAULT, f"{profile}: no layout")
            continue
        fitting = [host for host in named if _fits(reading, host, layout, for_all=for_all)]
        for host in fitting:
            hosts[host]["mig_layout"] = layout
        having = fold_for_slurm(fitting)
        if fitting:
            reading.note(name, CARRIED, f"mig_layout of {having} ({profile})")
        if for_all:
            draft = f"the draft sets it on {having}" if fitting else f"the draft leaves it out: {layout}"
            reading.note(name, ASK, f"which nodes have the layout {profile}? It is set for all nodes, {draft}")
        elif lost := [host for host in named if host not in fitting]:
            reading.note(name, ASK, f"the hardware of {fold_for_slurm(lost)} does not support {profile}")


def _fits(reading: Reading, host: str, layout: list[dict[str, Any]], *, for_all: bool) -> bool:
    """Return whether a host gets a layout; with unknown hardware only if other nodes have a different layout."""
    if host not in reading.hardware:
        return not for_all
    gpu = reading.gpu(host)
    return gpu is not None and not layout_problems(gpu, layout)


def _layouts(reading: Reading) -> dict[str, list[dict[str, Any]] | None]:
    """Return the layouts by profile of mig-parted; None for one that cannot be expressed."""
    path = reading.source.folder / "nvidia-mig-config.yml"
    own = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    return {
        name: _layout(parts)
        for name, parts in {**data()["mig_layouts"], **((own or {}).get("mig-configs") or {})}.items()
    }


def _layout(parts: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Return a layout of mig-parted as mig_layout, or None if it selects GPUs by their model."""
    layout: list[dict[str, Any]] = []
    for part in parts or []:
        if "device-filter" in part:
            return None
        gpus_of = {} if part.get("devices") == "all" else {"gpus": list(part.get("devices") or [])}
        devices = (part.get("mig-devices") or {}) if part.get("mig-enabled") else {}
        layout += [{"profile": str(profile), "count": int(count), **gpus_of} for profile, count in devices.items()]
    return layout


def storage(reading: Reading) -> None:
    """Set the exports and mounts whose flags are on."""
    source, draft = reading.source, reading.draft
    served, mounted = reading.on("slurm_enable_nfs_server"), reading.on("slurm_enable_nfs_client_nodes")
    servers = source.select(str(reading.value("nfs_server_group"))) if served else []
    servers = [host for host in servers if host in draft.hosts]
    exports = resolved(source.value(servers[0], "nfs_exports")) if servers else []
    if exports:
        adopt_exports(draft, servers, exports, source.where("nfs_exports"))
    clients = source.select(str(reading.value("nfs_client_group"))) if mounted else []
    mounts = {host: resolved(source.value(host, "nfs_mounts", [])) for host in clients if host in draft.hosts}
    if any(mounts.values()):
        adopt_mounts(draft, source, mounts, source.where("nfs_mounts"))
    for name, on, group in (
        ("slurm_enable_nfs_server", bool(exports), "nfs_server"),
        ("nfs_server_group", bool(exports), "nfs_server"),
        ("slurm_enable_nfs_client_nodes", any(mounts.values()), "hosts that mount"),
        ("nfs_client_group", any(mounts.values()), "hosts that mount"),
    ):
        reading.note_if_set(name, CARRIED if on else LEFT, f"group {group}" if on else "off, or nothing is declared")
    for name, on in (("nfs_exports", served), ("nfs_mounts", mounted)):
        reading.leave(name, "empty" if on else "without effect, because its flag is off")


def containers(reading: Reading) -> None:
    """Set paths and settings of Enroot."""
    names = ("enroot_data_path", "enroot_cache_path")
    if reading.on("slurm_install_enroot"):
        own = {name: str(reading.value(name)) for name in names if reading.value(name) != reading.defaults[name]}
        roots = [re.sub(r"/[^/]*\$\(.*$", "", value) for value in own.values()]
        if roots and all(root.startswith("/") and root.count("/") > 1 for root in roots):
            top = os.path.commonpath(roots) if roots[1:] else roots[0].rpartition("/")[0]
            path = top if "enroot" in top.rpartition("/")[2] else f"{top.rstrip('/')}/enroot"
            reading.draft.variables["enroot_path"] = path
            for name in own:
                reading.note(name, CARRIED, "enroot_path, with directories for each user")
        lines = str(reading.value("enroot_config") or "").splitlines()
        settings = dict(line.split(None, 1) for line in lines if line.strip().count(" "))
        if kept := {key: value.strip() for key, value in settings.items() if _ENROOT_SETTING.fullmatch(key)}:
            reading.carry("enroot_config", {"enroot_settings": kept})
    for name in (*names, "enroot_runtime_path"):
        reading.leave(name, "Enroot will use directories below enroot_path; images must be unpacked again")


def services(reading: Reading) -> None:
    """Set time servers, proxies, packages and the SSH server, and list the checks of NHC."""
    draft = reading.draft
    if servers := resolved(reading.value("chrony_config_server")):
        upstream = servers if isinstance(servers, list) else [servers]
        reading.carry("chrony_config_server", {"hosts_time_upstream": upstream, "hosts_time_servers": []})
    proxies = {name: reading.value(name) for name in _PROXIES if reading.value(name)}
    proxies = {name: value for name, value in proxies.items() if not unresolved(value)}
    enroot = reading.on("slurm_install_enroot")
    if proxies:
        question = "busbar sets no proxy for apt and dnf: is it in /etc/apt/apt.conf.d or /etc/dnf/dnf.conf?"
        draft.note("proxy", ASK, f"{question} {', '.join(map(str, proxies.values()))}")
    for name, value in proxies.items():
        if enroot:
            reading.carry(name, {"enroot_settings": {name: value}})
        reading.leave(name, "no option: keep it on the hosts")
    wanted = reading.value("software_extra_packages")
    if kept := resolved(wanted):
        reading.carry("software_extra_packages", {"hosts_packages": kept})
    if lost := unresolved(wanted):
        reading.note("software_extra_packages", LEFT, f"depends on facts of the host: {', '.join(lost)}")
    tries = reading.value("ssh_max_auth_retries")
    if str(tries).isdecimal():
        reading.carry("ssh_max_auth_retries", {"ssh_server_config": {"MaxAuthTries": int(tries)}})
    checks = reading.file(str(reading.value("nhc_config_template") or "/"))
    if checks is not None:
        lines = [line.strip() for line in checks.read_text("utf-8", "replace").splitlines()]
        own = "; ".join(line for line in lines if line and not line.startswith("#"))
        shown = reading.source.shown(checks)
        reading.note("nhc_config_template", LEFT, f"busbar has its own health check. Lines of {shown}: {own}")
