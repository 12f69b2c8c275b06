"""Module that restarts or reloads a daemon and verifies that it runs with its new configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
module: daemon_reload
author: busbar contributors (!UNKNOWN)
short_description: Apply a daemon's new configuration and verify it
description:
  - Restarts or reloads a unit with an HTTP endpoint, and waits until it is ready.
  - After a reload, checks the metrics of Prometheus or Alertmanager for success and time of the last reload. A failure
    includes the last lines of the unit's journal.
attributes:
  check_mode:
    description: Changes nothing in check mode, and reports a change.
    support: full
options:
  unit:
    description: Name of the unit, without C(.service).
    type: str
    required: true
  action:
    description: Action to take. V(ready) only waits. V(reloaded) starts the unit if it does not run.
    type: str
    choices: [restarted, reloaded, ready]
    required: true
  url:
    description: Base URL of the daemon.
    type: str
    required: true
  ready_path:
    description: Path that returns status 200 when the daemon is ready.
    type: str
    default: /-/ready
  metrics:
    description: Prefix of the daemon's metrics. Required for V(reloaded).
    type: str
    default: ""
  ca_file:
    description: File with CA certificates for HTTPS. If empty, the system's certificates are used.
    type: path
    default: ""
  certificate_file:
    description: Client certificate, if the daemon requires one.
    type: path
    default: ""
  key_file:
    description: Private key of the client certificate.
    type: path
    default: ""
  username:
    description: User name, if the daemon requires one.
    type: str
    default: ""
  password:
    description: Password of O(username).
    type: str
    default: ""
  timeout_s:
    description: Seconds to wait until the daemon is ready.
    type: int
    default: 60
  pending:
    description: The C(pending) file of M(busbar.cluster.templates). Removed when the daemon runs with the new
      configuration.
    type: path
"""

EXAMPLES = r"""
- name: Load the rules
  busbar.cluster.daemon_reload:
    unit: prometheus
    action: reloaded
    url: http://10.0.0.10:9090
    metrics: prometheus
"""

RETURN = r"""
seconds:
  description: Duration in seconds.
  returned: when it was done
  type: float
"""

import base64
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from ansible.module_utils.basic import AnsibleModule

_PAUSE_S = 0.2
_OK = 200
_TIMEOUT_S = 5


class Access(NamedTuple):
    """URL and credentials of a daemon."""

    url: str
    ca_file: str = ""
    username: str = ""
    password: str = ""
    certificate_file: str = ""
    key_file: str = ""


def fetch(access: Access, path: str) -> tuple[int, str]:
    """Return the HTTP status and text; 0 and the reason if the daemon does not answer."""
    if not access.url.startswith(("http://", "https://")):
        message = f"{access.url} is not an http:// or https:// URL"
        raise ValueError(message)
    request = urllib.request.Request(access.url.rstrip("/") + path)  # noqa: S310 - checked above
    if access.username:
        pair = base64.b64encode(f"{access.username}:{access.password}".encode()).decode()
        request.add_header("Authorization", f"Basic {pair}")
    # Daemons of the cluster are reached without a proxy.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    try:
        if access.url.startswith("https://"):
            context = ssl.create_default_context(cafile=access.ca_file or None)
            if access.certificate_file:
                context.load_cert_chain(access.certificate_file, access.key_file or None)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT_S) as answer:
            return int(answer.status), answer.read().decode(errors="replace")
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode(errors="replace")
    except (OSError, urllib.error.URLError) as exc:
        return 0, str(exc)


def metric_value(text: str, name: str) -> float | None:
    """Return the value of an unlabelled metric in Prometheus' text format, or None if the metric is missing."""
    for line in text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    return None


def loaded_since(text: str, prefix: str, began: float) -> bool | None:
    """Return whether a daemon loaded its configuration after `began`; None if it has not tried yet.

    Args:
        text: metrics of the daemon.
        prefix: prefix of the metric names, such as prometheus.
        began: seconds since 1970.
    """
    successful = metric_value(text, f"{prefix}_config_last_reload_successful")
    loaded = metric_value(text, f"{prefix}_config_last_reload_success_timestamp_seconds")
    if successful == 0:
        return False
    return True if loaded is not None and loaded >= began else None


def give_up(module: AnsibleModule, what: str) -> None:
    """Fail the module with the last log lines of the unit."""
    unit = module.params["unit"]
    _, output, _ = module.run_command(["journalctl", "-u", unit, "-n", "8", "--no-pager", "-o", "cat"])
    module.fail_json(msg=f"{unit} {what}; last log lines:\n{output.strip()}\nremedy: see journalctl -u {unit}")


def systemctl(module: AnsibleModule, *words: str) -> None:
    """Run systemctl, or fail the module."""
    status, out, err = module.run_command(["systemctl", *words])
    if status != 0:
        give_up(module, f"failed (systemctl {' '.join(words)}: {(err or out).strip()})")


def is_active(module: AnsibleModule, access: Access, began: float) -> bool:
    """Return whether the daemon is ready and, after a reload, has loaded its new configuration."""
    params = module.params
    status, _ = fetch(access, params["ready_path"])
    if status != _OK or params["action"] != "reloaded":
        return status == _OK
    loaded = loaded_since(fetch(access, "/metrics")[1], params["metrics"], began)
    if loaded is False:
        give_up(module, "rejected its new configuration and continues with the old one")
    return bool(loaded)


def wait(module: AnsibleModule, access: Access, began: float) -> None:
    """Wait until the new configuration is active, or fail the module."""
    params = module.params
    while not is_active(module, access, began):
        _, state, _ = module.run_command(["systemctl", "show", "-p", "ActiveState", "--value", params["unit"]])
        if state.strip() == "failed":
            give_up(module, "stopped")
        if time.time() > began + params["timeout_s"]:
            status, output = fetch(access, params["ready_path"])
            what = f"is not ready at {params['url']} ({f'HTTP {status}' if status else output})"
            if status == _OK:
                what = "did not load its new configuration"
            give_up(module, f"{what} after {params['timeout_s']} s")
        time.sleep(_PAUSE_S)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "action": {"type": "str", "choices": ["restarted", "reloaded", "ready"], "required": True},
            "url": {"type": "str", "required": True},
            "ready_path": {"type": "str", "default": "/-/ready"},
            "metrics": {"type": "str", "default": ""},
            "ca_file": {"type": "path", "default": ""},
            "certificate_file": {"type": "path", "default": ""},
            "key_file": {"type": "path", "default": "", "no_log": False},
            "username": {"type": "str", "default": ""},
            "password": {"type": "str", "default": "", "no_log": True},
            "timeout_s": {"type": "int", "default": 60},
            "pending": {"type": "path"},
        },
        supports_check_mode=True,
    )
    params = module.params
    changed = params["action"] != "ready"
    if module.check_mode:
        module.exit_json(changed=changed)
    began = time.time()
    if params["action"] == "restarted":
        systemctl(module, "daemon-reload")
        systemctl(module, "restart", params["unit"])
    elif params["action"] == "reloaded":
        systemctl(module, "reload-or-restart", params["unit"])
    try:
        wait(module, Access(**{name: params[name] for name in Access._fields}), began)
        if params["pending"]:
            Path(params["pending"]).unlink(missing_ok=True)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{params['unit']}: {exc}")
    module.exit_json(changed=changed, seconds=round(time.time() - began, 1))


if __name__ == "__main__":
    main()
