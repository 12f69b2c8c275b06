"""Documentation of the action `busbar.cluster.replaced_machine`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: replaced_machine
author: busbar contributors (!UNKNOWN)
short_description: Detect and record the replacement of a node's machine
description:
  - Compares host key and serial numbers of the responding machine with those recorded for the node. Refuses the
    previous machine, a revoked host key, and the host key of another host. Runs on the provisioning host.
  - V(noted) records the result of V(compared) in C(nodes.jsonl). V(admitted) records that the validation passed.
extends_documentation_fragment: busbar.cluster.attributes
options:
  state:
    description: Step of the replacement to run.
    type: str
    choices: [compared, noted, admitted]
    default: compared
  reports_dir: {description: Folder of the reports., type: path, required: true}
  secrets_dir: {description: Folder with the ledger of host keys., type: path, required: true}
  known_hosts: {description: known_hosts file of the provisioning host., type: path, required: true}
  names:
    description: Names and addresses under which the host key of the machine is recorded.
    type: list
    elements: str
    default: []
  port: {description: Port of its SSH server., type: int, default: 22}
  fingerprints:
    description: Fingerprints of host keys that were verified and are trusted.
    type: list
    elements: str
    default: []
  allow_same: {description: Whether to accept the previous machine., type: bool, default: false}
"""

EXAMPLES = r"""
- busbar.cluster.replaced_machine: {reports_dir: reports, secrets_dir: secrets, known_hosts: secrets/known_hosts}
"""

RETURN = r"""
event: {description: "V(replaced), V(reinstalled), V(provisioned again) or empty.", returned: when compared, type: str}
record: {description: The recorded entry., returned: when compared, type: dict}
"""
