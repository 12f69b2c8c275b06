"""The files that `scripts/new` writes, by path; NAME and Name are replaced with the given name."""

from __future__ import annotations

PROFILE = {
    "plugins/plugin_utils/engine/catalogue/hardware/NAME.yml": """\
---
# yaml-language-server: $schema=../profile.schema.json
description: NAME
sockets: 1
cores_per_socket: 1
threads_per_core: 1
memory_mb: 1024
nics:
  - {count: 1, gbps: 1, rdma: false}
busbw: {}
""",
}

PLAY = """
- name: Configure NAME
  hosts: "{{ target | default('all') }}"
  become: true
  gather_facts: false
  roles:
    - role: busbar.cluster.NAME
"""

ROLE = {
    "roles/NAME/README.md": """\
# NAME

Installs packages and writes `/etc/NAME.conf`.

```yaml
NAME_config: {answer: 42}
```

<!-- BEGIN_ANSIBLE_DOCS -->
<!-- END_ANSIBLE_DOCS -->
""",
    "roles/NAME/defaults/main.yml": """\
---
NAME_config: {}
""",
    "roles/NAME/vars/Debian.yml": """\
---
__NAME_packages: []
""",
    "roles/NAME/vars/RedHat.yml": """\
---
__NAME_packages: []
""",
    "roles/NAME/templates/etc/NAME.conf.j2": """\
{{ ansible_managed | comment }}
{% for key, value in NAME_config.items() %}
{{ key }} = {{ value }}
{% endfor %}
""",
    "roles/NAME/meta/main.yml": """\
---
galaxy_info:
  role_name: NAME
  author: busbar contributors
  description: Packages and configuration of NAME
  license: Apache-2.0
  min_ansible_version: "2.19"
  platforms:
    - name: Debian
      versions: [bookworm, trixie]
    - name: Ubuntu
      versions: [jammy, noble]
    - name: EL
      versions: ["9"]
dependencies:
  - role: busbar.cluster.site
""",
    "roles/NAME/meta/argument_specs.yml": """\
---
argument_specs:
  main:
    short_description: Packages and configuration of NAME
    description: Installs packages and writes C(/etc/NAME.conf).
    options:
      NAME_config:
        description: Lines of the configuration.
        type: dict
        default: {}
""",
    "roles/NAME/checks.py": '''\
"""Checks the options of the role NAME."""

from __future__ import annotations

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the keys that a line of the configuration cannot have."""
    return [
        make_problem([cluster.get("host", "")], f"NAME_config.{key}", "has a '='", "use another key")
        for key in options["config"]
        if "=" in str(key)
    ]
''',
    "roles/NAME/tasks/main.yml": """\
---
- name: Validate the options of NAME
  busbar.cluster.refuse:
    problems: "{{ __NAME_checked | busbar.cluster.role_problems('NAME', host=inventory_hostname) }}"
  vars:
    __NAME_checked: {config: "{{ NAME_config }}"}
  tags: [NAME]

- name: Gather the facts that NAME needs
  ansible.builtin.setup:
    gather_subset: ["!all", "!min", distribution]
  when: "'os_family' not in ansible_facts"
  tags: [NAME]

- name: Load the package names of NAME
  ansible.builtin.include_vars: "{{ role_path }}/vars/{{ ansible_facts['os_family'] | basename }}.yml"
  tags: [NAME]

- name: Install the packages of NAME
  busbar.cluster.packages:
    name: "{{ __NAME_packages }}"
  when: __NAME_packages | length > 0
  tags: [NAME]

- name: Write the configuration of NAME
  busbar.cluster.templates:
    files:
      - {dest: /etc/NAME.conf}
  tags: [NAME]
""",
    "tests/unit/roles/NAME/test_NAME_checks.py": '''\
"""The options of the role NAME: an invalid one is refused, and found where a site writes it."""

from __future__ import annotations

from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.options import Setting
from ansible_collections.busbar.cluster.plugins.plugin_utils.role_checks import value_problems
from ansible_collections.busbar.cluster.roles.NAME.checks import check


def test_invalid_key_is_refused() -> None:
    assert check({"config": {"answer": 42}}, {"host": "gpu1"}) == []
    (found,) = check({"config": {"a=b": 1}}, {"host": "gpu1"})
    assert (found["hosts"], found["key"]) == (["gpu1"], "NAME_config.a=b")


def test_preflight_names_the_place() -> None:
    (found,) = value_problems([Setting("NAME_config", {"a=b": 1}, "host gpu1", "gpu1", "hosts.yml:7")])
    assert (found["hosts"], found["key"]) == (["gpu1"], "NAME_config.a=b")
    assert "hosts.yml:7" in found["problem"]
''',
    "tests/sandbox/test_NAME.py": '''\
"""The role NAME: a second run changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conftest import recap

if TYPE_CHECKING:
    from conftest import Cluster

pytestmark = pytest.mark.proves("NAME")


@pytest.mark.core
def test_second_run_changes_nothing(sandbox: Cluster) -> None:
    for _ in range(2):
        done = sandbox.playbook("PLAYBOOK.yml", "--tags", "NAME")
        assert done.returncode == 0, done.stdout + done.stderr
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items() if counts["changed"]} == {}
''',
}

STAGE = {
    "plugins/plugin_utils/engine/validation/programs/NAME.py": '''\
# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage NAME: one job of all nodes, in which each node prints a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from .program_stage import ProgramStage
from .stage_verdict import Judged

if TYPE_CHECKING:
    from ..data_types import Options

__all__ = ["Name"]


class NameOptions(TypedDict):
    """The options validation_NAME_*, and the text of the job."""

    script: str


class Name(ProgramStage[NameOptions]):
    """Checks that each node of a job printed its line."""

    name = "NAME"
    form = NameOptions
    title = "Name"

    def judged(self, options: Options, nodes: list[str], ranks: int, text: str) -> Judged:
        """Return the nodes without a line."""
        del options, ranks
        lines = {tuple(line.split()) for line in text.splitlines()}
        silent = [node for node in nodes if ("NAME", node) not in lines]
        return Judged(
            result=f"{len(nodes)} node(s) answered",
            gaps=[f"no line of {', '.join(silent) or 'any node'}"] if silent or not nodes else [],
        )
''',
    "roles/validation/templates/job_NAME.sh.j2": """\
#!/bin/bash
{{ ansible_managed | comment }}
# A line of each node of this job.
{% include 'say.sh.j2' %}

srun --quiet --kill-on-bad-exit=0 --ntasks-per-node=1 bash -c 'echo "NAME $SLURMD_NODENAME"'
""",
    "tests/unit/plugins/plugin_utils/engine/validation/programs/test_NAME_stage.py": '''\
"""The stage NAME: what the output of its job means."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.NAME import Name

NODES = ["gpu1", "gpu2"]


@pytest.mark.parametrize(
    ("text", "nodes", "verdict", "words"),
    [
        ("NAME gpu1\\nNAME gpu2\\n", NODES, "PASS", "2 node(s) answered"),
        ("NAME gpu1\\n", NODES, "INCONCLUSIVE", "no line of gpu2"),
        ("", NODES, "INCONCLUSIVE", "no line of gpu1, gpu2"),
        ("", [], "INCONCLUSIVE", "no line of any node"),
    ],
)
def test_node_without_a_line_is_reported(text: str, nodes: list[str], verdict: str, words: str) -> None:
    nothing: Any = {}
    answer = Name().judged(nothing, nodes, 1, text).answer("NAME")
    assert answer["verdict"] == verdict
    assert words in answer["reason"]
''',
}
