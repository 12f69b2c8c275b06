"""Tests of the PAM configuration of sshd on a compute node, for Debian and Enterprise Linux."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.modules.pam_sshd import pam_others_text, pam_sshd_text

DEBIAN = """\
@include common-auth

# Disallow non-root logins when /etc/nologin exists.
account    required     pam_nologin.so
# account  required     pam_access.so
@include common-account
session    required     pam_loginuid.so
@include common-session
session    optional     pam_motd.so noupdate
@include common-password
"""
REDHAT = """\
#%PAM-1.0
auth       substack     password-auth
account    required     pam_sepermit.so
account    required     pam_nologin.so
account    include      password-auth
password   include      password-auth
session    required     pam_loginuid.so
session    include      password-auth
session    include      postlogin
"""
SHARED_SESSION = """\
auth        required                                     pam_env.so
account     required                                     pam_unix.so
session     optional                                     pam_keyinit.so revoke
session     required                                     pam_limits.so
-session    optional                                     pam_systemd.so
session     required                                     pam_unix.so
"""
USERS, GROUPS = ["admin", "root"], ["sudo", "wheel"]


def _adopting(text: str) -> str:
    return pam_sshd_text(text, USERS, GROUPS, SHARED_SESSION, enabled=True)


def _accounts(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("account", "@include common-account"))]


@pytest.mark.parametrize(("text", "shared"), [(DEBIAN, "@include common-account"), (REDHAT, "include      password")])
def test_job_is_required_before_a_sufficient_account_check(text: str, shared: str) -> None:
    accounts = _accounts(_adopting(text))
    # With sssd this file contains: account sufficient pam_localuser.so
    assert shared in accounts[-1]
    assert accounts[-5:-1] == [
        "account [success=2 default=ignore] pam_succeed_if.so quiet user in admin:root",
        "account [success=1 default=ignore] pam_succeed_if.so quiet user ingroup sudo:wheel",
        "account required pam_slurm_adopt.so action_adopt_failure=deny action_generic_failure=deny",
        "account required pam_permit.so",
    ]


def test_jump_skips_the_module_even_without_exempt_groups() -> None:
    accounts = _accounts(pam_sshd_text(DEBIAN, USERS, [], "", enabled=True))
    assert accounts[-4].startswith("account [success=1 default=ignore]")
    assert "pam_slurm_adopt.so" in accounts[-3]


def test_session_modules_that_leave_the_job_are_removed() -> None:
    assert "\n@include common-session-noninteractive\n" in _adopting(DEBIAN)
    sessions = [line for line in _adopting(REDHAT).splitlines() if line.startswith("session")]
    assert not any("password-auth" in line or "pam_systemd" in line for line in sessions)
    assert [line.split()[-1] for line in sessions[1:4]] == ["revoke", "pam_limits.so", "pam_unix.so"]


@pytest.mark.parametrize("text", [DEBIAN, REDHAT])
def test_change_is_idempotent_and_reversible(text: str) -> None:
    once = _adopting(text)
    assert once != text
    assert _adopting(once) == once
    assert pam_sshd_text(once, USERS, GROUPS, "", enabled=False) == text
    assert pam_sshd_text(text, USERS, GROUPS, "", enabled=False) == text


def test_lines_of_an_older_release_are_replaced() -> None:
    older = DEBIAN.replace(
        "@include common-session\n",
        "# BEGIN busbar: pam_slurm_adopt\naccount required pam_slurm_adopt.so\n# END busbar: pam_slurm_adopt\n"
        "@include common-session-noninteractive\n",
    )
    assert _adopting(older) == _adopting(DEBIAN)


@pytest.mark.parametrize("text", ["", "@include common-session\n", "@include common-account\n"])
def test_unknown_file_format_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"has no account lines|includes neither"):
        _adopting(text)


CRON = """\
@include common-auth
session    required     pam_loginuid.so
@include common-account
@include common-session-noninteractive
"""
CROND = (
    "account    required   pam_access.so\naccount    include    system-auth\nsession    required   pam_loginuid.so\n"
)


@pytest.mark.parametrize("text", [CRON, CROND, "auth required pam_env.so\n"])
def test_cron_requires_a_job_for_users(text: str) -> None:
    once = pam_others_text(text, USERS, GROUPS, enabled=True)
    own = [line for line in _accounts(once) if line not in _accounts(text)]
    assert own == [
        "account [success=3 default=ignore] pam_succeed_if.so quiet uid < 1000",
        "account [success=2 default=ignore] pam_succeed_if.so quiet user in admin:root",
        "account [success=1 default=ignore] pam_succeed_if.so quiet user ingroup sudo:wheel",
        "account requisite pam_deny.so",
        "account required pam_permit.so",
    ]
    included = [line for line in _accounts(text) if "include" in line]
    assert _accounts(once)[-len(included) :] == included or not included
    assert pam_others_text(once, USERS, GROUPS, enabled=True) == once
    assert pam_others_text(once, USERS, GROUPS, enabled=False) == text
