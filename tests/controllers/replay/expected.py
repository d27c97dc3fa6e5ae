"""What the hub must show after each step of a scenario: what ``fairway conformance`` computes, with three differences.

- **A page with clusters is created and then filled**, for an API server takes no status with a creation. So its
  DecisionCreate is followed by DecisionUpdate and ScoreUpdate, as people see it with OCM on a real hub.
- **A broken cluster set** leaves decisions as they are. That a placement cannot be decided is written into its
  conditions, where OCM's controller only logs it.
- **A page that gets other clusters and other labels** gets both at once. With OCM the labels follow when it looks at
  the placement for the next time, and until then the clusters are in the wrong group.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from fairway.api.kinds import decode
from fairway.fleet.instant import to_micros
from fairway.plugins import pages
from fairway.plugins.conditions import NOT_ALL_SCHEDULED, SATISFIED
from fairway.plugins.pages import Event
from fairway.plugins.verdict import Verdict
from fairway.whatif.replay import answers
from fairway.whatif.world import World

Document = dict[str, Any]

CREATED: Final = "DecisionCreate"
SEEN: Final = ("numberOfSelectedClusters", "conditions", "decisionGroups", "decisions", "events")
"""What of an answer can be seen on a hub."""


def expected(scenario: Document) -> list[Document]:
    """One answer per step of the schedule. ``again`` is when to look at the placement once more, if it must be."""
    now = to_micros(datetime.fromisoformat(scenario["now"]))
    world = World(decode(each) for each in scenario["objects"])
    found: list[Document] = []
    for text, answer in zip(scenario["schedule"], answers(scenario), strict=True):
        namespace, name = text.split("/", 1)
        key = (namespace, name)
        verdict = None
        if key in world.placements and not world.workload(key).idle:
            verdict = world.place(key, now=now)
        found.append(_on_a_hub(answer, verdict))
        # The reference also comes back for clusters that are out of the running for other reasons.
        wake = None if verdict is None else verdict.outcome.wake
        changes = wake is not None and world.look(key, now=wake).outcome.selected != (
            world.look(key, now=now).outcome.selected
        )
        found[-1]["again"] = answer["requeueAt"] if changes else None
    return found


def _on_a_hub(answer: Document, verdict: Verdict | None) -> Document:
    seen: Document = {field: answer.get(field, []) for field in SEEN}
    seen["totals"] = answer.get("totalScores", {})
    seen["events"] = list(seen["events"])
    if verdict is None:
        return seen
    if verdict.frozen:
        seen["conditions"] = _stuck(seen["conditions"], verdict)
        return seen
    namespace, placement = answer["placement"].split("/", 1)
    labels = {page.name: dict(page.labels) for page in verdict.pages}
    seen["decisions"] = [{**each, "labels": labels[each["name"]]} for each in seen["decisions"]]
    clusters = {each["name"]: each["clusters"] for each in seen["decisions"]}
    for page in verdict.writes.create:
        if clusters[page.name]:
            told = pages.updated(
                namespace=namespace, placement=placement, page=page.name, status=verdict.status
            )
            seen["events"].append(_document(told))
            seen["events"].append(_document(pages.scored(pages.score_text(seen["totals"]))))
    return seen


def _document(event: Event) -> Document:
    return {
        "type": event.type,
        "reason": event.reason,
        "action": event.action,
        "message": event.message.rstrip(" "),
    }


def _stuck(conditions: Sequence[Mapping[str, str]], verdict: Verdict) -> list[Mapping[str, str]]:
    others = [each for each in conditions if each["type"] != SATISFIED]
    stuck = {
        "type": SATISFIED,
        "status": "False",
        "reason": NOT_ALL_SCHEDULED,
        "message": verdict.status.message,
    }
    return sorted([*others, stuck], key=lambda each: each["type"])
