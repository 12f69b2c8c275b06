"""Carries host settings outside of Slurm into the draft, and lists the changes that a takeover makes anyway."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .draft import ASK, CARRIED, CHANGED, LEFT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .cluster_source import HostReading
    from .draft import Draft

# Keys of sshd_config that the role ssh would set to busbar's own values, by the name that `sshd -T` prints.
_SSHD = {
    key.lower(): key
    for key in (
        *("ClientAliveCountMax", "ClientAliveInterval", "KbdInteractiveAuthentication", "LoginGraceTime"),
        *("MaxStartups", "PasswordAuthentication", "PermitEmptyPasswords", "PermitRootLogin", "UsePAM"),
        *("X11Forwarding", "AuthorizedKeysCommand", "AuthorizedKeysCommandUser"),
    )
}
_HOST_BASED = {key.lower(): key for key in ("HostbasedAuthentication", "IgnoreRhosts", "IgnoreUserKnownHosts")}
_SOURCE = re.compile(r"^\s*(?:server|pool|peer)\s+(\S+)|^\s*(?:NTP|FallbackNTP)\s*=\s*(.+)", re.MULTILINE)
_TIME_FILES = ("/etc/chrony/chrony.conf", "/etc/chrony.conf", "/etc/systemd/timesyncd.conf", "/etc/ntp.conf")
# Options of roles whose defaults would change hosts, with the values that change nothing.
_UNCHANGED: dict[str, Any] = {
    "hosts_hide_processes": False,
    "hosts_kernel_managed": False,
    "hosts_packages": [],
    "lmod_enabled": False,
    "examples_enabled": False,
    "mariadb_hosts": [],
    "ssh_user_login": True,
}
# Files that the takeover writes on each host of a group, with the reason.
_CHANGES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("", ("/etc/hosts",), "a block with all hosts of the cluster; lines with the same content move into it"),
    (
        "",
        ("/etc/chrony/chrony.conf", "/etc/chrony.conf", "/etc/systemd/system/chrony.service.d/busbar.conf"),
        "chrony replaces other time services and restarts; the systemd drop-in is written in containers only",
    ),
    (
        "",
        ("/etc/ssh/sshd_config.d/01-busbar.conf",),
        "the settings that sshd has now, a host certificate, and DenyUsers busbar-validation; sshd reloads",
    ),
    (
        "",
        ("/etc/ssh/ssh_host_ed25519_key-cert.pub", "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_config.d/01-busbar.conf"),
        "a certificate of the host key, and trust in the hosts of the cluster; host keys stay",
    ),
    ("", ("busbar-validation",), "the account that validates the cluster; in accounting below root, without shares"),
    (
        "nfs_server",
        (
            *("/etc/exports.d/busbar.exports", "/etc/exports", "/etc/nfs.conf.d/busbar.conf"),
            "/usr/local/lib/busbar/exports_trial",
        ),
        "the same exports, moved from /etc/exports; the NFS server restarts once, and clients wait",
    ),
    ("nfs_client", ("/etc/fstab",), "the lines of NFS get _netdev; mounted file systems are not mounted again"),
    (
        "mariadb_hosts",
        ("/etc/mysql/mariadb.conf.d/90-busbar.cnf", "/etc/my.cnf.d/90-busbar.cnf"),
        "sizes of the buffers; the user slurm gets the password of slurm_database_password; MariaDB restarts once",
    ),
    (
        "slurm_database",
        ("/etc/slurm/slurmdbd.conf", "/etc/systemd/system/slurmdbd.service.d/busbar.conf"),
        "comments are lost; slurmdbd restarts once now; from then on, systemd restarts it after a failure",
    ),
    (
        "slurm_controller",
        ("/etc/slurm/slurm.conf", "/etc/slurm/cgroup.conf", "/etc/slurm/gres.conf", "/etc/slurm/topology.conf"),
        "the keys of this draft in one file, without comments; slurmctld restarts once, jobs continue",
    ),
    (
        "slurm_controller",
        ("/etc/systemd/system/slurmctld.service.d/busbar.conf",),
        "systemd restarts slurmctld after a failure",
    ),
    (
        "slurm_compute",
        ("/etc/default/slurmd", "/etc/sysconfig/slurmd", "/etc/systemd/system/slurmd.service.d/busbar.conf"),
        "slurmd fetches its configuration from the controller; slurmd restarts once, jobs continue",
    ),
    (
        "slurm_compute",
        ("/usr/local/lib/busbar",),
        "programs of busbar's job scripts and health check, which slurm_job_scripts and node_health_check switch on",
    ),
    (
        "slurm_compute",
        ("/var/lib/busbar-validation", "/usr/local/bin/busbar_collectives"),
        "outputs and program of the validation",
    ),
)
_PACKAGES = "chrony, iproute2, libpmix2t64, procps, python3-mpi4py, python3-numpy, sackd, tzdata"


def carry_hosts(draft: Draft, hosts: Mapping[str, HostReading], set_by_site: Collection[str] = ()) -> None:
    """Set the options of the roles hosts, ssh, lmod, examples and mariadb so that the hosts keep their settings.

    Args:
        draft: the draft.
        hosts: readings by host; for hosts that were not read, fewer settings are kept.
        set_by_site: options that keep the value of the draft, or their default.
    """
    hosts = {host: reading for host, reading in hosts.items() if host in draft.hosts and not reading.error}
    unchanged = {option: value for option, value in _UNCHANGED.items() if option not in set_by_site}
    draft.variables |= unchanged
    reason = f"stay as they are ({', '.join(unchanged)}); remove an option to get busbar's default"
    draft.note("settings of the hosts", LEFT, reason)
    if "hosts_timezone" not in set_by_site:
        zones = {each.commands.get("timezone", "").partition("zoneinfo/")[2].strip() for each in hosts.values()}
        draft.variables["hosts_timezone"] = ""
        draft.note("time zone", CARRIED, f"stays {', '.join(sorted(zones - {''})) or 'as it is'}")
    for host, reading in hosts.items():
        name = reading.commands.get("hostname", "").strip()
        if name and name != host:
            draft.hosts[host]["hosts_name"] = name
            draft.note(f"host name of {host}", CARRIED, f"hosts_name: {name}")
    if not hosts:
        question = "were not read, so busbar sets its own values of sshd and chrony: see roles/ssh and roles/hosts"
        draft.note("settings of the hosts", ASK, question)
        return
    if "hosts_time_upstream" not in set_by_site:
        _carry_time(draft, hosts)
    _carry_sshd(draft, hosts)


def _carry_time(draft: Draft, hosts: Mapping[str, HostReading]) -> None:
    """Set the time sources of the hosts."""
    sources: dict[str, list[str]] = {}
    for host, reading in hosts.items():
        texts = [reading.files[path] for path in _TIME_FILES if path in reading.files]
        words = [word for found in _SOURCE.findall("\n".join(texts)) for word in " ".join(found).split()]
        sources[host] = list(dict.fromkeys(words))
    found = [name for name in dict.fromkeys(name for names in sources.values() for name in names) if name not in hosts]
    servers = [host for host, names in sources.items() if any(host in other for other in sources.values()) and names]
    if found:
        draft.carry("time sources", {"hosts_time_upstream": found, "hosts_time_servers": servers})
    else:
        question = "none found, so the controller becomes the time server: name others in hosts_time_upstream"
        draft.note("time sources", ASK, question)


def _carry_sshd(draft: Draft, hosts: Mapping[str, HostReading]) -> None:
    """Set the keys of sshd_config that busbar would set to their present values."""
    settings: dict[str, dict[str, str]] = {}
    trusting = False
    for host, reading in hosts.items():
        said: dict[str, str] = {}
        for line in reading.commands.get("sshd-T", "").splitlines():
            key, _, value = line.partition(" ")
            said.setdefault(key, value)
        if "passwordauthentication" not in said:
            draft.note(f"sshd of {host}", ASK, "its settings were not read, so busbar sets its own: see roles/ssh")
            continue
        trusting = trusting or said.get("hostbasedauthentication") == "yes"
        own = dict(draft.variables.get("ssh_server_config", {}))
        own |= {name: said[key] for key, name in {**_SSHD, **_HOST_BASED}.items() if said.get(key, "none") != "none"}
        own["AuthorizedKeysFile"] = f"{said['authorizedkeysfile']} /etc/ssh/authorized_keys.d/%u"
        settings[host] = own
        if said.get("hostcertificate", "none") != "none":
            question = f"{said['hostcertificate']}: busbar adds its own; keep the authority in ssh_known_hosts_extra"
            draft.note(f"host certificate of {host}", ASK, question)
    draft.spread("ssh_server_config", settings)
    draft.variables["ssh_hostbased"] = trusting
    if settings:
        draft.note("sshd", CARRIED, "ssh_server_config: the present values of the keys that busbar sets")
    if trusting:
        draft.note("HostbasedAuthentication", ASK, "is in use: busbar writes /etc/ssh/shosts.equiv: compare the hosts")
    known = [
        line.strip()
        for reading in hosts.values()
        for line in reading.files.get("/etc/ssh/ssh_known_hosts", "").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    if known:
        draft.carry("/etc/ssh/ssh_known_hosts", {"ssh_known_hosts_extra": list(dict.fromkeys(known))})


def list_changes(draft: Draft, hosts: Mapping[str, HostReading]) -> None:
    """List the files that the takeover changes, and keep a copy of their present content below before/."""
    external = draft.variables.get("slurm_external")
    if external:
        reason = f"links to the commands in {external['prefix']} and to {external['config']}, where nothing exists"
        draft.note("/usr/local/bin, /usr/local/sbin, /etc/slurm", CHANGED, reason, "hosts with Slurm")
    for group, fixed, reason in _CHANGES:
        paths = [path.replace("/etc/slurm/", f"{external['config']}/") if external else path for path in fixed]
        members = draft.groups.get(group, []) if group else list(draft.hosts)
        if group == "mariadb_hosts" and group not in draft.variables:
            members = draft.groups.get("slurm_database", [])[:1]
        if not members:
            continue
        draft.note(", ".join(paths), CHANGED, reason, f"hosts of {group}" if group else "all hosts")
        for host in members:
            files = hosts[host].files if host in hosts else {}
            # The copy of slurmdbd.conf would lack the password.
            draft.files |= {
                f"before/{host}{path}": files[path] for path in paths if path in files and "slurmdbd" not in path
            }
    packages = ", ".join(name for name in _PACKAGES.split(", ") if not external or name not in {"libpmix2t64", "sackd"})
    draft.note("packages", CHANGED, f"those of {packages} that are missing; installed packages are not upgraded")
    for host, reading in hosts.items():
        for path in ("/etc/default/slurmd", "/etc/sysconfig/slurmd"):
            matched = re.search(r"^\s*SLURMD_OPTIONS=[\"']?([^\"'\n]+)", reading.files.get(path, ""), re.MULTILINE)
            if matched and "--conf-server" not in matched[1]:
                draft.note(f"SLURMD_OPTIONS on {host}", ASK, f"{matched[1]}: would be lost; is it needed?", path)
