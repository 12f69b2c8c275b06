"""Tests of the credentials file, with a shell script that reads it like Enroot 4.1.2."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.containers.enroot_credentials import (
    credential_faults,
    credential_texts,
    is_evaluated,
)

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "s3cret-of-alice"  # noqa: S105 - a made-up one
MINE: dict[str, Any] = {"user": "alice", "machine": "reg.example.com", "login": "robot", "password": SECRET}
# Credentials for the registry and its token host: docker.sh, _authenticate and _parse_uri (which user, and
# whether a line of the registry without port exists), common.sh, evalnetrc; then curl's netrc lookup for a host.
LOOK_UP = r"""
file=$1 registry=$2 asked=$3 space=[[:space:]]
user=$(awk "/^${space}*machine${space}+${registry%:*}${space}+login${space}+.+/ { print \$4; exit }" "$file")
[ -n "$user" ] || exit 0
grep -qs "^machine[[:space:]]\+${registry%:*}[[:space:]]\+login[[:space:]]\+${user}[[:space:]]" "$file" || exit 0
awk '{
    if (NF >= 6 && $6 ~ "^\\$") {
        for(i=1; i<6; i++) printf "%s ", $i
        fflush()
        for(i=1; i<6; i++) sub("^["FS"]*[^"FS"]+["FS"]+", "", $0)
        system("echo "$0)
    } else
        print
}' "$file" | awk -v host="${asked%:*}" '$2 == host { print $4, $6; exit }'
"""


def looked_up(folder: Path, credentials: list[dict[str, Any]], registry: str, asked: str = "") -> str:
    """Return the login and password that Enroot would send, or nothing."""
    if shutil.which("awk") is None:
        pytest.skip("no awk here")
    file = folder / ".credentials"
    file.write_text(credential_texts(credentials)["alice"], encoding="utf-8")
    command = ["bash", "-c", LOOK_UP, "enroot", str(file), registry, asked or registry]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_enroot_finds_a_login_for_any_port_of_the_registry(tmp_path: Path) -> None:
    for registry in ("reg.example.com", "reg.example.com:5000"):
        assert looked_up(tmp_path, [{**MINE, "port": 5000}], registry) == f"robot {SECRET}"
    # A refused entry would not be found.
    assert looked_up(tmp_path, [{**MINE, "machine": "reg.example.com:5000"}], "reg.example.com:5000") == ""


@pytest.mark.parametrize(
    ("registry", "tokens"), [("nvcr.io", "authn.nvidia.com"), ("registry-1.docker.io", "auth.docker.io")]
)
def test_login_is_also_sent_to_the_token_host(tmp_path: Path, registry: str, tokens: str) -> None:
    mine = {**MINE, "machine": registry, "login": "$oauthtoken"}
    assert looked_up(tmp_path, [mine], registry, tokens) == f"$oauthtoken {SECRET}"
    own = {**mine, "machine": tokens, "password": "another"}
    assert looked_up(tmp_path, [mine, own], registry, tokens) == "$oauthtoken another"
    assert looked_up(tmp_path, [own, mine], registry, tokens) == "$oauthtoken another"
    bobs = {**own, "user": "bob"}
    assert credential_texts([mine, bobs])["alice"].count("machine") == 2


def test_password_can_be_a_command(tmp_path: Path) -> None:
    mine = {**MINE, "password": "$(printf '%s' made; echo -up)"}
    assert credential_faults([mine]) == []
    assert is_evaluated(mine["password"])
    assert looked_up(tmp_path, [mine], "reg.example.com") == "robot made-up"


@pytest.mark.parametrize(
    ("change", "problem", "remedy"),
    [
        ({"machine": "reg.example.com:5000"}, "without the port", "write machine: reg.example.com, port: 5000"),
        ({"machine": "https://reg.example.com"}, "not a host name", "without https://"),
        ({"machine": "reg.example.com/team"}, "not a host name", "only the host name"),
        ({"machine": "docker.io"}, "which Enroot calls registry-1.docker.io", "write registry-1.docker.io"),
        ({"port": 0}, "has the port 0", "1 to 65535"),
        ({"port": "https"}, "has the port 'https'", "1 to 65535"),
        ({"password": f"${SECRET}"}, "begins with $, which Enroot passes to a shell", "$(printf %s"),
        ({"password": f"${{{SECRET}}}"}, "begins with $", "$(printf %s"),
        ({"password": f"$(echo\n{SECRET})"}, "has no valid password", "without spaces"),
        ({"password": f"{SECRET} x"}, "has no valid password", "without spaces"),
        ({"login": ""}, "has no valid login", "set user, machine, login and password"),
    ],
)
def test_credential_not_found_by_enroot_is_refused(change: dict[str, Any], problem: str, remedy: str) -> None:
    ((found, cure),) = credential_faults([{**MINE, **change}])
    assert found.startswith("item 1 ")
    assert problem in found
    assert remedy in cure
    assert SECRET not in found + cure


def test_second_login_for_one_registry_is_refused(tmp_path: Path) -> None:
    twice = [MINE, {**MINE, "login": "other", "password": "another"}]
    assert looked_up(tmp_path, twice, "reg.example.com") == f"robot {SECRET}"
    ((found, cure),) = credential_faults(twice)
    assert found.startswith("item 2 is a second login of alice for reg.example.com")
    assert cure == "keep one of them"
    assert credential_faults([MINE, {**MINE, "user": "bob"}]) == []
