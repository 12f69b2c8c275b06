"""Find options that have no effect because the feature that they belong to is off."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...module_utils.common.problems import advice, make_problem
from .options import places_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ...module_utils.common.problems import Problem
    from .options import Option, Setting

_OFF = frozenset({"", "0", "false", "no", "off", "none", "[]", "{}"})
_GROUP = "a host in "
_MONITORED = ("alertmanager", "dcgm_exporter", "grafana", "journal_remote", "monitoring", "node_exporter", "prometheus")
# Maps an option prefix to its requirements. At least one must be met: an option, a value of an option, or a group.
# Options of a role with a switch (NAME_enabled) require the switch and are not listed.
_NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((f"{name}_" for name in (*_MONITORED, "slurm_metrics")), (f"{_GROUP}monitoring",)),
    "examples_": ("examples_enabled", "shared_tree", "nfs_server_exports"),
    "home_quota_": ("home_quota_default", "home_quota_users"),
    "identity_": ("identity_source=ldap_server", "identity_source=external"),
    "jupyterhub_": (f"{_GROUP}portal",),
    "jupyterhub_oidc_": ("jupyterhub_oidc_client_id",),
    "ldap_server_": ("identity_source=ldap_server",),
    "lmod_": ("lmod_enabled", "shared_tree", "nfs_server_exports"),
    "mariadb_": (f"{_GROUP}slurm_database",),
    "nfs_client_": (f"{_GROUP}nfs_client",),
    "nfs_server_": (f"{_GROUP}nfs_server",),
    "pyxis_enabled": ("enroot_enabled",),
    "pxe_server_": (f"{_GROUP}pxe_server",),
    "rdma_doca_": ("rdma_source=doca",),
    "scratch_job_": ("scratch_per_job",),
    "slurm_account_groups_": ("slurm_account_groups",),
    "sssd_": ("identity_source=ldap_server", "identity_source=external"),
    "tls_": (
        *("tls_enabled", "monitoring_tls", "journal_remote_enabled"),
        *("identity_source=ldap_server", f"{_GROUP}portal"),
    ),
    "validation_storage_": ("validation_storage_path",),
    **{
        f"validation_{each}_": (f"validation_stages={each}",)
        for each in ("gemm", "rdma_pairs", "hpl", "training", "soak")
    },
    **{f"validation_{each}_": (f"validation_node_checks={each}",) for each in ("dcgm_diag", "nvbandwidth", "p2p")},
}
# Options given on the command line for a single run.
_FOR_ONE_RUN = frozenset({"nvidia_driver_reboot"})


class _Site(NamedTuple):
    """The site's settings by name, the hosts of its groups, and the options of all roles."""

    set_to: Mapping[str, Sequence[Setting]]
    groups: Mapping[str, Sequence[str]]
    options: Mapping[str, Option]

    def has(self, need: str) -> bool:
        """Return whether a group has a host, or an option has the required value (by default, is not off) anywhere."""
        if need.startswith(_GROUP):
            return bool(self.groups.get(need.removeprefix(_GROUP)))
        name, _, wanted = need.partition("=")
        values = [each.value for each in self.set_to.get(name, ())] or [_default(self.options.get(name))]
        if wanted:
            return any(_is_template(value) or wanted in _listed(value) for value in values)
        return any(str(value if value is not None else "").strip().lower() not in _OFF for value in values)


def _default(option: Option | None) -> object:
    """Return the default of an option; None for a template."""
    default = option.spec.get("default") if option else None
    return None if _is_template(default) else default


def _is_template(value: object) -> bool:
    return isinstance(value, str) and "{" in value


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def unused_options(
    settings: Iterable[Setting], groups: Mapping[str, Sequence[str]], options: Mapping[str, Option]
) -> list[Problem]:
    """Return advice for each option that has no effect, with its requirement.

    Args:
        settings: the variables that the site sets.
        groups: hosts of every group.
        options: the options of all roles by name.
    """
    set_to: dict[str, list[Setting]] = {}
    for setting in settings:
        set_to.setdefault(setting.name, []).append(setting)
    site = _Site(set_to, groups, options)
    needs = [*_NEEDS.items(), *_switches(options)]
    problems = []
    for name, where in set_to.items():
        # Skip switches that are off.
        if name not in options or not site.has(name):
            continue
        unmet = (wanted for prefix, wanted in needs if _begins(name, prefix, options) and not _met(name, wanted, site))
        missing = next(unmet, ())
        if missing:
            shown = " or ".join(each.replace(_GROUP, "a host in the group ").replace("=", ": ") for each in missing)
            hosts = [each.host for each in where if each.host]
            problem = f"has no effect: it requires {shown}{places_of(where)}"
            remedy = f"{_way(missing[0], options)}, or delete the line"
            problems.append(advice(make_problem(hosts, name, problem, remedy)))
    return problems


def _begins(name: str, prefix: str, options: Mapping[str, Option]) -> bool:
    """Return whether an option has the prefix and belongs to its role: slurm_metrics is not part of slurm."""
    role = options[name].role
    return name.startswith(prefix) and (role == "site" or len(prefix) > len(role) or f"{role}_" == prefix)


def _way(need: str, options: Mapping[str, Option]) -> str:
    """Return the remedy for an unmet requirement."""
    name, _, value = need.partition("=")
    spec = options[name].spec if name in options else {}
    if need.startswith(_GROUP):
        return f"add a host to the group {need.removeprefix(_GROUP)}"
    if value:
        return f"add {value} to {name}" if spec.get("type") == "list" else f"set {name}: {value}"
    return f"set {name}: true" if spec.get("type") == "bool" else f"set {name}"


def _met(name: str, needs: Sequence[str], site: _Site) -> bool:
    """Return whether one of an option's requirements is met; the option may be one of them."""
    return any(name == need.partition("=")[0] or site.has(need) for need in needs)


def _switches(options: Mapping[str, Option]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each prefix of options, and the switch that they require."""
    for name, option in options.items():
        default = option.spec.get("default")
        role, _, last = name.rpartition("_")
        of_role = default is False if last == "enabled" else "none" in (option.spec.get("choices") or [])
        if last in {"enabled", "source"} and of_role and not _is_template(default):
            yield f"{role}_", (name,)
        elif isinstance(default, bool) and name not in _FOR_ONE_RUN:
            yield f"{name}_", (name,)
