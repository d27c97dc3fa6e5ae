"""Users with exactly the granted rights."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kubewire.client import Client, Connection
from kubewire.client.credentials import Impersonation
from kubewire.client.rbac import Rule

RBAC: Final = "rbac.authorization.k8s.io"


async def grant(
    administrator: Client, user: str, rules: Iterable[Rule], *, namespace: str = ""
) -> Connection:
    """Return a connection as a new user with these rights, in one namespace or in all."""
    place = f"namespaces/{namespace}/" if namespace else ""
    role = "Role" if namespace else "ClusterRole"
    path = f"/apis/{RBAC}/v1/{place}{role.lower()}"
    meta = {"name": user}
    granted = [rule.document() for rule in rules]
    binding = {
        "metadata": meta,
        "roleRef": {"apiGroup": RBAC, "kind": role, "name": user},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    await administrator.request("POST", f"{path}s", body={"metadata": meta, "rules": granted})
    await administrator.request("POST", f"{path}bindings", body=binding)
    who = Impersonation(user=user, groups=("system:authenticated",))
    return replace(administrator.connection, impersonation=who)
