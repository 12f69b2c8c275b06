"""The preflight checks every secret that a role creates, and expects the same length."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from busbar.image.rootfs import TAGS

TOP = Path(__file__).resolve().parents[2]
# Private keys of the SSH and TLS authorities: longer than these bytes, created by lookups of their own.
AUTHORITIES = {"ssh_ca": 128, "tls_ca": 128}
LOOKUP = re.compile(r"lookup\('busbar\.cluster\.secret', '([^']+)'(?:, bytes=(\d+))?")


def test_all_secrets_are_declared() -> None:
    files = [*TOP.glob("roles/*/defaults/main.yml"), *TOP.glob("roles/*/vars/*.yml")]
    used = {name: int(size or 32) for path in files for name, size in LOOKUP.findall(path.read_text())}
    declared = yaml.safe_load((TOP / "roles/preflight/vars/main.yml").read_text())["__preflight_secrets"]
    assert declared == used | AUTHORITIES


def test_each_secret_is_recognized_by_a_file_and_an_option_of_a_role() -> None:
    """A role contains the file that shows that a host has the secret, and the option."""
    variables = yaml.safe_load((TOP / "roles/preflight/vars/main.yml").read_text())
    known = variables["__preflight_secrets_known"]
    declared = yaml.safe_load((TOP / "roles/preflight/vars/main.yml").read_text())["__preflight_secrets"]
    assert known.keys() == declared.keys()
    roles = [path for path in TOP.glob("roles/*/*/*.yml") if "preflight" not in path.parts]
    written = "".join(path.read_text() for path in [*roles, *TOP.glob("roles/*/templates/**/*.j2")])
    written = written.replace("{{ __slurm_etc }}", "/etc/slurm")
    options = "".join(path.read_text() for path in [*TOP.glob("roles/*/defaults/*"), *TOP.glob("roles/site/vars/*")])
    for name, each in known.items():
        path = Path(each["file"]["path"])
        assert str(path) in written or (str(path.parent) in written and f"'/{path.name}'" in written), name
        assert name in AUTHORITIES or re.search(rf"^{each['option']}: .*'{name}'", options, re.MULTILINE), name


def test_image_build_skips_tasks_that_need_a_secret() -> None:
    """An image is built in a chroot, where the hosts cannot be queried."""
    tags = set(TAGS.split(","))
    assert {tag for tag in tags if not tag.endswith("_install")} == {"image", "node_pull"}
    for role in ("hosts", "slurm"):
        files = [*(TOP / f"roles/{role}/tasks").glob("install.yml"), *(TOP / f"roles/{role}/vars").glob("*.yml")]
        assert files
        assert not any("busbar.cluster.secret'" in path.read_text() for path in files)


@pytest.mark.parametrize(
    "path", sorted({*TOP.glob("playbooks/*.yml")} - {TOP / "playbooks/image.yml"}), ids=lambda path: path.stem
)
def test_no_playbook_creates_a_secret_before_the_hosts_were_queried(path: Path) -> None:
    """Roles that need a secret run after playbooks/steps/secrets.yml."""
    text = path.read_text()
    users = [f"busbar.cluster.{name}" for name in ("ssh", "mariadb", "node_exporter", "grafana", "tls")]
    users.append("tasks_from: munge")
    first = min((text.find(f"{name}\n") for name in users if f"{name}\n" in text), default=None)
    if first is None:
        return
    assert 0 <= text.find("import_playbook: steps/secrets.yml") < first
