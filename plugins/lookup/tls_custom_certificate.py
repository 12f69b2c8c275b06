"""Lookup of certificates that a site brings itself."""

from __future__ import annotations

DOCUMENTATION = r"""
name: tls_custom_certificate
author: busbar contributors
short_description: A host's certificate, key and authority from files on the provisioning host
description:
  - Reads the files and judges them. What is wrong is returned, so that it can be told with that of other hosts.
options:
  _terms:
    description: Paths as C(certificate) (authorities in between behind it), C(key) and C(ca); one dict per call.
    required: true
    type: list
    elements: dict
  host:
    description: Whose files they are.
    type: str
    required: true
  reached_by:
    description: Names or addresses by which others reach the host.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
own: "{{ query('busbar.cluster.tls_custom_certificate', tls_custom_certificate, host=inventory_hostname) | first }}"
"""

RETURN = r"""
_raw:
  description:
    - C(problems), and when there is none C(certificate), C(key) and C(trusted) as PEM, C(not_after), the end in
      seconds since 1970, and C(trusted_not_after), that of the first authority in C(trusted) that ends.
  type: list
  elements: dict
"""

import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.plugins.lookup import LookupBase

from ..module_utils.common.problems import Problem, make_problem
from ..plugin_utils.access.tls_certificate import end_of, first_end
from ..plugin_utils.access.tls_custom_certificate import KINDS, content_problems, declaration_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_files(host: str, files: Mapping[str, Any]) -> tuple[dict[str, str], list[Problem]]:
    """Return the texts of the files, and which of them cannot be read or, for the key, can be read by others."""
    texts, problems = {}, []
    for kind, meaning in KINDS.items():
        path, key = Path(str(files[kind])), f"tls_custom_certificate.{kind}"
        try:
            texts[kind] = path.read_text(encoding="ascii")
            mode = stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:
            remedy = f"put {meaning} there, on the provisioning host, or empty tls_custom_certificate"
            problems.append(make_problem([host], key, f"there is no file {path}", remedy))
        except (OSError, UnicodeDecodeError) as exc:
            remedy = "make it a file of PEM that the user who runs this may read"
            problems.append(make_problem([host], key, f"{path} cannot be read ({exc})", remedy))
        else:
            if kind == "key" and mode & _OTHERS:
                remedy = f"chmod 0600 {path}, and have a new one made if others read it"
                problems.append(make_problem([host], key, f"{path} can be used by others (mode {mode:04o})", remedy))
    return texts, problems


def judge(host: str, files: Mapping[str, Any], reached_by: Sequence[str], now: int) -> dict[str, Any]:
    """Return what RETURN says of one host's files."""
    problems = declaration_problems(host, files)
    if problems:
        return {"problems": problems}
    texts, problems = read_files(host, files)
    problems = problems or content_problems(host, texts, reached_by=reached_by, now=now)
    if problems:
        return {"problems": problems}
    found = {"certificate": texts["certificate"], "key": texts["key"], "trusted": texts["ca"]}
    ends = {"not_after": end_of(texts["certificate"]), "trusted_not_after": first_end(texts["ca"])}
    return {"problems": [], **found, **ends}


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """The lookup `busbar.cluster.tls_custom_certificate`."""

    def run(
        self, terms: list[dict[str, Any]], variables: dict[str, Any] | None = None, **kwargs: object
    ) -> list[dict[str, Any]]:
        """Return what the files hold and what is wrong with them."""
        self.set_options(var_options=variables or {}, direct=kwargs)
        host, reached_by = self.get_option("host"), self.get_option("reached_by")
        return [judge(host, term, reached_by, int(time.time())) for term in terms]
