"""Module that tells which of the cluster's secrets a host holds."""

from __future__ import annotations

DOCUMENTATION = r"""
module: held_secrets
author: busbar contributors
short_description: Which of the cluster's secrets a host holds
description:
  - Looks at the file that each secret is written to. Returns names; the secrets stay where they are.
  - A file without the text that this collection writes, such as the key that a package made, is no secret of a cluster.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  files:
    description:
      - For each secret C(path), the file that holds it or what was derived from it, and C(pattern).
      - C(pattern) is a regular expression that the text of the file has to contain; that of a certificate in PEM is
        looked for in what it encodes, too.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Check whether the host holds a munge key of the cluster
  busbar.cluster.held_secrets:
    files:
      munge.key: {path: /etc/munge/munge.key, pattern: '\A[!-~]{32,}\s*\Z'}
  register: found
"""

RETURN = r"""
held:
  description: Names of the secrets that the host holds.
  returned: always
  type: list
  elements: str
"""

import re
import ssl
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

LARGEST = 1 << 20
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def file_text(path: Path) -> str:
    """Return what a file says with what its certificates encode; '' when there is no text."""
    try:
        with path.open("rb") as stream:
            text = stream.read(LARGEST).decode()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, UnicodeDecodeError):
        return ""
    try:
        encoded = [ssl.PEM_cert_to_DER_cert(found).decode("latin-1") for found in _CERTIFICATE.findall(text)]
    except ValueError:
        encoded = []
    return "\n".join([text, *encoded])


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"files": {"type": "dict", "required": True}}, supports_check_mode=True)
    held = []
    for name, each in module.params["files"].items():
        try:
            if re.search(each["pattern"], file_text(Path(each["path"])), re.MULTILINE):
                held.append(name)
        except OSError as exc:
            module.fail_json(msg=f"{each['path']} cannot be read: {exc.strerror}")
    module.exit_json(changed=False, held=held)


if __name__ == "__main__":
    main()
