"""Filter over the pure functions that tell what is wrong with what a site declares, or with what its hosts are."""

from __future__ import annotations

DOCUMENTATION = r"""
name: problems
author: busbar contributors
short_description: What is wrong with what a site declares, or with what its hosts are
description:
  - What M(busbar.cluster.refuse) refuses, before anything is changed. Each role that checks its options has a subject.
  - All arguments after the subject are named; which of them a subject takes stands with each.
options:
  _input:
    description:
      - C(accounts) takes the items of C(users_accounts), with C(groups) and C(known).
      - C(alertmanager) takes the options of that role that are checked, without its prefix, with C(host).
      - C(backup) takes the options of the role backup without its prefix, with C(known) and C(host).
      - C(cuda), C(dcgm) and C(dcgm_exporter) take the options of that role that are checked, without its prefix, with
        C(host).
      - C(fail2ban) takes the options of the role fail2ban without its prefix, with C(host) and C(seen).
      - C(floor_advice), floors of hardware profiles that would let half the speed pass, takes the known hardware by
        name, without faults.
      - C(firewall) takes the options of the role firewall without its prefix, with C(groups), C(host) and C(seen).
      - C(grafana) takes the options of that role that are checked, without its prefix, with C(host).
      - C(held_secrets), secrets that hosts hold and the provisioning host lacks, takes the hosts of the run, with
        C(hostvars), C(answer), C(controller) and C(site).
      - C(job_scripts) takes C(slurm_job_scripts).
      - C(journal_remote) takes the options of the role journal_remote without its prefix, with C(host).
      - C(home_quota) takes the options of the role home_quota without its prefix, with C(exports) and C(host).
      - C(identity) takes where users come from and the options of the role sssd, with C(known) and C(host).
      - C(jupyterhub) takes the options of the role jupyterhub without its prefix, with C(host).
      - C(ldap_server) takes the options of the role ldap_server without its prefix, with C(host).
      - C(lmod_modules) and C(pyxis_options) take the option of that name, with C(host).
      - C(new_nodes), machines that Slurm has under another name, takes the new nodes, with C(shown), C(machines) and
        C(forgotten).
      - C(node_advice), versions below a minimum and kernels that wait for a boot, takes the hosts of the run, with
        C(hostvars) and C(answer).
      - C(node_exporter) takes the options of that role that are checked, without its prefix, with C(host).
      - C(nodes), those that are not what the inventory says, takes the hosts of the run, with C(hostvars), C(answer),
        C(gpu_answer), C(site) and C(limits).
      - C(nvidia_driver) takes the hardware profile, with C(host), C(settings) and C(system).
      - C(option_values), values that a role refuses on every host, takes options by name, with C(host).
      - C(pxe_server) takes the options of the role pxe_server without its prefix, with C(host).
      - C(rdma_addresses), those of IP over InfiniBand that two hosts have, takes the hosts, with C(hostvars).
      - C(replacement) takes the nodes to replace, as a list or folded, with C(groups) and C(fingerprints).
      - C(slurm_metrics) takes the options of that role that are checked, without its prefix, with C(host).
      - C(spank_plugins) takes the items of C(slurm_spank_plugins).
      - C(uninstall) takes the hosts to uninstall, as a list or folded, with C(groups), C(answers) and C(leaves_data).
      - C(storage) takes the items of the variable C(key), with C(host), C(servers), C(variables) and C(networks).
    type: raw
    required: true
  subject:
    description: What is looked at.
    type: str
    required: true
    choices:
      - accounts
      - alertmanager
      - backup
      - cuda
      - dcgm
      - dcgm_exporter
      - fail2ban
      - firewall
      - floor_advice
      - grafana
      - held_secrets
      - home_quota
      - identity
      - job_scripts
      - journal_remote
      - jupyterhub
      - ldap_server
      - lmod_modules
      - new_nodes
      - node_advice
      - node_exporter
      - nodes
      - nvidia_driver
      - option_values
      - pxe_server
      - pyxis_options
      - rdma_addresses
      - replacement
      - slurm_metrics
      - spank_plugins
      - storage
      - uninstall
  host:
    description: Name of the host whose options they are.
    type: str
  exports:
    description: For C(home_quota), what each host of the group nfs_server exports.
    type: dict
  hostvars:
    description: Variables of all hosts.
    type: dict
  answer:
    description:
      - Name of the variable that holds a host's answer of M(busbar.cluster.node_info), for C(held_secrets) that of
        M(busbar.cluster.held_secrets).
      - A host without it, or one that was left out of the run, is passed over.
    type: str
  gpu_answer:
    description:
      - For C(nodes), the name of the variable that holds a host's answer of M(busbar.cluster.nvidia_gpu_info).
      - The GPUs and NICs of a host without it are not compared.
    type: str
  site:
    description:
      - For C(held_secrets), C(directory) of the secrets, the names C(absent) there, the secrets C(known) with
        C(meaning), those to be C(rotated), and the C(others), hosts outside of the run.
      - For C(nodes), C(catalogue), the known hardware by name, the declared C(users) and C(groups), C(compute), the
        nodes of Slurm, and C(inventory_groups), the hosts of every group.
    type: dict
  limits:
    description: For C(nodes), C(systems), C(architectures), C(clock_s), C(free_mb), C(gpu_tolerance), C(driver_branch).
    type: dict
  controller:
    description:
      - For C(held_secrets), C(name) and C(answer) of a controller outside of the run; an empty answer when it was not
        asked.
    type: dict
  groups:
    description:
      - For C(accounts), the items of C(users_groups); for C(firewall), the names of the inventory's groups;
        for C(replacement) and C(uninstall), the variable C(groups).
    type: raw
  seen:
    description:
      - For C(fail2ban) and C(firewall), lines of the host; C(from ADDRESS) of this run's connection, and for
        C(firewall) C(active NAME) of another firewall.
    type: list
    elements: str
  known:
    description:
      - For C(backup) and C(identity), the hosts of the inventory.
      - For C(accounts), users without uid whom the hosts know; none where a directory may have any.
    type: list
    elements: str
  shown:
    description: For C(new_nodes), the output of C(scontrol --oneliner show nodes).
    type: str
  machines:
    description: For C(new_nodes), by node its name, the state of its slurmd and its addresses, each on a line.
    type: dict
  forgotten:
    description:
      - For C(new_nodes), the output of C(getent hosts) for the nodes of Slurm that the inventory does not have.
    type: str
  settings:
    description: For C(nvidia_driver), the options of the role nvidia_driver, without its prefix.
    type: dict
  system:
    description: For C(nvidia_driver), the host's C(distribution) and C(major) version, when they are known.
    type: dict
  fingerprints:
    description: For C(replacement), fingerprints of host keys that the user vouches for.
    type: list
    elements: str
  answers:
    description:
      - For C(uninstall), by host C(recorded), whether busbar keeps a record there, and C(serves), jobs and data.
    type: dict
  leaves_data:
    description: For C(uninstall), whether jobs and data may stay behind.
    type: bool
  key:
    description:
      - For C(storage), V(nfs_server_exports), V(nfs_client_mounts) or V(storage_mounts_entries).
      - For C(lmod_modules) and C(pyxis_options), the variable that declares them, where it is another one.
    type: str
  servers:
    description: For C(storage), hosts that export; what is mounted from them is compared with their exports.
    type: list
    elements: str
  variables:
    description: For C(storage), the variable C(hostvars).
    type: dict
  networks:
    description: For C(storage), the networks of the cluster, for exports.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Validate the modules of users
  busbar.cluster.refuse:
    problems: "{{ lmod_modules | busbar.cluster.problems('lmod_modules', host=inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: Problems, each with C(hosts), C(key), C(problem), C(remedy).
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.access.account_problems import account_problems
from ..module_utils.access.identity import identity_problems
from ..module_utils.access.ldap_tree import ldap_server_problems
from ..module_utils.nvidia.rdma_problems import shared_address_problems
from ..module_utils.storage.home_quota import home_quota_problems
from ..plugin_utils.access.fail2ban_problems import fail2ban_problems
from ..plugin_utils.access.firewall_problems import firewall_problems
from ..plugin_utils.access.held_secrets import held_secret_problems
from ..plugin_utils.access.pxe_problems import pxe_server_problems
from ..plugin_utils.backup.problems import backup_problems
from ..plugin_utils.border import Filters, border
from ..plugin_utils.containers.module_files import module_file_problems
from ..plugin_utils.containers.pyxis import pyxis_problems
from ..plugin_utils.engine.catalogue.check import floor_advice
from ..plugin_utils.monitoring.alertmanager_problems import alertmanager_problems
from ..plugin_utils.monitoring.dcgm_exporter_problems import dcgm_exporter_problems
from ..plugin_utils.monitoring.grafana_problems import grafana_problems
from ..plugin_utils.monitoring.journal_remote import journal_remote_problems
from ..plugin_utils.monitoring.node_exporter_problems import node_exporter_problems
from ..plugin_utils.nvidia.cuda_problems import cuda_problems
from ..plugin_utils.nvidia.dcgm_problems import dcgm_problems
from ..plugin_utils.nvidia.driver_problems import driver_problems
from ..plugin_utils.portal.options import portal_problems
from ..plugin_utils.preflight.answers import answer_advice, answer_problems
from ..plugin_utils.preflight.storage import storage_problems
from ..plugin_utils.preflight.values import option_faults
from ..plugin_utils.slurm.metrics_problems import slurm_metrics_problems
from ..plugin_utils.slurm.new_nodes import new_node_problems
from ..plugin_utils.slurm.replacement import replacement_problems
from ..plugin_utils.slurm.scripts import script_problems
from ..plugin_utils.slurm.spank_plan import declaration_problems
from ..plugin_utils.uninstall.choice import uninstall_problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..module_utils.common.problems import Problem

SUBJECTS: dict[str, Callable[..., list[Problem]]] = {
    "accounts": account_problems,
    "alertmanager": alertmanager_problems,
    "backup": backup_problems,
    "cuda": cuda_problems,
    "dcgm": dcgm_problems,
    "dcgm_exporter": dcgm_exporter_problems,
    "fail2ban": fail2ban_problems,
    "firewall": firewall_problems,
    "floor_advice": floor_advice,
    "grafana": grafana_problems,
    "held_secrets": held_secret_problems,
    "home_quota": home_quota_problems,
    "identity": identity_problems,
    "job_scripts": script_problems,
    "journal_remote": journal_remote_problems,
    "jupyterhub": portal_problems,
    "ldap_server": ldap_server_problems,
    "lmod_modules": module_file_problems,
    "new_nodes": new_node_problems,
    "node_advice": answer_advice,
    "node_exporter": node_exporter_problems,
    "nodes": answer_problems,
    "nvidia_driver": driver_problems,
    "option_values": option_faults,
    "pxe_server": pxe_server_problems,
    "pyxis_options": pyxis_problems,
    "rdma_addresses": shared_address_problems,
    "replacement": replacement_problems,
    "slurm_metrics": slurm_metrics_problems,
    "spank_plugins": declaration_problems,
    "storage": storage_problems,
    "uninstall": uninstall_problems,
}


def problems(value: object, subject: str, **arguments: Any) -> list[Problem]:  # noqa: ANN401 - those of the subject
    """Return the problems of one subject."""
    if subject not in SUBJECTS:
        message = f"{subject!r} is not one of {', '.join(SUBJECTS)}"
        raise ValueError(message)
    # The border of the subject itself: it names the host in what bad input leads to.
    return border(SUBJECTS[subject])(value, **arguments)


class FilterModule:
    """The filter `busbar.cluster.problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"problems": border(problems)}
