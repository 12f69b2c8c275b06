"""Checks the options of the tls role."""

from __future__ import annotations

from ...plugins.plugin_utils.role_checks import Known, Problem, validity_problems


def check(options: Known, _: Known) -> list[Problem]:
    """Return the problems with the validity of certificates."""
    return validity_problems("tls_days", options["days"], options.get("renew_days"))
