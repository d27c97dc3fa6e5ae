"""docs/how-to/hub.md has the options, limits and files of the code."""

import re
from pathlib import Path

import click
import pytest

from fairway.cli.commands.hub import PORT, hub
from fairway.cli.hub.process import KUBECONFIG
from kubehub import controllers
from kubehub.authn.authenticator import OPEN_PATHS
from kubehub.controllers import event_expiry
from kubehub.flowcontrol import fair_queue
from kubehub.hub import NAMESPACES, PROBE_SECONDS
from kubehub.serialization import body
from kubehub.serving import audit, connection, reads
from kubehub.serving.nonresource import KUBERNETES
from kubehub.storage import lock, log, store

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "hub.md").read_text(encoding="utf-8")
KIB = 1024
MIB = 1024 * KIB


@pytest.mark.parametrize(
    "line",
    [
        f"answers as kube-apiserver {KUBERNETES.rpartition('.')[0]},",
        f"https://127.0.0.1:{PORT}",
        f"| body of a request | {body.LIMIT // MIB} MiB, {body.DEPTH} levels deep, {body.VALUES:,} values |",
        f"| connections | {connection.CONNECTIONS:,} |",
        f"| head of a request, TLS handshake | {connection.HEADER_SECONDS:g} s each |",
        f"| body of a request | {connection.BODY_SECONDS:g} s |",
        f"| idle connection | {connection.IDLE_SECONDS:g} s |",
        f"| {body.SMALL // KIB} KiB ({body.SMALL_PROTOBUF // KIB} KiB as protobuf), {body.SMALL_VALUES:,} values |",
        f"| {fair_queue.WAITING_PER_FLOW:,} of one user, {fair_queue.WAITING:,} of all; more get 429 |",
        f"{store.CHANGES_KEPT:,} changes or {store.BYTES_KEPT // MIB} MiB, whichever is less |",
        f"between {reads.LONGEST_WATCH // 120} and {reads.LONGEST_WATCH // 60} minutes |",
        f"| audit log | {audit.ROTATE_BYTES // MIB} MiB a file, {['no', 'one', 'two', 'three'][audit.KEPT]} older",
        f"| `{log.FILE}`, ",
        f"| `{lock.FILE}` |",
        f"| `{KUBECONFIG}` |",
    ],
)
def test_hub_page_contains_line(line: str) -> None:
    assert line in PAGE


def test_hub_page_has_the_limits_of_the_code() -> None:
    assert connection.HEADER_SECONDS == connection.HANDSHAKE_SECONDS
    assert ("tries again every two seconds" in PAGE, PROBE_SECONDS) == (True, 2.0)
    assert ("Events are deleted an hour after" in PAGE, event_expiry.LIFETIME) == (True, 3600.0)
    assert ("the four default namespaces" in PAGE, len(NAMESPACES)) == (True, 4)
    for path in OPEN_PATHS:
        assert f"`{path.rstrip('/')}`" in PAGE


def test_options_on_the_hub_page_exist() -> None:
    commands: list[click.Command] = [hub, *hub.commands.values()]
    known = {
        name
        for command in commands
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
    }
    theirs = {"--kubeconfig", "--config", "--manage-all-nodes", "--server-side", "--subresource", "--for"}
    theirs |= {"--root-ca-file", "--service-account-private-key-file", "--force-conflicts", "--help"}
    theirs |= {"--cluster-signing-cert-file", "--cluster-signing-key-file"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) - theirs <= known
    assert set(re.findall(r"--without ([a-z-]+)", PAGE)) <= controllers.ALL
