"""`fairway join token`: an identity on the hub that may introduce clusters and nothing else, as OCM's has it."""

import base64
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.client.session import HubChoice, hub_options, talk
from fairway.cli.join.options import TOKEN_VARIABLE
from fairway.cli.output import OutputFormat, emit, output_option, say

if TYPE_CHECKING:
    from fairway.kube import Client

RBAC: Final = "rbac.authorization.k8s.io"
PLACEHOLDER: Final = "CLUSTER"
HOURS: Final = 24

VALID: Final = "The token is valid until {ends}. To join a cluster, run where its kubeconfig is:"
WRITTEN: Final = (
    "{file} holds the token; it is valid until {ends}. To join a cluster, run where its kubeconfig is:"
)
THEN: Final = "and to let it in, here:"
COULD_NOT_WRITE: Final = "{file} cannot be written ({why})"


@click.command(
    short_help="On the hub: make a token to join clusters with.",
    epilog="""\b
Examples:
  fairway join token --name c1
  fairway join token --out bootstrap.kubeconfig
  fairway join token --hours 1 -o json
""",
)
@click.option(
    "--name", default=PLACEHOLDER, metavar="NAME", help="The cluster that shall join, for the line printed."
)
@click.option(
    "--hours", type=click.IntRange(1, 8760), default=HOURS, show_default=True, help="How long it is valid."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it as a kubeconfig instead of printing it.",
)
@output_option
@hub_options
def token(name: str, hours: int, out: Path | None, output: OutputFormat, hub: HubChoice) -> None:
    """Make a token that may introduce clusters to this hub, and print the line that joins one.

    Whoever has it can ask; only `fairway accept` lets a cluster in.
    """

    async def work(client: "Client") -> dict[str, Any]:
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
    """The token is a variable of the command, not an argument, which every user of that machine could see."""
    words = ["fairway", "join", "--name", name]
    if out is not None:
        return shlex.join([*words, "--hub-bootstrap-kubeconfig", str(out)])
    words += ["--hub-server", made["server"]]
    if made["certificateAuthority"]:
        words += ["--hub-ca-data", made["certificateAuthority"]]
    return f"{TOKEN_VARIABLE}={shlex.quote(made['token'])} {shlex.join(words)}"


def _write(file: Path, made: dict[str, Any]) -> None:
    import msgspec

    from fairway.cli.errors import BadInputError
    from fairway.hub.authn import bootstrap_account
    from fairway.klusterlet.atomic_directory import replace_private

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


async def grant(client: "Client") -> None:
    """What is there already stays as it is: OCM makes the same."""
    from fairway.hub.authn import bootstrap_account
    from fairway.kube import AlreadyExists

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


async def bootstrap_token(client: "Client", *, seconds: int) -> dict[str, str]:
    import msgspec

    from fairway.hub.authn.bootstrap_account import ACCOUNT, NAMESPACE

    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    answer = await client.request("POST", path, body=body)
    found: dict[str, str] = msgspec.json.decode(answer.body)["status"]
    return found
