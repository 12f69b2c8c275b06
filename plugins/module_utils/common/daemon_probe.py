"""Query daemons over HTTP: whether they answer, and whether they loaded their new configuration."""

from __future__ import annotations

import base64
import ssl
import urllib.error
import urllib.request
from typing import NamedTuple

__all__ = ["Access", "fetch", "loaded_since", "metric_value"]

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
