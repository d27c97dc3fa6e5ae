"""What is asked of every hub about options of writes and deletions, and about writes at the edge of what is allowed."""

from typing import Any

from clients.exchanges import MERGE, Script
from clients.scripts import MAPS, W, apply, config, delete, get, patch, post, put, widget

BACKGROUND = {"propagationPolicy": "Background"}
HELD = {"finalizers": ["suite.fairway.dev/hold"]}

DELETIONS_BY_QUERY = (
    "dryRun=",
    "dryRun",
    "dryRun=all",
    "dryRun=None",
    "dryRun=All&dryRun=",
    "dryRun=All&dryRun=All",
    "dryRun=All,All",
    "uid=nope",
    "resourceVersion=1",
    "propagationPolicy=",
    "propagationPolicy=Background&orphanDependents=false",
    "gracePeriodSeconds=",
    "gracePeriodSeconds=1.5",
)
"""None of them deletes."""
DELETIONS_BY_BODY: tuple[Any, ...] = (
    {"dryRun": [""]},
    {"dryRun": ["all"]},
    {"dryRun": ["All", ""]},
    {"dryRun": ["All", "All"]},
    {"preconditions": {"uid": ""}},
    {"preconditions": {"uid": "nope"}},
    {"preconditions": {"resourceVersion": ""}},
    {"propagationPolicy": ""},
)
"""Nor do these."""


def labelled(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"t": "t"}, **metadata}}


SCRIPTS = [
    Script(
        name="deletions that are refused or rehearsed delete nothing",
        calls=[
            post(MAPS, config("a")),
            post(W, widget("a")),
            *(delete(f"{path}/a?{query}") for path in (MAPS, W) for query in DELETIONS_BY_QUERY),
            *(delete(f"{path}/a", body) for path in (MAPS, W) for body in DELETIONS_BY_BODY),
            get(f"{MAPS}/a"),
            get(f"{W}/a"),
        ],
    ),
    Script(
        name="deletions with conditions in the query",
        calls=[
            post(MAPS, config("a"), keep="metadata.uid"),
            get(f"{MAPS}/a", keep="metadata.resourceVersion"),
            delete(f"{MAPS}/a?uid=$uid&resourceVersion=$resourceVersion"),
            post(MAPS, {"metadata": {"name": "b", **HELD}}),
            delete(f"{MAPS}/b?orphanDependents=false"),
            patch(f"{MAPS}/b", {"metadata": {"finalizers": None}}),
        ],
    ),
    Script(
        name="collections are deleted until a condition fails",
        calls=[
            post(MAPS, labelled("a"), keep="metadata.uid"),
            post(MAPS, labelled("b")),
            delete(f"{MAPS}?labelSelector=t%3Dt", {"preconditions": {"uid": "nope"}}),
            delete(f"{MAPS}?labelSelector=t%3Dt&uid=nope"),
            delete(f"{MAPS}?labelSelector=t%3Dt&dryRun="),
            delete(f"{MAPS}?labelSelector=t%3Dt&dryRun=All"),
            get(f"{MAPS}?labelSelector=t%3Dt"),
            delete(f"{MAPS}?labelSelector=t%3Dt", {"preconditions": {"uid": "$uid"}}),
            get(f"{MAPS}?labelSelector=t%3Dt"),
            post(MAPS, labelled("c", **HELD)),
            delete(f"{MAPS}?labelSelector=t%3Dt", BACKGROUND),
            get(f"{MAPS}?labelSelector=t%3Dt"),
            patch(f"{MAPS}/c", {"metadata": {"finalizers": None}}),
        ],
    ),
    Script(
        name="options that no write takes",
        calls=[
            call
            for query in ("dryRun=", "dryRun=All&dryRun=", "dryRun=all&fieldManager=%01", "force=false")
            for call in (
                post(f"{MAPS}?{query}&dryRun=All", config("a")),
                put(f"{MAPS}/a?{query}&dryRun=All", config("a")),
                patch(f"{MAPS}/a?{query}", {"data": {"a": "b"}}, MERGE),
                apply(f"{MAPS}/a?{query}&dryRun=All", config("a"), ""),
            )
        ],
    ),
]
