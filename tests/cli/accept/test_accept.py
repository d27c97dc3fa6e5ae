"""`fairway accept`, with the certificate requests that OCM's agents make."""

from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from msgspec import structs

from cli.live_hub import act, fill, watch
from fairway.api.cluster import CONDITION_ACCEPTED, CONDITION_AVAILABLE, ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.cli.accept.wait import DELETED, NO_HUB, NOT_AVAILABLE, NOT_JOINED, REACHED_ONE, missing_step
from fairway.cli.client.wait import NOT_DONE, WAITING, list_missing
from fairway.cli.client.wait import REACHED as WAIT_REACHED
from fairway.cli.main import run
from fairway.cli.options.wait import NOTHING_TO_WAIT_FOR, TIMEOUT_OF_NOTHING
from fairway.cli.text import cell
from fairway.controllers.acceptance.requests import (
    ADD_ON_LABEL,
    ARN_ANNOTATION,
    CLUSTER_LABEL,
    COMMON_GROUP,
    NO_REQUEST,
    OTHER_USAGES,
    SIGNERS,
    ReplacedError,
    approve,
    check_request,
    check_requests,
)
from fairway.controllers.cluster_names import GROUP_PREFIX as SUBJECT_PREFIX
from fairway.klusterlet.certificates import Subject, new_key
from fairway.klusterlet.certificates import request_for as request_for_key
from fairway.klusterlet.names import JOINED
from fairway.testing.builders import cluster
from fairway.testing.hub import HubAddress
from kubewire.client import Client, Patch
from kubewire.client.csr import APPROVED, SIGNING_REQUESTS, CertificateSigningRequest, CsrSpec

Capture = pytest.CaptureFixture[str]

BOOTSTRAP = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
BOOTSTRAP_GROUP = "system:serviceaccounts:open-cluster-management"
_KEY = ec.generate_private_key(ec.SECP256R1())


def subject(cluster: str = "c1", *, agent: str = "a1") -> tuple[str, list[str]]:
    """The subject that OCM's registration agent requests."""
    return f"{SUBJECT_PREFIX}{cluster}:{agent}", [f"{SUBJECT_PREFIX}{cluster}", COMMON_GROUP]


def request_for(common_name: str, groups: list[str]) -> bytes:
    name = x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            *([x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else []),
        ]
    )
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(_KEY, hashes.SHA256())
    return made.public_bytes(Encoding.PEM)


@dataclass(frozen=True, kw_only=True)
class PendingRequest:
    """A pending certificate request; ``user`` creates it."""

    name: str
    cluster: str = "c1"
    subject: tuple[str, list[str]] = field(default_factory=subject)
    signer: str = SIGNERS[0]
    user: str = BOOTSTRAP
    groups: tuple[str, ...] = (BOOTSTRAP_GROUP,)
    labels: dict[str, str] = field(default_factory=dict)


async def ask(client: Client, *asked: PendingRequest) -> None:
    """Create the requests as their users, because the API server records the user."""
    for request in asked:
        body = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": request.name, "labels": {CLUSTER_LABEL: request.cluster, **request.labels}},
            "spec": {
                "request": b64encode(request_for(*request.subject)).decode(),
                "signerName": request.signer,
                "usages": ["digital signature", "client auth"],
            },
        }
        headers = {"Impersonate-User": request.user}
        path = SIGNING_REQUESTS.path()
        # A header can occur once; one group is sufficient to identify an agent.
        headers["Impersonate-Group"] = request.groups[0] if request.groups else "system:authenticated"
        await client.request("POST", path, body=body, headers=headers)


ASKERS: list[dict[str, Any]] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "asks"},
        "rules": [
            {
                "apiGroups": ["certificates.k8s.io"],
                "resources": ["certificatesigningrequests"],
                "verbs": ["create"],
            }
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "asks"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "asks"},
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}
            for name in ("system:authenticated", "system:unauthenticated")
        ],
    },
]


async def allow(client: Client) -> None:
    """Let every user create certificate requests, as on hubs that clusters join."""
    for body in ASKERS:
        path = f"/apis/rbac.authorization.k8s.io/v1/{body['kind'].lower()}s"
        await client.request("POST", path, body=body)


def waiting(name: str, *, member_of: str = "default", **annotations: str) -> ManagedCluster:
    waiting_cluster = cluster(name, member_of=member_of)
    metadata = structs.replace(waiting_cluster.metadata, annotations=annotations)
    return structs.replace(
        waiting_cluster, metadata=metadata, spec=structs.replace(waiting_cluster.spec, hubAcceptsClient=False)
    )


@pytest.fixture
def hub(fairway_hub: HubAddress) -> HubAddress:
    fill(fairway_hub.kubeconfig, waiting("c1"), waiting("c2"), cluster("old"))
    act(fairway_hub.kubeconfig, allow)
    return fairway_hub


def accept(hub: HubAddress, *arguments: str) -> int:
    return run(["accept", *arguments, "--kubeconfig", str(hub.kubeconfig)])


def state(hub: HubAddress) -> tuple[set[str], set[str]]:
    """Return the accepted clusters and the approved requests."""

    async def read(client: Client) -> tuple[set[str], set[str]]:
        clusters = await client.list(MANAGED_CLUSTERS)
        requests = await client.list(SIGNING_REQUESTS)
        return (
            {item.metadata.name for item in clusters.items if item.spec.hubAcceptsClient},
            {item.metadata.name for item in requests.items if item.condition(APPROVED)},
        )

    return act(hub.kubeconfig, read)


def test_accept_accepts_the_cluster_and_approves_its_request(hub: HubAddress, capsys: Capture) -> None:
    asked = (PendingRequest(name="c1-x"), PendingRequest(name="c2-x", cluster="c2", subject=subject("c2")))
    act(hub.kubeconfig, lambda client: ask(client, *asked))
    assert accept(hub, "c1") == 0
    assert capsys.readouterr() == (
        "certificate request c1-x of cluster c1 approved\ncluster c1 accepted\n",
        "",
    )
    assert state(hub) == ({"old", "c1"}, {"c1-x"})
    # Once more changes nothing.
    assert accept(hub, "--clusters", "c1") == 0
    assert capsys.readouterr().out == (
        "certificate request c1-x of cluster c1 already approved\ncluster c1 already accepted\n"
    )
    assert accept(hub, "c1", "--clusters", "c1,c2") == 0
    assert "cluster c2 accepted\n" in capsys.readouterr().out
    assert state(hub) == ({"old", "c1", "c2"}, {"c1-x", "c2-x"})


def test_accept_dry_run_writes_nothing(hub: HubAddress, capsys: Capture) -> None:
    act(hub.kubeconfig, lambda client: ask(client, PendingRequest(name="c1-x")))
    assert accept(hub, "c1", "--dry-run") == 0
    assert capsys.readouterr().out == (
        "certificate request c1-x of cluster c1 approved (dry run)\ncluster c1 accepted (dry run)\n"
    )
    assert state(hub) == ({"old"}, set())


def test_accept_without_pending_request_says_so(hub: HubAddress, capsys: Capture) -> None:
    assert accept(hub, "c1", "old") == 0
    assert capsys.readouterr().out == (
        "cluster c1 has no pending certificate request; its agent creates one when it joins: run accept again then\n"
        "cluster c1 accepted\n"
        "cluster old already accepted\n"
    )
    fill(hub.kubeconfig, waiting("eks", **{ARN_ANNOTATION: "arn:aws:eks"}))
    assert accept(hub, "eks") == 0
    assert capsys.readouterr().out == "cluster eks accepted\n"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (
            PendingRequest(name="x", user="eve", groups=("system:authenticated",)),
            "created by eve, which is not a bootstrap identity",
        ),
        (
            PendingRequest(name="x", user=BOOTSTRAP, groups=("system:authenticated",)),
            "which is not a bootstrap identity",
        ),
        (
            PendingRequest(name="x", user="system:bootstrap:abcdef", groups=("eves",)),
            "which is not a bootstrap identity",
        ),
        (PendingRequest(name="x", user=f"{BOOTSTRAP}-evil"), "which is not a bootstrap identity"),
        (
            PendingRequest(name="x", subject=("system:kube-controller-manager", [])),
            "requested subject CN=system:kube-controller",
        ),
        (PendingRequest(name="x", subject=subject("c2")), "is not an agent of this cluster"),
        (
            PendingRequest(name="x", subject=(subject()[0], ["system:nodes"])),
            "is not an agent of this cluster",
        ),
        (
            PendingRequest(name="x", subject=(subject()[0], [*subject()[1], "system:nodes"])),
            "is not an agent of this cluster",
        ),
        (
            PendingRequest(name="x", subject=(f"{subject()[0]}:b", subject()[1])),
            "is not an agent of this cluster",
        ),
        (
            PendingRequest(name="x", subject=(f"{SUBJECT_PREFIX}c1:", subject()[1])),
            "is not an agent of this cluster",
        ),
        (PendingRequest(name="x", subject=("", subject()[1])), "is not an agent of this cluster"),
        (
            PendingRequest(name="x", signer="example.com/any"),
            "signer example.com/any does not sign for agents",
        ),
    ],
)
def test_accept_refuses_requests_that_do_not_match_their_label(
    hub: HubAddress, capsys: Capture, asked: PendingRequest, reason: str
) -> None:
    act(hub.kubeconfig, lambda client: ask(client, asked))
    assert accept(hub, "c1") == 1
    shown = capsys.readouterr().out
    assert shown.startswith("certificate request x of cluster c1 not approved: ")
    assert reason in shown
    assert state(hub) == ({"old", "c1"}, set())


def test_skip_approve_check_still_checks_the_subject(hub: HubAddress, capsys: Capture) -> None:
    fine = PendingRequest(name="fine", user="eve", groups=("system:authenticated",))
    wrong = PendingRequest(name="wrong", user="eve", groups=("system:authenticated",), subject=("admin", []))
    act(hub.kubeconfig, lambda client: ask(client, fine, wrong))
    assert accept(hub, "c1", "--skip-approve-check") == 0
    assert state(hub) == ({"old", "c1"}, {"fine"})


def test_refused_request_does_not_block_another(hub: HubAddress, capsys: Capture) -> None:
    act(
        hub.kubeconfig,
        lambda client: ask(client, PendingRequest(name="a-bad", user="eve"), PendingRequest(name="b-good")),
    )
    assert accept(hub, "c1") == 0
    assert state(hub) == ({"old", "c1"}, {"b-good"})


def test_accept_escapes_request_names(hub: HubAddress, capsys: Capture) -> None:
    """Kubernetes allows every name that is no path, and the requester chooses it."""
    name = "x\ncluster c9 is accepted\x1b[2J"
    act(hub.kubeconfig, lambda client: ask(client, PendingRequest(name=name, user="eve")))
    assert accept(hub, "c1") == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("certificate request x cluster c9 is accepted\\x1b[2J of cluster c1 not approved")
    assert accept(hub, "c1", "--skip-approve-check") == 0
    assert state(hub)[1] == {name}


def test_accept_refuses_several_agents_of_one_cluster(hub: HubAddress, capsys: Capture) -> None:
    two = (PendingRequest(name="one"), PendingRequest(name="two", subject=subject(agent="a2")))
    act(hub.kubeconfig, lambda client: ask(client, *two))
    assert accept(hub, "c1") == 1
    shown = capsys.readouterr().out
    assert shown.count(f"several agents request to join as this cluster: {SUBJECT_PREFIX}c1:a1, ") == 2
    assert state(hub)[1] == set()
    assert accept(hub, "c1", "--requesters", f"{SUBJECT_PREFIX}c1:a2") == 0
    assert f"requested for {SUBJECT_PREFIX}c1:a1, which --requesters does not name" in capsys.readouterr().out
    assert state(hub)[1] == {"two"}


def test_accept_skips_addon_and_denied_requests(hub: HubAddress, capsys: Capture) -> None:
    async def deny(client: Client) -> None:
        await ask(
            client, PendingRequest(name="denied"), PendingRequest(name="add-on", labels={ADD_ON_LABEL: "a"})
        )
        path = SIGNING_REQUESTS.path(name="denied", subresource="approval")
        condition = {"type": "Denied", "status": "True", "reason": "No", "message": "no"}
        await client.request(
            "PATCH",
            path,
            body={"status": {"conditions": [condition]}},
            content_type="application/merge-patch+json",
        )

    act(hub.kubeconfig, deny)
    assert accept(hub, "c1") == 0
    assert capsys.readouterr().out == (
        "certificate request denied of cluster c1 was denied before; not approved\ncluster c1 accepted\n"
    )
    assert state(hub)[1] == set()


def test_request_with_other_usages_is_refused() -> None:
    usages = ("client auth", "server auth")
    spec = CsrSpec(request=request_for(*subject()), signer_name=SIGNERS[0], usages=usages)
    reason = check_request(CertificateSigningRequest(spec=spec), "c1", any_requester=True).reason
    assert reason == OTHER_USAGES.format(usages="client auth, server auth")


def test_long_agent_name_in_a_request_is_accepted() -> None:
    agent = "a" * 120
    spec = CsrSpec(
        request=request_for_key(new_key(), Subject(user=subject(agent=agent)[0], groups=tuple(subject()[1]))),
        signer_name=SIGNERS[0],
        usages=("client auth",),
    )
    assert (
        check_request(CertificateSigningRequest(spec=spec), "c1", any_requester=True).agent
        == f"{SUBJECT_PREFIX}c1:{agent}"
    )


@pytest.mark.parametrize("agent", ["a\u0430", "a b", "a\x1b[2J", "a\u200b", "-a", "a" * 300])
def test_request_with_a_confusable_agent_name_is_refused(agent: str) -> None:
    wanted = Subject(user=f"{SUBJECT_PREFIX}c1:{agent}", groups=tuple(subject()[1]))
    request = request_for_key(new_key(), wanted)
    spec = CsrSpec(request=request, signer_name=SIGNERS[0], usages=("client auth",))
    checked = check_request(CertificateSigningRequest(spec=spec), "c1", any_requester=True)
    assert checked.verdict == "refuse"
    assert "\x1b" not in cell(checked.reason)


def test_two_requests_in_one_pem_are_refused() -> None:
    for first, second in ((b"", b""), (b"x", b""), (b" ", b""), (b"", b"x")):
        both = first + request_for(*subject()) + second + request_for("admin", ["admins"])
        spec = CsrSpec(request=both, signer_name=SIGNERS[0], usages=("client auth",))
        assert (
            check_request(CertificateSigningRequest(spec=spec), "c1", any_requester=True).reason == NO_REQUEST
        )


def test_replaced_request_of_the_same_name_is_not_approved(hub: HubAddress) -> None:
    async def swap(client: Client) -> None:
        await ask(client, PendingRequest(name="c1-x"))
        requests = (await client.list(SIGNING_REQUESTS)).items
        (seen,) = check_requests(requests, "c1", any_requester=False, only=frozenset())
        await client.delete(SIGNING_REQUESTS, "c1-x")
        await ask(client, PendingRequest(name="c1-x", subject=("admin", [])))
        with pytest.raises(ReplacedError, match="was replaced"):
            await approve(client, seen, dry_run=False)

    act(hub.kubeconfig, swap)
    assert state(hub)[1] == set()


@pytest.mark.parametrize("name", ["kube-system", "managed-clusters", "default", "work"])
def test_accept_refuses_reserved_cluster_names(hub: HubAddress, capsys: Capture, name: str) -> None:
    fill(hub.kubeconfig, waiting(name))
    groups = sorted({f"{SUBJECT_PREFIX}{name}", COMMON_GROUP})
    act(
        hub.kubeconfig,
        lambda client: ask(
            client, PendingRequest(name="x", cluster=name, subject=(f"{SUBJECT_PREFIX}{name}:a", groups))
        ),
    )
    assert accept(hub, name, "--skip-approve-check") == 2
    assert f"{name!r} is reserved" in capsys.readouterr().err
    assert state(hub) == ({"old"}, set())


def test_malformed_request_is_refused() -> None:
    broken = CertificateSigningRequest(
        spec=structs.replace(CertificateSigningRequest().spec, request=b"\x00", signer_name=SIGNERS[0])
    )
    assert check_request(broken, "c1", any_requester=True).reason == NO_REQUEST


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["c1", "c3"], "cluster c3 not found; known: c1, c2, old"),
        (["c1", "cc2"], "cluster cc2 not found; did you mean c2?"),
    ],
)
def test_accept_of_an_unknown_cluster_changes_nothing(
    hub: HubAddress, capsys: Capture, arguments: list[str], message: str
) -> None:
    assert accept(hub, *arguments) == 2
    shown, complaint = capsys.readouterr()
    assert (shown, complaint) == ("", f"fairway: {message}\n")
    assert state(hub) == ({"old"}, set())


def test_wrong_usage_of_accept_exits_2(capsys: Capture, tmp_path: Path) -> None:
    assert run(["accept"]) == 2
    assert "no cluster named; for example: fairway accept c1 c2" in capsys.readouterr().err
    assert run(["accept", "--clusters", ","]) == 2
    assert "--clusters: empty name" in capsys.readouterr().err


# Until the clusters exist

SINCE = "2031-05-05T12:00:00Z"
STEPS = (CONDITION_ACCEPTED, JOINED, CONDITION_AVAILABLE)


async def report(client: Client, name: str, **conditions: tuple[str, str]) -> None:
    """Write conditions of a cluster with status and message."""
    kinds = dict(zip(("accepted", "joined", "available"), STEPS, strict=True))
    written = [
        {
            "type": kinds[kind],
            "status": status,
            "reason": "Because",
            "message": message,
            "lastTransitionTime": SINCE,
        }
        for kind, (status, message) in conditions.items()
    ]
    body = {"status": {"conditions": written}}
    await client.patch(MANAGED_CLUSTERS, name, body, kind=Patch.MERGE, subresource="status")


YES = ("True", "")


def test_accept_wait_ends_at_once_for_an_available_cluster(hub: HubAddress, capsys: Capture) -> None:
    act(hub.kubeconfig, lambda client: report(client, "old", accepted=YES, joined=YES, available=YES))
    assert accept(hub, "old", "--wait") == 0
    told = capsys.readouterr()
    assert told.out == "cluster old already accepted\n"
    assert told.err == f"{WAIT_REACHED.format(what=REACHED_ONE.format(name='old'), seconds=0)}\n"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, NO_HUB),
        ({"accepted": ("False", "the namespace is somebody's")}, "Because: the namespace is somebody's"),
        ({"accepted": YES}, NOT_JOINED),
        ({"accepted": YES, "joined": YES}, NOT_AVAILABLE),
        ({"accepted": YES, "joined": YES, "available": ("Unknown", "")}, "Because"),
    ],
)
def test_accept_wait_timeout_names_what_is_missing(
    hub: HubAddress, capsys: Capture, said: dict[str, tuple[str, str]], why: str
) -> None:
    act(hub.kubeconfig, lambda client: report(client, "old", **said))
    assert accept(hub, "old", "c1", "--wait", "--timeout", "0") == 1
    told = capsys.readouterr()
    assert told.out.endswith("cluster c1 accepted\n")
    assert f"fairway: {NOT_DONE.format(seconds=0, what=f'old ({why}), c1 ({NO_HUB})')}\n" in told.err


def test_accept_wait_prints_what_is_missing(
    hub: HubAddress, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway.cli.client.wait.QUIET_SECONDS", 0.0)
    assert accept(hub, "old", "--wait", "--timeout", "1") == 1
    what = f"old ({NO_HUB})"
    assert capsys.readouterr().err.splitlines() == [
        WAITING.format(what=what),
        f"fairway: {NOT_DONE.format(seconds=1, what=what)}",
    ]


def test_accept_wait_ends_when_the_cluster_is_available(hub: HubAddress, tmp_path: Path) -> None:
    with watch(tmp_path, hub.kubeconfig, "accept", "old", "--wait", "--timeout", "600") as waiting:
        assert waiting.line() == "cluster old already accepted"
        act(hub.kubeconfig, lambda client: report(client, "old", accepted=YES))
        act(hub.kubeconfig, lambda client: report(client, "old", accepted=YES, joined=YES, available=YES))
        assert waiting.process.wait() == 0
    assert "Traceback" not in waiting.errors.read_text()


def test_accept_wait_reports_a_deleted_cluster() -> None:
    assert missing_step(None) == DELETED


def test_accept_does_not_wait_after_a_refused_request(hub: HubAddress, capsys: Capture) -> None:
    strange = PendingRequest(name="c1-x", user="mallory", groups=())
    act(hub.kubeconfig, lambda client: ask(client, strange))
    assert accept(hub, "c1", "--wait") == 1
    assert "waiting for" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--timeout", "5"), TIMEOUT_OF_NOTHING), (("--wait", "--dry-run"), NOTHING_TO_WAIT_FOR)],
)
def test_accept_timeout_without_wait_is_rejected(
    capsys: Capture, arguments: tuple[str, ...], message: str
) -> None:
    assert run(["accept", "c1", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_wait_names_only_some_of_many_missing() -> None:
    line = list_missing({f"c{number}": "a\nb" for number in range(5)})
    assert line == "c0 (a b), c1 (a b), c2 (a b), 2 more"
