"""The page /jobs with a user's jobs and the state of the cluster, and its link on every page of the hub."""

from __future__ import annotations

import asyncio
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.access.login_user import groups_of
from ansible_collections.busbar.cluster.plugins.module_utils.portal.answer_cache import CachedAnswer, UserAnswers
from ansible_collections.busbar.cluster.plugins.module_utils.portal.cluster_resources import parse_partitions, usable
from ansible_collections.busbar.cluster.plugins.module_utils.portal.jobs_page import (
    cluster_rows,
    ended_rows,
    queue_rows,
    validated,
)
from busbar_hub import CLUSTER, RefusedError, run_as_user
from jupyterhub.handlers import BaseHandler, default_handlers
from tornado import web

if TYPE_CHECKING:
    from collections.abc import Awaitable

QUEUE_AGE, ENDED_AGE = 10.0, 60.0
LONGEST_S = 20


async def answer(program: str, request: dict[str, Any], user: str) -> dict[str, Any]:
    """Return the answer of a program, or its error, which is cached as well to limit queries while Slurm hangs."""
    try:
        return await run_as_user(program, request, user)
    except RefusedError as exc:
        return {"problem": str(exc)}


# One cached query serves the queue of all users; the accounting is queried once per minute and user.
QUEUE = CachedAnswer(lambda: answer("query", {"what": "queue"}, "slurm"), QUEUE_AGE)
ENDED = UserAnswers(lambda user: answer("history", {}, user), ENDED_AGE)


async def within_timeout(pending: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Return an answer, or a problem after a timeout; the query continues, and the next page uses its answer."""
    try:
        return await asyncio.wait_for(asyncio.shield(pending), LONGEST_S)
    except TimeoutError:
        return {"problem": f"no answer within {LONGEST_S} s"}
    except (RefusedError, ValueError) as exc:
        return {"problem": str(exc)}


class JobsHandler(BaseHandler):
    """Serves the page with the user's jobs and the cluster's state."""

    @web.authenticated
    async def get(self) -> None:
        """Render the page."""
        name, settings = self.current_user.name, self.settings["busbar"]
        grafana = settings["grafana_url"]
        queue, ended, cluster = await asyncio.gather(
            within_timeout(QUEUE.get()), within_timeout(ENDED.get(name)), within_timeout(self.cluster())
        )
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
        """Return the partitions that the user's groups may use."""
        view = await CLUSTER.get()
        found = parse_partitions(view["partitions"], view["nodes"])
        return {"rows": cluster_rows(usable(found, groups_of(pwd.getpwnam(self.current_user.name)), []))}

    def validation(self, path: str) -> dict[str, Any]:
        """Return the result of the last validation."""
        try:
            return {"validation": validated(Path(path).read_text(encoding="utf-8"))}
        except FileNotFoundError:
            return {"validation": {}}
        except (OSError, ValueError) as exc:
            self.log.warning("%s: %s", path, exc)
            return {"validation": {}, "validation_problem": str(exc)}


default_handlers.append((r"/jobs", JobsHandler))
