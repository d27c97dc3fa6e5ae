"""Approval: new clusters of a Placement wait for an annotation. Notify: tells a web service about decisions."""

import asyncio
import json
from datetime import timedelta
from urllib.request import Request, urlopen

from fairway.engine.points import CommitContext
from fairway.engine.status import OK, Code, Status, unschedulable

APPROVED = "example.com/approved"


class Approval:
    name = "Approval"

    def permit(self, context: CommitContext, /) -> tuple[Status, timedelta | None]:
        answer = context.workload.spec.metadata.annotations.get(APPROVED)
        if answer == "yes":
            return OK, None
        if answer == "no":
            return unschedulable("was denied", plugin=self.name), None
        return Status(Code.WAIT, (f"set the annotation {APPROVED} to yes or no",)), timedelta(minutes=10)


class Notify:
    name = "Notify"

    def __init__(self, *, url: str) -> None:
        self._url = url

    async def post_bind(self, context: CommitContext, /) -> None:
        news = {
            "placement": f"{context.workload.namespace}/{context.workload.name}",
            "added": [host.name for host in context.hosts],
            "removed": [host.name for host in context.removed],
        }
        request = Request(self._url, json.dumps(news).encode(), {"Content-Type": "application/json"})
        await asyncio.to_thread(urlopen, request, timeout=10)
