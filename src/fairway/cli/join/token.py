"""`fairway join token`: a bootstrap identity on the hub, with the permissions of OCM's."""

import base64
import shlex
from pathlib import Path
from typing import Any, Final

import msgspec

from fairway.cli.client.session import talk
from fairway.cli.errors import BadInputError
from fairway.cli.files.export import require_folder
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.join import TOKEN_VARIABLE
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.text import say
from fairway.klusterlet.atomic_directory import replace_private
from kubehub.authn import bootstrap_account
from kubehub.authn.bootstrap_account import ACCOUNT, NAMESPACE
from kubewire.client import AlreadyExists, Client

RBAC: Final = "rbac.authorization.k8s.io"
VALID: Final = "The token is valid until {ends}. To join a cluster, run where its kubeconfig is:"
WRITTEN: Final = "The token in {file} is valid until {ends}. To join a cluster, run where its kubeconfig is:"
THEN: Final = "To accept it, run here:"
COULD_NOT_WRITE: Final = "cannot write {file}: {why}"


def token(name: str, hours: int, out: Path | None, output: OutputFormat, hub: HubChoice) -> None:
    if out is not None:
        require_folder(out, option="--out")

    async def work(client: Client) -> dict[str, Any]:
        await grant(client)
        made = await bootstrap_token(client, seconds=hours * 3600)
        authority = client.connection.authority
        return {
            "server": client.connection.server,
            "token": made["token"],
            "validUntil": made["expirationTimestamp"],
            "certificateAuthority": (
                base64.b64encode(authority.read()).decode() if authority is not None else ""
            ),
        }

    made = talk(hub, work)
    if out is not None:
        _write(out, made)
    made["command"] = _command(made, name=name, out=out)
    if output != "table":
        emit([made], columns={}, output=output, document=made)
        return
    text = VALID if out is None else WRITTEN
    say(text.format(file=out, ends=made["validUntil"]))
    say(f"  {made['command']}")
    say(THEN)
    say(f"  fairway accept {shlex.quote(name)}")


def _command(made: dict[str, Any], *, name: str, out: Path | None) -> str:
    """Return the join command. The token is an environment variable: arguments are visible in the process list."""
    words = ["fairway", "join", "--name", name]
    if out is not None:
        return shlex.join([*words, "--hub-bootstrap-kubeconfig", str(out)])
    words += ["--hub-server", made["server"]]
    if made["certificateAuthority"]:
        words += ["--hub-ca-data", made["certificateAuthority"]]
    return f"{TOKEN_VARIABLE}={shlex.quote(made['token'])} {shlex.join(words)}"


def _write(file: Path, made: dict[str, Any]) -> None:
    cluster: dict[str, Any] = {"server": made["server"]}
    if made["certificateAuthority"]:
        cluster["certificate-authority-data"] = made["certificateAuthority"]
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": cluster}],
        "users": [{"name": bootstrap_account.ACCOUNT, "user": {"token": made["token"]}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": bootstrap_account.ACCOUNT}}],
        "current-context": "hub",
    }
    try:
        replace_private(file, msgspec.json.format(msgspec.json.encode(document), indent=1))
    except OSError as error:
        raise BadInputError(COULD_NOT_WRITE.format(file=file, why=error.strerror)) from None


async def grant(client: Client) -> None:
    """Create the bootstrap identity and its roles. Existing ones, such as OCM's, are kept."""
    paths = {
        "namespaces": "/api/v1/namespaces",
        "serviceaccounts": f"/api/v1/namespaces/{bootstrap_account.NAMESPACE}/serviceaccounts",
        f"clusterroles.{RBAC}": f"/apis/{RBAC}/v1/clusterroles",
        f"clusterrolebindings.{RBAC}": f"/apis/{RBAC}/v1/clusterrolebindings",
    }
    wanted = [(paths[key], document) for key, document in bootstrap_account.documents()]
    for path, body in wanted:
        try:
            await client.request("POST", path, body=body)
        except AlreadyExists:
            continue


async def bootstrap_token(client: Client, *, seconds: int) -> dict[str, str]:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    answer = await client.request("POST", path, body=body)
    status: dict[str, str] = msgspec.json.decode(answer.body)["status"]
    return status
