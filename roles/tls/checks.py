"""Checks the options of the tls role."""

from __future__ import annotations

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem


def check(options: Known, _: Known) -> list[Problem]:
    """Return the problems with the validity of certificates."""
    days = int(options["days"])
    if days < 1:
        remedy = "set the days for which a certificate is valid, 1 or more"
        return [make_problem([], "tls_days", f"{days} is below 1", remedy)]
    renew = options.get("renew_days")
    if renew is not None and int(renew) >= days:
        problem = f"{renew} is not below tls_days ({days}), so each run would renew all certificates"
        return [make_problem([], "tls_renew_days", problem, "set a smaller number")]
    return []
