"""Lookup of a role's variables on this host, without running the role."""

from __future__ import annotations

DOCUMENTATION = r"""
name: role_variable
author: busbar contributors (!UNKNOWN)
short_description: Value of a role's variable on this host
description:
  - Reads the defaults, C(vars/main.yml) and the vars file for the host's system of a role of this collection, applies
    Ansible's precedence to them and the host's variables, and evaluates the requested variables.
  - Does not run the role, and sets no variables.
  - Use it for values that are needed before the role runs, such as the packages of all roles for one transaction.
options:
  _terms:
    description: Names of variables.
    type: list
    elements: str
    required: true
  role:
    description: Name of the role.
    type: str
    required: true
  parameters:
    description: Role parameters of the play. They override all other variables.
    type: dict
    default: {}
notes:
  - The facts C(distribution), C(distribution_major_version) and C(os_family) must have been gathered.
"""

EXAMPLES = r"""
names: "{{ lookup('busbar.cluster.role_variable', '__slurm_munge_packages', role='slurm') }}"
"""

RETURN = r"""
_raw:
  description: The values.
  type: list
  elements: raw
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ..plugin_utils.ansible_errors import lookup_border

_ROLES = Path(__file__).resolve().parents[2] / "roles"


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """The lookup `busbar.cluster.role_variable`."""

    @lookup_border
    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[Any]:
        """Return the value of each variable.

        Raises:
            AnsibleLookupError: if the role or variable does not exist, or cannot be evaluated on this host.
        """
        known = variables or {}
        self.set_options(var_options=known, direct=kwargs)
        role = self.get_option("role")
        folder = _ROLES / role
        if not (folder / "tasks").is_dir():
            message = f"role {role}: the collection does not contain this role"
            raise AnsibleLookupError(message)
        facts = known.get("ansible_facts") or {}
        own = self._read(folder / "vars/main.yml") | self._of_system(folder / "vars", facts)
        seen = self._read(folder / "defaults/main.yml") | known | own
        # The role's variables may refer to its templates.
        seen |= {"role_path": str(folder), "ansible_search_path": [str(folder)]}
        seen |= self.get_option("parameters")
        missing = [name for name in terms if name not in seen]
        if missing:
            message = f"role {role}: unknown variable {', '.join(missing)}"
            raise AnsibleLookupError(message)
        templar = self._templar.copy_with_new_env(available_variables=seen)
        return [templar.template(seen[name]) for name in terms]

    def _of_system(self, folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the variables of the first file that matches the release, distribution or OS family."""
        if "distribution" not in facts:
            message = "the distribution facts were not gathered"
            raise AnsibleLookupError(message)
        release = f"{facts['distribution']}_{facts['distribution_major_version']}"
        for name in (release, facts["distribution"], facts["os_family"]):
            path = folder / f"{Path(name).name}.yml"
            if path.is_file():
                return self._read(path)
        return {}

    def _read(self, path: Path) -> dict[str, Any]:
        if not path.is_file():
            return {}
        found: dict[str, Any] = self._loader.load_from_file(str(path), trusted_as_template=True) or {}
        return found
