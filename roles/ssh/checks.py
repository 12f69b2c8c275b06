"""Checks the options of the ssh role."""

from __future__ import annotations

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem


def check(options: Known, _: Known) -> list[Problem]:
    """Return the problems with the validity of certificates."""
    days = int(options["certificate_days"])
    if days < 1:
        remedy = "set the days for which a certificate is valid, 1 or more"
        return [make_problem([], "ssh_certificate_days", f"{days} is below 1", remedy)]
    renew = options.get("certificate_renew_days")
    if renew is not None and int(renew) >= days:
        problem = f"{renew} is not below ssh_certificate_days ({days}), so each run would renew all certificates"
        return [make_problem([], "ssh_certificate_renew_days", problem, "set a smaller number")]
    return []
