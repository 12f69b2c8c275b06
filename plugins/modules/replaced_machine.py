"""Documentation of the action `busbar.cluster.replaced_machine`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: replaced_machine
author: busbar contributors
short_description: See that another machine stands behind the name of a node, and note it for good
description:
  - Compares host key and serial numbers of the machine that answers now with those that the site knows of the node.
    A machine that is still the former one, or has a key that is revoked or another host's, is refused.
  - With O(fingerprints) the provisioning host trusts the machine's host key where it is one of these, and forgets
    the former one. Nobody is asked, and a key that nobody vouches for is refused.
  - It runs on the provisioning host and asks the machine once.
extends_documentation_fragment: busbar.cluster.attributes
options:
  state:
    description:
      - V(compared) compares. V(noted) writes to C(nodes.jsonl) beside the reports what became of the machine.
      - V(admitted) writes there that it passed its validation.
    type: str
    choices: [compared, noted, admitted]
    default: compared
  reports_dir:
    description: Folder of the reports, beside which the records are.
    type: path
    required: true
  secrets_dir:
    description: Folder with the ledger of host keys.
    type: path
    required: true
  known_hosts:
    description: File of host keys that the provisioning host trusts.
    type: path
    required: true
  names:
    description: Names and addresses under which the machine is known.
    type: list
    elements: str
    default: []
  port:
    description: Port of its SSH server.
    type: int
    default: 22
  fingerprints:
    description: Fingerprints of host keys that the user vouches for, each C(SHA256:…).
    type: list
    elements: str
    default: []
  allow_same:
    description: Whether a machine that was there before is provisioned again.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Check that another machine bears the name
  busbar.cluster.replaced_machine:
    reports_dir: "{{ cluster_reports_dir }}"
    secrets_dir: "{{ cluster_secrets_dir }}"
    known_hosts: "{{ cluster_secrets_dir }}/known_hosts"
    names: [gpu3, 10.0.0.13]
"""

RETURN = r"""
event:
  description: V(replaced), V(reinstalled) or V(provisioned again); empty for a run that goes on.
  returned: when compared
  type: str
record:
  description: What is noted.
  returned: when compared
  type: dict
"""
