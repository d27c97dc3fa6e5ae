"""Secrets do not appear in logs, audit, metrics, health endpoints, error messages or readable files."""

import asyncio
import base64
import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.hub_process import served
from kubehub.serving import audit
from kubehub.serving.nonresource import WITHHELD
from kubehub.storage.store import Store
from kubehub.writing.writer import Writer
from security.credentials import request_for
from security.hubs import TOKENS, started, target_of, write_tokens
from security.wire import ADMIN, ALICE, Hub, ask, request, send

WORD = "correct-horse-battery-staple"
CODED = base64.b64encode(WORD.encode()).decode()
SECRETS = "/api/v1/namespaces/default/secrets"
REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


class Heard(logging.Handler):
    """Collects all log messages of all levels, with their exceptions."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, root = Heard(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.setLevel(before)
    root.removeHandler(handler)


@pytest.fixture
def attentive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard) -> Iterator[Hub]:
    """A hub that flushes its audit log after each entry, with its log messages."""
    monkeypatch.setattr(audit, "FLUSH_SECONDS", 0.01)
    with started(tmp_path) as hub:
        yield hub


def audited(hub: Hub) -> list[dict[str, Any]]:
    path = hub.folder.parent / "audit.log"
    *lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]  # the last line may be incomplete
    return [json.loads(line) for line in lines]


async def audited_until(hub: Hub, agent: str) -> list[dict[str, Any]]:
    """Wait until the audit log has the last request of this user agent."""
    await ask(hub, "GET", "/api", headers=[f"User-Agent: {agent}"])
    while not any(line["userAgent"] == agent for line in audited(hub)):
        await asyncio.sleep(0.01)
    return audited(hub)


async def send_secrets(hub: Hub) -> list[str]:
    """Send valid and invalid requests that contain secrets, and return the secret values."""
    while (await ask(hub, "GET", ACCOUNT)).code != 200:
        pass  # the hub serves before it has created all accounts
    account_token = await ask(
        hub, "POST", f"{ACCOUNT}/token", body={"spec": {"audiences": [f"https://{WORD}"]}}
    )
    assert account_token.code == 201
    token = str(account_token.document["status"]["token"])
    plain = {"metadata": {"name": "s"}, "stringData": {"word": WORD}}
    for method, target, body in (
        ("POST", SECRETS, plain),
        ("POST", SECRETS, plain),
        ("POST", SECRETS, {"metadata": {"name": "S!"}, "stringData": {"word": WORD}}),
        ("POST", SECRETS, {"metadata": {"name": "t"}, "data": {"word": f"*{WORD}*"}}),
        ("POST", SECRETS, {"metadata": {"name": "t"}, "data": {"word": [WORD]}}),
        ("POST", SECRETS, {"metadata": {"name": "t"}, "type": "kubernetes.io/tls", "data": {"w": CODED}}),
        ("POST", f"{SECRETS}?fieldValidation=Strict", {**plain, WORD: 1}),
        ("PUT", f"{SECRETS}/s", {**plain, "type": WORD}),
        ("GET", f"{SECRETS}/s", None),
        ("GET", SECRETS, None),
        ("POST", REVIEW, {"spec": {"token": token}}),
        ("POST", REVIEW, {"spec": {"token": f"{WORD}.{WORD}.{WORD}"}}),
        ("POST", REVIEW, {"spec": {"token": TOKENS[ALICE]}}),
        (
            "POST",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            {"metadata": {"name": "c"}, "spec": {"request": request_for("x", "y"), "signerName": WORD}},
        ),
        ("DELETE", f"{SECRETS}/s", {"preconditions": {"uid": WORD}}),
    ):
        await ask(hub, method, target, body=body)
    for header in (
        f"Authorization: Bearer {WORD}",
        f"Authorization: Basic {CODED}",
        f"Authorization: Bearer {token}x",
        f"Authorization: Bearer {WORD}\x01",
    ):
        await send(hub, request("GET", "/api", headers=[header]))
    await send(hub, b"GET /api HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + WORD.encode() + b"\n\n\r\n")
    return [WORD, CODED, token, *token.split(".")[1:], *TOKENS.values()]


async def test_audit_log_has_policy_annotations(attentive: Hub) -> None:
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    ]
    base = "/apis/admissionregistration.k8s.io/v1/validatingadmission"
    policy = {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "false", "message": "seen"}],
        "auditAnnotations": [{"key": "size", "valueExpression": "string(size(object.data))"}],
    }
    binding = {"policyName": "note", "validationActions": ["Audit"]}
    for path, spec in (("policies", policy), ("policybindings", binding)):
        body = {"metadata": {"name": "note"}, "spec": spec}
        assert (await ask(attentive, "POST", f"{base}{path}", body=body)).code == 201
    body = {"metadata": {"name": "a"}, "data": {"word": WORD}}
    assert (await ask(attentive, "POST", "/api/v1/namespaces/default/configmaps", body=body)).code == 201
    noted = [line["annotations"] for line in await audited_until(attentive, "a") if "annotations" in line]
    failure = '[{"message":"seen","policy":"note","binding":"note","expressionIndex":0,"validationActions":["Audit"]}]'
    assert noted == [{"note/size": "1", "validation.policy.admission.k8s.io/validation_failure": failure}]


async def test_secrets_are_not_logged(attentive: Hub, heard: Heard) -> None:
    hidden = await send_secrets(attentive)
    lines = await audited_until(attentive, "the-end")
    assert len(lines) > 15
    everything = heard.text + json.dumps(lines)
    metrics = await ask(attentive, "GET", "/metrics")
    health = await ask(attentive, "GET", "/readyz?verbose")
    for text in (everything, metrics.body.decode(), health.body.decode()):
        assert [word for word in hidden if word in text] == []


async def test_secrets_are_not_logged_when_the_hub_fails(
    attentive: Hub, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **parts: object) -> None:
        raise LookupError(f"{WORD} {parts}")

    monkeypatch.setattr(Writer, "create", fail)
    answer = await ask(
        attentive, "POST", SECRETS, body={"metadata": {"name": "s"}, "stringData": {"word": WORD}}
    )
    assert (answer.code, answer.document["reason"]) == (500, "InternalError")
    assert WORD not in answer.message
    # The log has the location and the type of the failure, but not its message.
    line = next(line for line in heard.lines if answer.headers["audit-id"] in line)
    assert "LookupError" in line
    assert "in fail" in line
    assert WORD not in heard.text
    lines = await audited_until(attentive, "the-end")
    assert next(line for line in lines if line["auditID"] == answer.headers["audit-id"])
    assert WORD not in json.dumps(lines)


async def test_secrets_are_not_logged_by_the_command(tmp_path: Path) -> None:
    data, tokens = tmp_path / "data", write_tokens(tmp_path)
    with served(tmp_path, "--data", data, "--token-file", tokens, "--no-crds", "--verbose") as hub:
        target = target_of(hub.url, authority=data / "pki" / "ca.crt", data=data)
        hidden = await send_secrets(target)
        hub.stop()
        logs = hub.errors.read_text() + (data / "audit.log").read_text()
    assert [word for word in hidden if word in logs] == []


async def test_rejections_do_not_quote_secret_values(hub: Hub, namespace: str) -> None:
    """An error about one key of a Secret does not disclose the values of others."""
    target = f"/api/v1/namespaces/{namespace}/secrets"
    for body in (
        {"metadata": {"name": "s"}, "data": {"good": CODED, "bad!": CODED}},
        {"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "data": {"w": CODED}},
        {"metadata": {"name": "S!"}, "data": {"w": CODED}, "stringData": {"v": WORD}},
    ):
        answer = await ask(hub, "POST", target, body=body)
        assert answer.code == 422
        assert CODED not in answer.message
        assert WORD not in answer.message


# The audit log


@pytest.mark.parametrize(
    "agent",
    ["\xff\xfe", "x\xffy", "{forged}", "a" * 20_000, "\\n\\u000a"],
    ids=["bytes", "mixed", "json", "long", "escapes"],
)
async def test_every_request_is_audited(attentive: Hub, agent: str) -> None:
    forged = json.dumps({"kind": "Event", "verb": "forged", "user": {"username": "innocent"}})
    sent = request(
        "POST",
        "/api/v1/namespaces/default/configmaps?fieldManager=%0a" + "%0d%0a{forged}",
        token=attentive.tokens[ADMIN],
        body={"metadata": {"name": "x"}},
    )
    line = f"User-Agent: {agent.replace('{forged}', forged)}\r\n".encode("latin-1")
    (answer,) = await send(attentive, sent.replace(b"Connection:", line + b"Connection:"))
    assert answer.code == 422  # rejected because of its field manager
    lines = await audited_until(attentive, "the-end")
    (about,) = [line for line in lines if line["auditID"] == answer.headers["audit-id"]]
    assert (about["verb"], about["user"]["username"]) == ("create", ADMIN)
    assert about["responseStatus"]["code"] == 422
    assert len(about["userAgent"]) < 2_000
    assert not any(line["verb"] == "forged" for line in lines)


async def test_path_cannot_forge_audit_lines(attentive: Hub, heard: Heard) -> None:
    for target in (
        "/api/v1/namespaces/a%0d%0a%7B%22verb%22:%22forged%22%7D/secrets",
        "/%0aERROR%20everything%20is%20lost",
    ):
        await ask(attentive, "GET", target)
    lines = await audited_until(attentive, "the-end")
    assert not any(line["verb"] == "forged" for line in lines)
    assert not any(line.startswith("ERROR everything") for line in heard.text.splitlines())


async def test_impersonation_is_audited(attentive: Hub) -> None:
    headers = ["Impersonate-User: bob", "Impersonate-Group: x", "User-Agent: actor"]
    await ask(attentive, "GET", "/api", headers=headers)
    lines = await audited_until(attentive, "the-end")
    (about,) = [line for line in lines if line["userAgent"] == "actor"]
    assert about["user"]["username"] == ADMIN
    assert about["impersonatedUser"]["username"] == "bob"


# Metrics and health


def labelled(text: str) -> set[str]:
    return {
        line.rpartition(" ")[0] for line in text.splitlines() if line.startswith("apiserver_request_total")
    }


async def test_invented_names_create_no_metric_series(embedded: Hub) -> None:
    """Names that clients invent must not accumulate as metric labels."""

    async def everything() -> set[str]:
        return labelled((await ask(embedded, "GET", "/metrics")).body.decode())

    targets = [
        "/api/v1/namespaces/default/pods/x/{}",
        "/api/v1/namespaces/default/{}",
        "/api/v1/namespaces/{}/pods",
        "/apis/{}/v1/things",
        "/apis/apps/{}/deployments",
        "/{}",
        "/api/v1/{}/{}/{}",
    ]

    async def ask_all(invented: str) -> None:
        for user in ("", ADMIN):
            for method in ("GET", "POST", "OPTIONS", "PROPFIND"):
                for target in targets:
                    await ask(embedded, method, target.replace("{}", invented), user=user)

    await ask_all("first")
    await everything()
    before = await everything()
    assert not any("first" in line for line in before)
    await ask_all("second")
    assert await everything() == before


async def test_readiness_details_are_hidden_from_anonymous_users(
    attentive: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "read_only", f"{attentive.folder}/hub.db: disk I/O error")
    for user, message in (("", WITHHELD), (ADMIN, "disk I/O error")):
        answer = await ask(attentive, "GET", "/readyz", user=user)
        assert answer.code == 503
        assert message in answer.body.decode()
        assert (str(attentive.folder) in answer.body.decode()) == (user == ADMIN)


# Files


async def test_data_files_are_private(attentive: Hub) -> None:
    await audited_until(attentive, "the-end")
    data = attentive.folder.parent
    assert {path.name for path in data.iterdir()} >= {"hub.db", "audit.log", "pki"}
    for path in (data, *data.rglob("*"), data.parent / "kubeconfig"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert (path, mode & 0o077) == (path, 0)


async def test_data_files_are_private_in_a_shared_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o777)
    with started(tmp_path) as hub:
        await ask(hub, "POST", SECRETS, body={"metadata": {"name": "s"}, "stringData": {"w": WORD}})
        for path in data.rglob("*"):
            if path.is_file():
                assert (path, stat.S_IMODE(path.stat().st_mode)) == (path, 0o600)
    for path in data.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
