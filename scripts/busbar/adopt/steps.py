"""Steps that all toolkits share: connection, hardware, hosts, and variables that no other step has noted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import (
    profile_names,
    shipped_profile,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_from_machine import machine_kinds
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm, unfold_hosts

from busbar.adopt.cluster_conf import chosen_hardware
from busbar.adopt.cluster_source import read_hosts
from busbar.adopt.draft import ASK, CARRIED, CHANGED, DEFAULT, LEFT, Vaulted
from busbar.adopt.hosts import carry_hosts, list_changes
from busbar.adopt.people import read_people, refuse_conflicts
from busbar.adopt.source import is_on, unresolved
from busbar.adopt.tables import Row, row_of, rows
from busbar.node_hardware import nodes_of, profile_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from busbar.adopt.cluster_source import HostReading
    from busbar.adopt.draft import Draft
    from busbar.adopt.reading import Reading

_NAMES = {"deepops": "DeepOps", "appliance": "ansible-slurm-appliance"}


def adopt_hardware(reading: Reading, given: Sequence[str]) -> None:
    """Set the hardware of compute nodes; nodes that no argument names are asked over SSH.

    Raises:
        UsageError: a profile or host is unknown.
    """
    draft, source = reading.draft, reading.source
    compute = draft.groups["slurm_compute"]

    def hosts_of(names: str) -> list[str]:
        return [source.short.get(host, host) for host in source.group(names) or unfold_hosts(names)]

    reading.hardware = chosen_hardware(given, compute, draft.hosts, hosts_of)
    if set(compute) - reading.hardware.keys():
        reading.read = _read(draft)
        _found_hardware(reading, [host for host in compute if host not in reading.hardware])
    for host, name in reading.hardware.items():
        draft.hosts[host]["hardware"] = name


def _read(draft: Draft) -> dict[str, HostReading]:
    """Return the readings of the hosts, with the connection variables of Ansible."""
    by_arguments: dict[str, dict[str, str]] = {}
    for host, own in draft.hosts.items():
        of = {name.removeprefix("ansible_"): str(value) for name, value in {**draft.variables, **own}.items()}
        user, port = of.get("user") or of.get("ssh_user"), of.get("port") or of.get("ssh_port")
        key = of.get("ssh_private_key_file") or of.get("private_key_file")
        place = of.get("host") or of.get("ssh_host") or host
        words = [of.get("ssh_common_args", ""), of.get("ssh_extra_args", "")]
        words += [f"-p {port}"] if port else []
        words += [f"-i {shlex.quote(str(Path(key).expanduser()))}"] if key else []
        by_arguments.setdefault(" ".join(filter(None, words)), {})[host] = f"{user}@{place}" if user else place
    found: dict[str, HostReading] = {}
    for arguments, places in by_arguments.items():
        found |= read_hosts(places, arguments)
    unread: dict[str, list[str]] = {}
    for host in draft.hosts:
        if found[host].error:
            unread.setdefault(found[host].error, []).append(host)
    for error, hosts in unread.items():
        draft.note(f"host {fold_for_slurm(hosts)}", ASK, f"not read: {error}")
    return {host: found[host] for host in draft.hosts}


def _found_hardware(reading: Reading, hosts: Sequence[str]) -> None:
    """Set the hardware that hosts report: a known profile if it is the same, otherwise a profile of the site."""
    draft, extra = reading.draft, dict[str, Any]()
    nodes = {host: nodes_of(reading.read[host].commands.get("hardware", "")) for host in hosts}
    machines = [(host, *profile_of(next(iter(found.values())))) for host, found in nodes.items() if found]
    for kind in machine_kinds(machines, {name: shipped_profile(name) for name in profile_names()}):
        text, name = fold_for_slurm(kind.hosts), kind.known or ""
        if not kind.known or kind.differences:
            name = kind.name
            extra[name] = kind.profile
            unlike = ", ".join(f"{key} {found}, not {known}" for key, known, found in kind.differences)
            near = f" The nearest known profile is {kind.known}: {unlike}" if kind.known else ""
            draft.note("hardware", ASK, f"{text}: is {name} of hardware_profiles_extra correct?{near}")
        draft.note("hardware", CARRIED, f"{text}: {name}, as the hosts report")
        for note in kind.notes:
            draft.note("hardware", ASK, f"{text}: {note}")
        reading.hardware |= dict.fromkeys(kind.hosts, name)
    if extra:
        draft.variables["hardware_profiles_extra"] = extra
    if missing := fold_for_slurm([host for host in hosts if host not in reading.hardware]):
        draft.note("hardware", ASK, f"which hardware do {missing} have? Name it with --hardware '{missing}=NAME'")


def adopt_hosts(reading: Reading, toolkit: str) -> None:
    """Keep the settings of the hosts that no variable of the inventory sets, and list what the takeover changes."""
    draft = reading.draft
    set_by = {row.option for name in reading.source.names() if (row := row_of(name, rows(toolkit)))}
    # busbar sets the password of the database.
    carry_hosts(draft, reading.read, {*set_by, *draft.variables, "mariadb_hosts"})
    list_changes(draft, reading.read)
    if unlike := refuse_conflicts(draft, read_people(reading.read, "slurm")):
        draft.variables["preflight_blockers"] = unlike
    software = {"NVIDIA driver": "nvidia_driver_source", "CUDA": "cuda_source", "DCGM": "dcgm_source"}
    wanted = [title for title, option in software.items() if draft.variables.get(option) != "none"]
    wanted += [title for title in ("enroot", "pyxis", "apptainer") if draft.variables.get(f"{title}_enabled")]
    wanted += ["Prometheus, Grafana, exporters"] if draft.groups.get("monitoring") else []
    if wanted:
        reason = "packages from busbar's sources; `busbar provision --check --diff` lists them"
        draft.note(", ".join(wanted), CHANGED, reason)


def adopt_connection(reading: Reading) -> None:
    """Copy Ansible's variables for the connection; passwords only if they are encrypted."""
    for name in rows("deepops")[0].names:
        if values := reading.by_host(name):
            reading.draft.spread(name, values)
            reading.note(name, CARRIED, "the same variable")
    for name in reading.source.names():
        if name.startswith("ansible_") and name.endswith(("pass", "password")):
            kept = {host: value for host, value in reading.by_host(name).items() if isinstance(value, Vaulted)}
            reading.draft.spread(name, kept)
            reading.note(name, CARRIED if kept else LEFT, "still encrypted" if kept else "a password in clear text")


def adopt_rest(reading: Reading, toolkit: str) -> None:
    """Note the variables that no step has noted, by their row."""
    for name in reading.source.names():
        row = row_of(name, rows(toolkit))
        if name in reading.noted():
            continue
        if row is None:
            used = re.search(rf"\b{name}\b", reading.template[1])
            reason = "read by slurm_conf_template" if used else f"not a variable of {_NAMES[toolkit]}"
            reading.note(name, CARRIED if used else LEFT, reason)
        elif row.option:
            _copy(reading, name, row)
        elif row.result == DEFAULT:
            same = all(_equal(value, row.same) for value in reading.source.values(name).values())
            reading.note(name, DEFAULT if same else LEFT, row.text if same else row.differs)
        elif row.result == CARRIED and any(map(unresolved, reading.source.values(name).values())):
            reading.note(name, ASK, f"needs facts or lookups, so it was not evaluated: set {row.text}")
        elif row.result == CARRIED:
            reading.note(name, LEFT, "without effect in this configuration")
        else:
            reading.note(name, row.result, row.text)


def _copy(reading: Reading, name: str, row: Row) -> None:
    """Give an option the values of a variable, unless they are its default."""
    from ansible_collections.busbar.cluster.plugins.plugin_utils.site_variables import (  # noqa: PLC0415 - slow
        declared_options,
    )

    values, spec = reading.by_host(name), declared_options()[row.option].spec
    if spec.get("type") == "bool":
        values = {host: is_on(value) for host, value in values.items()}
    if not values:
        reading.note(name, LEFT, f"depends on facts of the hosts: set {row.option}")
    elif all(value == spec.get("default") for value in values.values()):
        reading.note(name, DEFAULT, row.option)
    else:
        reading.draft.spread(row.option, values)
        reading.note(name, CARRIED, row.option)


def _equal(value: Any, wanted: object) -> bool:  # noqa: ANN401 - a value of YAML
    if wanted is None:
        return True
    return is_on(value) == wanted if isinstance(wanted, bool) else str(value) == wanted
