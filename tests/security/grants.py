"""Grant rights to users of a hub."""

from collections.abc import Sequence
from typing import Any

from security.wire import ADMIN, ALICE, MALLORY, Hub, ask

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"


def rule(verbs: str, resources: str, *names: str, group: str = "") -> dict[str, Any]:
    """``verbs`` and ``resources`` are separated by blanks."""
    made = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return made | {"resourceNames": list(names)} if names else made


async def grant(
    hub: Hub,
    namespace: str,
    *rules: dict[str, Any],
    to: Sequence[str] = (ALICE, MALLORY),
    name: str = "granted",
) -> None:
    """Grant rights in one namespace; with an empty namespace in all, and only to Mallory."""
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
        answer = await ask(hub, "POST", f"{base}/{part}", user=ADMIN, body=body)
        assert answer.code == 201, answer
    # A real hub's RBAC cache lags behind, for new grants and for those that another test deleted.
    first = rules[0]
    while hub.kind == "real" and f'"{name}' not in await _because(hub, namespace, first, to[-1]):
        pass


async def _because(hub: Hub, namespace: str, granted: dict[str, Any], user: str) -> str:
    """The reason of an allowed request, which names the binding; empty if it is denied."""
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
        hub,
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        body={"spec": {"user": user, "resourceAttributes": asked}},
    )
    status = answer.document["status"]
    return str(status["reason"]) if status["allowed"] else ""
