"""The official Python client and who may do what: reviews, tokens, roles, certificates."""

import base64
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from clients.conftest import Suite
from clients.official import MERGE, client, config_map, watch
from clients.refusals import refused, status

DEADLINE = 120
RBAC = "rbac.authorization.k8s.io"
Login = Callable[..., Any]


@pytest.fixture
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


@pytest.fixture
def roles(api: Any) -> Any:
    return client.RbacAuthorizationV1Api(api)


@pytest.fixture
def login(hub: Suite) -> Iterator[Login]:
    """Clients with credentials of their own, closed in the end."""
    made: list[Any] = []

    def enter(*, token: str = "", certificate: Path | None = None, key: Path | None = None) -> Any:
        configuration = client.Configuration(host=hub.url)
        configuration.ssl_ca_cert = str(hub.authority)
        if token:
            configuration.api_key = {"authorization": f"Bearer {token}"}
        if certificate:
            configuration.cert_file, configuration.key_file = str(certificate), str(key)
        made.append(client.ApiClient(configuration))
        return made[-1]

    yield enter
    for each in made:
        each.close()


def account(core: Any, namespace: str, name: str, **more: Any) -> str:
    """A service account's token, made for it on request."""
    core.create_namespaced_service_account(
        namespace, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name=name))
    )
    return str(issued(core, namespace, name, **more).status.token)


def issued(core: Any, namespace: str, name: str, **spec: Any) -> Any:
    body = client.AuthenticationV1TokenRequest(
        spec=client.V1TokenRequestSpec(**{"audiences": [], "expiration_seconds": 3600, **spec})
    )
    return core.create_namespaced_service_account_token(name, namespace, body)


def forbidden(user: str, verb: str, resource: str, namespace: str, *, name: str = "", group: str = "") -> Any:
    full = f"{resource}.{group}" if group else resource
    about = f'{full} "{name}"' if name else full
    message = (
        f'{about} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{group}" '
        f'in the namespace "{namespace}"'
    )
    details = {"name": name} if name else {}
    return status(403, "Forbidden", message, **details, **({"group": group} if group else {}), kind=resource)


def test_self_subject_review(api: Any) -> None:
    who = client.AuthenticationV1Api(api).create_self_subject_review({}).status.user_info
    assert "system:masters" in who.groups
    assert "system:authenticated" in who.groups


def test_self_subject_access_review(api: Any, room: str) -> None:
    reviews = client.AuthorizationV1Api(api)
    asked = {"resourceAttributes": {"verb": "create", "resource": "secrets", "namespace": room}}
    assert reviews.create_self_subject_access_review({"spec": asked}).status.allowed
    found = reviews.create_subject_access_review({"spec": {**asked, "user": "nobody"}}).status
    assert (found.allowed, found.denied, found.reason) == (False, None, None)


def test_a_requested_token_works(core: Any, api: Any, login: Login, room: str) -> None:
    token = account(core, room, "sailor")
    who = client.AuthenticationV1Api(login(token=token)).create_self_subject_review({})
    user = who.status.user_info
    assert user.username == f"system:serviceaccount:{room}:sailor"
    assert user.groups == [
        "system:serviceaccounts",
        f"system:serviceaccounts:{room}",
        "system:authenticated",
    ]
    review = client.AuthenticationV1Api(api).create_token_review({"spec": {"token": token}})
    assert review.status.authenticated
    assert review.status.user.username == user.username
    assert review.status.user.uid == core.read_namespaced_service_account("sailor", room).metadata.uid
    assert review.status.audiences == ["https://kubernetes.default.svc.cluster.local"]


def once_unknown(authentication: Any, token: str) -> Any:
    """A real hub learns of an account's end a moment later, and remembers for seconds who a token was for."""
    ends = time.monotonic() + DEADLINE
    while True:
        review = authentication.create_token_review({"spec": {"token": token}})
        if not review.status.authenticated or time.monotonic() > ends:
            return review


def test_a_token_is_refused_once_its_account_is_gone(core: Any, api: Any, login: Login, room: str) -> None:
    token = account(core, room, "sailor")
    core.delete_namespaced_service_account("sailor", room)
    review = once_unknown(client.AuthenticationV1Api(api), token)
    assert review.status.authenticated is None
    assert review.status.error
    with refused(status(401, "Unauthorized", "Unauthorized")):
        client.CoreV1Api(login(token=token)).list_namespaced_config_map(room)


def test_a_token_that_is_none(login: Login, room: str) -> None:
    with refused(status(401, "Unauthorized", "Unauthorized")):
        client.CoreV1Api(login(token="nonsense")).list_namespaced_config_map(room)


def test_a_token_for_others(core: Any, api: Any, login: Login, room: str) -> None:
    token = account(core, room, "sailor", audiences=["harbour"])
    with refused(status(401, "Unauthorized", "Unauthorized")):
        client.CoreV1Api(login(token=token)).list_namespaced_config_map(room)
    review = client.AuthenticationV1Api(api).create_token_review(
        {"spec": {"token": token, "audiences": ["harbour", "lighthouse"]}}
    )
    assert (review.status.authenticated, review.status.audiences) == (True, ["harbour"])


def grant(roles: Any, namespace: str, name: str, *, group: str, resource: str, verbs: list[str]) -> None:
    """To the service account ``sailor``."""
    rule = client.V1PolicyRule(api_groups=[group], resources=[resource], verbs=verbs)
    metadata = client.V1ObjectMeta(name=name)
    roles.create_namespaced_role(namespace, client.V1Role(metadata=metadata, rules=[rule]))
    binding = client.V1RoleBinding(
        metadata=metadata,
        role_ref=client.V1RoleRef(api_group=RBAC, kind="Role", name=name),
        subjects=[client.RbacV1Subject(kind="ServiceAccount", name="sailor", namespace=namespace)],
    )
    roles.create_namespaced_role_binding(namespace, binding)


def test_what_a_role_allows(core: Any, roles: Any, login: Login, room: str) -> None:
    token = account(core, room, "sailor")
    user = f"system:serviceaccount:{room}:sailor"
    sailor = client.CoreV1Api(login(token=token))
    core.create_namespaced_config_map(room, config_map("chart", sea="north"))
    with refused(forbidden(user, "get", "configmaps", room, name="chart")):
        sailor.read_namespaced_config_map("chart", room)
    grant(roles, room, "reader", group="", resource="configmaps", verbs=["get", "list", "watch"])
    found = eventually(lambda: sailor.read_namespaced_config_map("chart", room))
    assert found.data == {"sea": "north"}
    with refused(forbidden(user, "delete", "configmaps", room, name="chart")):
        sailor.delete_namespaced_config_map("chart", room)
    with refused(forbidden(user, "create", "configmaps", room)):
        sailor.create_namespaced_config_map(room, config_map("other"))
    reviews = client.AuthorizationV1Api(login(token=token))
    asked = {"resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": room}}
    answer = reviews.create_self_subject_access_review({"spec": asked}).status
    assert answer.allowed
    assert answer.reason == (
        f'RBAC: allowed by RoleBinding "reader/{room}" of Role "reader" to ServiceAccount "sailor/{room}"'
    )


def eventually(act: Callable[[], Any]) -> Any:
    """A real hub learns of new rights a moment later, from a watch of its own."""
    ends = time.monotonic() + DEADLINE
    while True:
        try:
            return act()
        except client.ApiException as error:
            if error.status != 403 or time.monotonic() > ends:
                raise


def test_rights_do_not_grow(core: Any, roles: Any, login: Login, room: str) -> None:
    """Whoever may write roles can't give what they haven't got."""
    token = account(core, room, "sailor")
    user = f"system:serviceaccount:{room}:sailor"
    grant(roles, room, "notary", group=RBAC, resource="roles", verbs=["list", "create"])
    theirs = client.RbacAuthorizationV1Api(login(token=token))
    eventually(lambda: theirs.list_namespaced_role(room))
    rule = client.V1PolicyRule(api_groups=["clients.fairway.dev"], resources=["boats"], verbs=["sink"])
    role = client.V1Role(metadata=client.V1ObjectMeta(name="pirate"), rules=[rule])
    message = (
        f'roles.rbac.authorization.k8s.io "pirate" is forbidden: user "{user}" '
        f'(groups=["system:serviceaccounts" "system:serviceaccounts:{room}" "system:authenticated"]) is attempting to '
        "grant RBAC permissions not currently held:\n"
        '{APIGroups:["clients.fairway.dev"], Resources:["boats"], Verbs:["sink"]}'
    )
    details = {"name": "pirate", "group": RBAC, "kind": "roles"}
    with refused(status(403, "Forbidden", message, **details)):
        theirs.create_namespaced_role(room, role)


def test_a_token_kept_in_a_secret(core: Any, login: Login, room: str) -> None:
    core.create_namespaced_service_account(
        room, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="sailor"))
    )
    secret = client.V1Secret(
        metadata=client.V1ObjectMeta(
            name="sailor", annotations={"kubernetes.io/service-account.name": "sailor"}
        ),
        type="kubernetes.io/service-account-token",
    )
    core.create_namespaced_secret(room, secret)
    watcher = watch.Watch()
    token = ""
    for event in watcher.stream(
        core.list_namespaced_secret, room, field_selector="metadata.name=sailor", timeout_seconds=DEADLINE
    ):
        data = event["raw_object"].get("data") or {}
        if "token" in data:
            token = base64.b64decode(data["token"]).decode()
            assert base64.b64decode(data["namespace"]).decode() == room
            assert "BEGIN CERTIFICATE" in base64.b64decode(data["ca.crt"]).decode()
            watcher.stop()
    who = client.AuthenticationV1Api(login(token=token)).create_self_subject_review({})
    assert who.status.user_info.username == f"system:serviceaccount:{room}:sailor"


def test_a_certificate_on_request(api: Any, login: Login, tmp_path: Path, namespace: str) -> None:
    """Requested, approved, signed, and then good for a client."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "captain"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "bridge"),
        ]
    )
    asked = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    requests = client.CertificatesV1Api(api)
    encoded = base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode()
    made = requests.create_certificate_signing_request(
        client.V1CertificateSigningRequest(
            metadata=client.V1ObjectMeta(name=namespace),
            spec=client.V1CertificateSigningRequestSpec(
                request=encoded,
                signer_name="kubernetes.io/kube-apiserver-client",
                usages=["client auth"],
                expiration_seconds=3600,
            ),
        )
    )
    assert "system:masters" in made.spec.groups
    condition = {"type": "Approved", "status": "True", "reason": "Suite", "message": "aye"}
    requests.patch_certificate_signing_request_approval(
        namespace, {"status": {"conditions": [condition]}}, _content_type=MERGE
    )
    watcher, certificate = watch.Watch(), tmp_path / "captain.crt"
    for event in watcher.stream(
        requests.list_certificate_signing_request,
        field_selector=f"metadata.name={namespace}",
        timeout_seconds=DEADLINE,
    ):
        if signed := event["raw_object"].get("status", {}).get("certificate"):
            certificate.write_bytes(base64.b64decode(signed))
            watcher.stop()
    keyfile = tmp_path / "captain.key"
    keyfile.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    captain = client.AuthenticationV1Api(login(certificate=certificate, key=keyfile))
    user = captain.create_self_subject_review({}).status.user_info
    assert (user.username, user.groups) == ("captain", ["bridge", "system:authenticated"])
