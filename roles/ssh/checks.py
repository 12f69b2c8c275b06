"""Checks the options of the ssh role."""

from __future__ import annotations

from ...plugins.plugin_utils.role_checks import Known, Problem, validity_problems


def check(options: Known, _: Known) -> list[Problem]:
    """Return the problems with the validity of certificates."""
    return validity_problems("ssh_certificate_days", options["certificate_days"], options.get("certificate_renew_days"))
