"""Documentation of the action `busbar.cluster.replaced_machine`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: replaced_machine
author: busbar contributors
short_description: Detect and record the replacement of a node's machine
description:
  - Compares host key and serial numbers of the responding machine with those recorded for the node. Refuses the former
    machine, a revoked host key, and the host key of another host.
  - With O(fingerprints), the provisioning host trusts the machine's host key if its fingerprint is in the list, and
    removes the former one. Refuses any other key, and never prompts.
  - Runs on the provisioning host and contacts the machine once.
extends_documentation_fragment: busbar.cluster.attributes
options:
  state:
    description:
      - V(compared) compares. V(noted) records the result in C(nodes.jsonl) beside the reports.
      - V(admitted) records there that the machine passed its validation.
    type: str
    choices: [compared, noted, admitted]
    default: compared
  reports_dir:
    description: Folder of the reports. The records are beside it.
    type: path
    required: true
  secrets_dir:
    description: Folder with the ledger of host keys.
    type: path
    required: true
  known_hosts:
    description: known_hosts file of the provisioning host.
    type: path
    required: true
  names:
    description: Names and addresses of the machine.
    type: list
    elements: str
    default: []
  port:
    description: Port of the machine's SSH server.
    type: int
    default: 22
  fingerprints:
    description: Fingerprints of host keys that the user has verified, each C(SHA256:…).
    type: list
    elements: str
    default: []
  allow_same:
    description: Whether to allow the former machine to be provisioned again.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Check that the name belongs to another machine
  busbar.cluster.replaced_machine:
    reports_dir: "{{ cluster_reports_dir }}"
    secrets_dir: "{{ cluster_secrets_dir }}"
    known_hosts: "{{ cluster_secrets_dir }}/known_hosts"
    names: [gpu3, 10.0.0.13]
"""

RETURN = r"""
event:
  description: V(replaced), V(reinstalled) or V(provisioned again). Empty if the run continues an earlier one.
  returned: when compared
  type: str
record:
  description: The recorded entry.
  returned: when compared
  type: dict
"""
