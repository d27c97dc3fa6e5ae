"""Gives users of a hub exactly the rights that a test is about."""

from collections.abc import Sequence
from typing import Any

from security.wire import ADMIN, ALICE, MALLORY, Place, ask

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"


def rule(verbs: str, resources: str, *names: str, group: str = "") -> dict[str, Any]:
    """``verbs`` and ``resources`` are separated by blanks."""
    made = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return made | {"resourceNames": list(names)} if names else made


async def grant(
    place: Place,
    namespace: str,
    *rules: dict[str, Any],
    to: Sequence[str] = (ALICE, MALLORY),
    name: str = "granted",
) -> None:
    """In one namespace; in all of them, and then only to one user, if it is empty."""
    to = to if namespace else (MALLORY,)
    kind = "Role" if namespace else "ClusterRole"
    base = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    lower = kind.lower()
    role = {"metadata": {"name": name}, "rules": rules}
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
        "subjects": [{"kind": "User", "name": user, "apiGroup": GROUP} for user in to],
    }
    for part, body in ((f"{lower}s", role), (f"{lower}bindings", binding)):
        answer = await ask(place, "POST", f"{base}/{part}", user=ADMIN, body=body)
        assert answer.code == 201, answer
    # A real hub takes a moment to notice; and what another test gave to the same user it may not have forgotten yet.
    first = rules[0]
    while place.kind == "real" and f'"{name}' not in await _because(place, namespace, first, to[-1]):
        pass


async def _because(place: Place, namespace: str, granted: dict[str, Any], user: str) -> str:
    """Why a right is there: it names the binding. Empty if there is none."""
    resource, _, part = granted["resources"][0].partition("/")
    asked = {
        "verb": granted["verbs"][0],
        "group": granted["apiGroups"][0],
        "resource": resource,
        "subresource": part,
        "namespace": namespace,
        "name": granted.get("resourceNames", [""])[0],
    }
    answer = await ask(
        place,
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        body={"spec": {"user": user, "resourceAttributes": asked}},
    )
    status = answer.document["status"]
    return str(status["reason"]) if status["allowed"] else ""
