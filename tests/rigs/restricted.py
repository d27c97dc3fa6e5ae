"""Connect to a hub with exactly the rights that ``deploy/`` grants, so that tests show that these are sufficient.

    connection = await restricted(administrator, controllers=("placement",))
    async with running(connection, settings) as manager: ...

The manifests are applied with other names: each set of controllers has its own service account.
"""

import asyncio
import hashlib
import os
from base64 import b64encode
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from kubewire.client import Client, Connection, Patch
from kubewire.client.credentials import Impersonation, StoredCredentials
from rigs.processes import POLL

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
NAMESPACE: Final = "fairway-system"
ACCOUNT: Final = "fairway"
TOKEN_SECONDS: Final = 12 * 3600

NO_MANIFESTS: Final = "{folder} has no manifests: give the folder deploy/ of a checkout"
NO_CONTROLLER: Final = "{folder} has no rights for {name!r}; there are {known}"
NO_TOKEN: Final = "the connection has no token, and certificates are not supported here"

_RBAC: Final = "rbac.authorization.k8s.io/v1"
_PATHS: Final = {
    ("v1", "Namespace"): "/api/v1/namespaces",
    ("v1", "ServiceAccount"): "/api/v1/namespaces/{namespace}/serviceaccounts",
    (_RBAC, "ClusterRole"): f"/apis/{_RBAC}/clusterroles",
    (_RBAC, "ClusterRoleBinding"): f"/apis/{_RBAC}/clusterrolebindings",
    (_RBAC, "Role"): f"/apis/{_RBAC}/namespaces/{{namespace}}/roles",
    (_RBAC, "RoleBinding"): f"/apis/{_RBAC}/namespaces/{{namespace}}/rolebindings",
}


_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class NoRights(LookupError):
    """No manifest grants rights to this controller."""


def known(folder: Path = DEPLOY) -> frozenset[str]:
    """Return the controllers with rights."""
    return frozenset(path.parent.name for path in (folder / "controllers").glob("*/rbac.yaml"))


def manifests(controllers: Collection[str], *, folder: Path = DEPLOY) -> list[dict[str, Any]]:
    """Return the service account, its leases and the rights of these controllers. Raises NoRights."""
    base = folder / "base"
    if not base.is_dir():
        raise NoRights(NO_MANIFESTS.format(folder=folder))
    documents = [*_documents(base / "account.yaml"), *_documents(base / "leases.yaml")]
    for name in sorted(set(controllers)):
        if name not in known(folder):
            listed = ", ".join(sorted(known(folder)))
            raise NoRights(NO_CONTROLLER.format(folder=folder, name=name, known=listed))
        documents += _documents(folder / "controllers" / name / "rbac.yaml")
    return documents


async def restricted(
    connection: Connection, *, controllers: Collection[str], namespace: str = NAMESPACE, folder: Path = DEPLOY
) -> Connection:
    """Connect as the service account of an installation with these controllers.

    ``connection`` must be an administrator's. ``namespace`` is created, and has the leases. The token is valid for 12
    hours. Raises NoRights and KubeErrors.
    """
    chosen = ",".join(sorted(set(controllers)))
    suffix = hashlib.sha256(chosen.encode()).hexdigest()[:8]
    account = f"{ACCOUNT}-{suffix}"
    wanted = [
        _moved(document, account=account, suffix=suffix, namespace=namespace)
        for document in manifests(controllers, folder=folder)
    ]
    async with Client(connection) as client:
        for document in wanted:
            await _apply(client, document)
        token = await _token(client, account=account, namespace=namespace)
    made = replace(
        connection,
        credentials=StoredCredentials(token=token),
        impersonation=Impersonation(),
        namespace=namespace,
        place=f"service account {namespace}/{account}",
    )
    async with Client(made) as client:
        for role in wanted:
            if role["kind"] in ("ClusterRole", "Role"):
                await _granted(client, role)
    return made


async def write_kubeconfig(connection: Connection, path: Path) -> Path:
    """Write a kubeconfig with the token, readable by its owner only. Raises NoRights."""
    proof = await connection.credentials.proof()
    token = proof.authorization.removeprefix("Bearer ")
    if not token or token == proof.authorization:
        raise NoRights(NO_TOKEN)
    cluster: dict[str, Any] = {"server": connection.server}
    if connection.authority is not None:
        cluster["certificate-authority-data"] = b64encode(connection.authority.read()).decode()
    if connection.insecure:
        cluster["insecure-skip-tls-verify"] = True
    if connection.tls_server_name:
        cluster["tls-server-name"] = connection.tls_server_name
    context = {"cluster": "hub", "user": ACCOUNT, "namespace": connection.namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": cluster}],
        "users": [{"name": ACCOUNT, "user": {"token": token}}],
        "contexts": [{"name": ACCOUNT, "context": context}],
        "current-context": ACCOUNT,
    }
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(msgspec.json.encode(config))
    return path


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    yield from filter(None, yaml.safe_load_all(file.read_text(encoding="utf-8")))


def _moved(document: dict[str, Any], *, account: str, suffix: str, namespace: str) -> dict[str, Any]:
    """Return the manifest for an account of another name."""
    metadata = dict(document["metadata"])
    match document["kind"]:
        case "Namespace":
            # Tests may use another namespace, without the labels about pods.
            return {**document, "metadata": {"name": namespace}}
        case "ServiceAccount":
            metadata["name"] = account
        case "RoleBinding" | "ClusterRoleBinding":
            metadata["name"] = f"{metadata['name']}-{suffix}"
    if "namespace" in metadata:
        metadata["namespace"] = namespace
    elif document["kind"] == "ClusterRoleBinding":
        metadata["name"] = f"{metadata['name']}-{namespace}"
    moved = {**document, "metadata": metadata}
    if "subjects" in document:
        moved["subjects"] = [
            {**subject, "name": account, "namespace": namespace} for subject in document["subjects"]
        ]
    return moved


async def _apply(client: Client, document: dict[str, Any]) -> None:
    metadata = document["metadata"]
    path = _PATHS[document["apiVersion"], document["kind"]].format(namespace=metadata.get("namespace", ""))
    query = [("fieldManager", "fairway-deploy"), ("force", "true")]
    await client.request(
        "PATCH",
        f"{path}/{metadata['name']}",
        query=query,
        body=document,
        content_type=Patch.APPLY.value,
        repeatable=True,
    )


async def _token(client: Client, *, account: str, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    response = await client.request("POST", path, body={"spec": {"expirationSeconds": TOKEN_SECONDS}})
    token: str = msgspec.json.decode(response.body)["status"]["token"]
    return token


async def _granted(client: Client, role: dict[str, Any]) -> None:
    """Wait until the hub applies the rights: a real one watches roles and bindings."""
    rule = role["rules"][0]
    resource, _, subresource = rule["resources"][0].partition("/")
    attributes = {
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "verb": rule["verbs"][0],
        "namespace": role["metadata"].get("namespace", ""),
        "name": next(iter(rule.get("resourceNames", ())), ""),
    }
    body = {"spec": {"resourceAttributes": attributes}}
    while True:
        response = await client.request("POST", _REVIEWS, body=body)
        if msgspec.json.decode(response.body)["status"].get("allowed"):
            return
        await asyncio.sleep(POLL)
