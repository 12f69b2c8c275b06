"""The page of a user's jobs and of the cluster, and what leads to it from every page of the hub."""

from __future__ import annotations

import asyncio
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.access.login_user import groups_of
from ansible_collections.busbar.cluster.plugins.module_utils.portal.cluster_view import parse_partitions, usable
from ansible_collections.busbar.cluster.plugins.module_utils.portal.jobs_page import (
    cluster_rows,
    ended_rows,
    queue_rows,
    validated,
)
from ansible_collections.busbar.cluster.plugins.module_utils.portal.kept import Kept, KeptEach
from busbar_hub import CLUSTER, RefusedError, asked
from jupyterhub.handlers import BaseHandler, default_handlers
from tornado import web

if TYPE_CHECKING:
    from collections.abc import Awaitable

QUEUE_AGE, ENDED_AGE = 10.0, 60.0
LONGEST_S = 20


async def answer(program: str, request: dict[str, Any], user: str) -> dict[str, Any]:
    """What a program answers; a refusal is an answer as well, so that a Slurm that hangs is not asked by each page."""
    try:
        return await asked(program, request, user)
    except RefusedError as exc:
        return {"problem": str(exc)}


# One question for the queue of all users, and one a minute for the accounting of each who looks.
QUEUE = Kept(lambda: answer("query", {"what": "queue"}, "slurm"), QUEUE_AGE)
ENDED = KeptEach(lambda user: answer("history", {}, user), ENDED_AGE)


async def soon(told: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """An answer, or that there is none yet; who asked goes on, and keeps it for the next page."""
    try:
        return await asyncio.wait_for(asyncio.shield(told), LONGEST_S)
    except TimeoutError:
        return {"problem": f"not within {LONGEST_S} seconds"}
    except (RefusedError, ValueError) as exc:
        return {"problem": str(exc)}


class JobsHandler(BaseHandler):
    """The jobs of who has logged in, and the cluster."""

    @web.authenticated
    async def get(self) -> None:
        """Show the page."""
        name, settings = self.current_user.name, self.settings["busbar"]
        grafana = settings["grafana_url"]
        queue, ended, cluster = await asyncio.gather(soon(QUEUE.get()), soon(ENDED.get(name)), soon(self.cluster()))
        page = await self.render_template(
            "jobs.html",
            **settings,
            **self.validation(settings["validation_file"]),
            queue=queue_rows(queue.get("users", {}).get(name, []), grafana),
            queue_problem=queue.get("problem", ""),
            ended=ended_rows(ended.get("jobs", []), grafana),
            ended_problem=ended.get("problem", ""),
            cluster=cluster.get("rows", []),
            cluster_problem=cluster.get("problem", ""),
        )
        self.set_header("Cache-Control", "no-store")
        self.finish(page)

    async def cluster(self) -> dict[str, Any]:
        """The partitions that are open to the groups of who has logged in."""
        view = await CLUSTER.get()
        found = parse_partitions(view["partitions"], view["nodes"])
        return {"rows": cluster_rows(usable(found, groups_of(pwd.getpwnam(self.current_user.name)), []))}

    def validation(self, path: str) -> dict[str, Any]:
        """What the last validation found."""
        try:
            return {"validation": validated(Path(path).read_text(encoding="utf-8"))}
        except FileNotFoundError:
            return {"validation": {}}
        except (OSError, ValueError) as exc:
            self.log.warning("%s: %s", path, exc)
            return {"validation": {}, "validation_problem": str(exc)}


default_handlers.append((r"/jobs", JobsHandler))
