"""Module that applies the declared accounts, users and QOS to Slurm's accounting."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounting
author: busbar contributors (!UNKNOWN)
short_description: Manage accounts, users, QOS and limits of Slurm
description:
  - Reads the state of slurmdbd, plans the difference and runs only the required C(sacctmgr) commands.
  - Sets limits, fair share, flags and priorities of a declared entry exactly as declared, and resets omitted ones.
  - Entries that are not declared stay unchanged. An entry with C(state) V(absent) is removed.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  cluster:
    description: Name of the cluster in accounting. Created if missing.
    type: str
    required: true
  accounts:
    description: The declared accounts.
    type: list
    elements: dict
    default: []
  users:
    description:
      - The users, with their C(accounts), default account first, and optionally C(admin), C(limits), C(fairshare),
        C(qos), C(default_qos) and C(state).
    type: list
    elements: dict
    default: []
  qos:
    description: The declared qualities of service.
    type: list
    elements: dict
    default: []
  only_missing:
    description: Whether to leave existing entries unchanged. Then only missing entries are created and absent users
      removed.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Let alice charge the account research, with four GPUs at a time
  busbar.cluster.slurm_accounting:
    cluster: busbar
    accounts:
      - {name: research, limits: {GrpTRES: gres/gpu=4}}
    users:
      - {name: alice, accounts: [research]}
"""

RETURN = r"""
commands:
  description: The commands that were (or in check mode would be) run.
  returned: always
  type: list
  elements: str
"""

import re
import shlex

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.accounting import (
    QUERIES,
    parse_state,
    plan,
)

# Errors of sacctmgr if slurmdbd is down or has no database.
NO_ANSWER = re.compile(
    r"slurm_persist_conn_open|Problem talking to the database|Connection refused|Unable to contact slurmdbd",
    re.IGNORECASE,
)


def failure(words: list[str], output: str) -> str:
    """Return the error message of a failed command, with a remedy if slurmdbd does not answer."""
    text = f"`sacctmgr {shlex.join(words)}` failed: {' '.join(output.split())}"
    if NO_ANSWER.search(output):
        text += "\n    remedy: slurmdbd does not answer: check it (systemctl status slurmdbd; journalctl -u slurmdbd)"
        text += " and its database, then run `busbar provision slurm`, which starts both. No accounting data is lost"
    return text


def only_missing_entries(commands: list[list[str]]) -> list[list[str]]:
    """Return the commands that create missing entities or remove a user from all accounts."""
    whole = ["delete", "user", "where"]
    return [words for words in commands if words[0] == "add" or (words[:3] == whole and words[4:] == [])]


def read_state(module: AnsibleModule, sacctmgr: str) -> dict[str, str]:
    """Return the output of all queries; empty in check mode if accounting does not answer yet."""
    answers = {}
    for name, query in QUERIES.items():
        words = [word.format(cluster=module.params["cluster"]) for word in query]
        status, out, err = module.run_command([sacctmgr, "-nP", *words])
        if status != 0 and module.check_mode:
            return {}
        if status != 0:
            module.fail_json(msg=failure(words[:2], err or out))
        answers[name] = out
    return answers


def main() -> None:
    """Run the module."""
    entries = {"type": "list", "elements": "dict", "default": []}
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "accounts": entries,
            "users": entries,
            "qos": entries,
            "only_missing": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    sacctmgr = module.get_bin_path("sacctmgr", required=not module.check_mode) or ""
    answers = read_state(module, sacctmgr) if sacctmgr else {}
    declared = [module.params[key] for key in ("accounts", "users", "qos")]
    try:
        commands = plan(parse_state(answers), module.params["cluster"], *declared)
    except (KeyError, ValueError) as exc:
        module.fail_json(msg=f"slurm_accounting: {exc}")
    if module.params["only_missing"]:
        commands = only_missing_entries(commands)
    lines = ["sacctmgr " + shlex.join(words) for words in commands]
    for words in [] if module.check_mode else commands:
        status, out, err = module.run_command([sacctmgr, "-i", *words])
        if status != 0:
            module.fail_json(msg=failure(words, err or out), commands=lines)
    after = "".join(f"{line}\n" for line in lines)
    header = "Slurm accounting"
    diff = {"before": "", "after": after, "before_header": header, "after_header": f"{header}, commands"}
    module.exit_json(changed=bool(commands), commands=lines, diff=diff)


if __name__ == "__main__":
    main()
