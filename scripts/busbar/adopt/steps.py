"""Steps that all toolkits share: hardware, connection, and variables that no other step has noted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import (
    profile_names,
    unknown_hardware,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm, unfold_hosts

from busbar.adopt.draft import ASK, CARRIED, DEFAULT, LEFT, Vaulted
from busbar.adopt.source import is_on
from busbar.adopt.tables import Row, row_of, rows
from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from busbar.adopt.reading import Reading

__all__ = ["adopt_connection", "adopt_hardware", "adopt_rest"]

_NAMES = {"deepops": "DeepOps", "appliance": "ansible-slurm-appliance"}


def adopt_hardware(reading: Reading, given: Sequence[str]) -> None:
    """Set the hardware of compute nodes.

    Raises:
        UsageError: a profile or host is unknown.
    """
    draft, compute, problems = reading.draft, reading.draft.groups["slurm_compute"], []
    for text in given:
        hosts, _, name = text.rpartition("=")
        if name not in profile_names() and hosts in profile_names():
            hosts, name = name, hosts
        try:
            chosen = (reading.source.group(hosts) or unfold_hosts(hosts)) if hosts else compute
            chosen = [reading.source.short.get(host, host) for host in chosen]
        except ValueError as exc:
            problems.append(f"--hardware {text}: {exc}")
            continue
        if name not in profile_names():
            problems.append(f"--hardware {text}: {'; '.join(unknown_hardware(name, profile_names()))}")
        if strangers := [host for host in chosen if host not in draft.hosts]:
            problems.append(f"--hardware {text}: the cluster has no host {', '.join(strangers)}")
        reading.hardware |= dict.fromkeys(chosen, name)
    if problems:
        raise UsageError("\n".join(problems))
    for host, name in reading.hardware.items():
        draft.hosts[host]["hardware"] = name
    if missing := fold_for_slurm([host for host in compute if host not in reading.hardware]):
        question = f"which hardware do {missing} have? `busbar inventory describe '{missing}'` asks them; set hardware"
        draft.note("hardware", ASK, question)


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
