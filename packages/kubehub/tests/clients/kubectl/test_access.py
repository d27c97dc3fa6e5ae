"""Identity, permissions and certificates with kubectl."""

import asyncio
import base64
import dataclasses

import pytest
import yaml
from clients.kubectl.shell import Shell, page
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@pytest.fixture
async def reader(shell: Shell) -> Shell:
    """Jo may read pods here, nothing more."""
    await shell("create role reader --verb=get,list --resource=pods")
    await shell("create rolebinding reading --role=reader --user=jo --serviceaccount=default:pilot")
    await shell.granted("list pods --as=jo")
    return shell


async def test_kubectl_auth_can_i_answers_with_output_and_exit_status(reader: Shell) -> None:
    questions = {
        "list pods --as=jo": ("yes\n", 0),
        "get pods/anna --as=jo": ("yes\n", 0),
        "delete pods --as=jo": ("no\n", 1),
        "get pods --subresource=log --as=jo": ("no\n", 1),
        "list pods --as=jo -A": ("no\n", 1),
        "list pods --as=jo -n default": ("no\n", 1),
        "get ships --as=jo": ("no\n", 1),
        "get pods --as=system:serviceaccount:default:pilot": ("yes\n", 0),
        "get pods --as=kim": ("no\n", 1),
        "get pods --as=kim --as-group=system:masters": ("yes\n", 0),
        "get /version --as=jo": ("yes\n", 0),
        "get /lighthouse --as=jo": ("no\n", 1),
        "'*' '*'": ("yes\n", 0),
        "get pods -q --as=jo": ("", 0),
        "delete pods -q --as=jo": ("", 1),
    }
    shown = await asyncio.gather(*(reader.run(f"auth can-i {question}") for question in questions))
    assert {q: (s.output, s.status) for q, s in zip(questions, shown, strict=True)} == questions


async def test_kubectl_auth_can_i_lists_all_rights(reader: Shell) -> None:
    assert await reader("auth can-i --list --as=jo") == page("""
        Resources                                       Non-Resource URLs   Resource Names   Verbs
        selfsubjectreviews.authentication.k8s.io        []                  []               [create]
        selfsubjectaccessreviews.authorization.k8s.io   []                  []               [create]
        selfsubjectrulesreviews.authorization.k8s.io    []                  []               [create]
        pods                                            []                  []               [get list]
                                                        [/api/*]            []               [get]
                                                        [/api]              []               [get]
                                                        [/apis/*]           []               [get]
                                                        [/apis]             []               [get]
                                                        [/healthz]          []               [get]
                                                        [/healthz]          []               [get]
                                                        [/livez]            []               [get]
                                                        [/livez]            []               [get]
                                                        [/openapi/*]        []               [get]
                                                        [/openapi]          []               [get]
                                                        [/readyz]           []               [get]
                                                        [/readyz]           []               [get]
                                                        [/version/]         []               [get]
                                                        [/version/]         []               [get]
                                                        [/version]          []               [get]
                                                        [/version]          []               [get]
    """)


async def test_kubectl_auth_reconcile_updates_roles(shell: Shell) -> None:
    role = f"""
        apiVersion: rbac.authorization.k8s.io/v1
        kind: Role
        metadata: {{name: reader, namespace: {shell.namespace}}}
        rules:
          - apiGroups: [""]
            resources: [pods]
            verbs: [get, list]
    """
    shell.write("role.yaml", role)
    await shell("create role reader --verb=get --resource=pods")
    shown = await shell.run("auth reconcile -f role.yaml")
    assert (shown.status, shown.output) == (0, "role.rbac.authorization.k8s.io/reader reconciled\n")
    assert shown.errors.replace("\t", " ") == (
        " reconciliation required update\n"
        " missing rules added:\n"
        "  {Verbs:[list] APIGroups:[] Resources:[pods] ResourceNames:[] NonResourceURLs:[]}\n"
    )
    assert await shell("get role reader -o jsonpath='{.rules[*].verbs}'") == '["get"] ["list"]'


async def test_kubectl_whoami_shows_user_and_groups(shell: Shell) -> None:
    assert await shell("auth whoami --as=jo --as-group=crew --as-group=cooks --as-uid=7") == page("""
        ATTRIBUTE   VALUE
        Username    jo
        UID         7
        Groups      [crew cooks system:authenticated]
    """)


async def test_service_account_token_authenticates_kubectl(shell: Shell) -> None:
    await shell("create serviceaccount pilot")
    await shell("create configmap chart")
    await shell("create role reader --verb=get --resource=configmaps")
    await shell(f"create rolebinding reading --role=reader --serviceaccount={shell.namespace}:pilot")
    await shell.granted(f"get configmaps --as=system:serviceaccount:{shell.namespace}:pilot")
    pilot = as_user(shell, token=(await shell("create token pilot")).strip())
    assert await pilot("get configmap chart -o name") == "configmap/chart\n"
    assert await pilot("auth whoami -o jsonpath='{.status.userInfo.username} {.status.userInfo.groups}'") == (
        "system:serviceaccount:suite-of-tests:pilot"
        ' ["system:serviceaccounts","system:serviceaccounts:suite-of-tests","system:authenticated"]'
    )


async def test_kubectl_with_a_wrong_token_is_rejected(shell: Shell) -> None:
    stranger = as_user(shell, token="made-up")
    assert await stranger.refused("get configmaps") == (
        "error: You must be logged in to the server (Unauthorized)\n"
    )


async def test_approved_csr_yields_a_usable_certificate(shell: Shell) -> None:
    name, key = f"{shell.namespace}-kim", ec.generate_private_key(ec.SECP256R1())
    assert await shell("create -f - --as=jo --as-group=system:masters", given=request(name, key)) == (
        "certificatesigningrequest.certificates.k8s.io/suite-of-tests-kim created\n"
    )
    assert await shell(f"get csr {name}") == page("""
        NAME                 AGE   SIGNERNAME                            REQUESTOR   REQUESTEDDURATION   CONDITION
        suite-of-tests-kim   0s    kubernetes.io/kube-apiserver-client   jo          60m                 Pending
    """)
    assert await shell(f"certificate approve {name}") == (
        "certificatesigningrequest.certificates.k8s.io/suite-of-tests-kim approved\n"
    )
    assert await shell(f"wait csr/{name} --for=jsonpath='{{.status.certificate}}' --timeout=100s") == (
        "certificatesigningrequest.certificates.k8s.io/suite-of-tests-kim condition met\n"
    )
    assert await shell(f"get csr {name} --no-headers -o custom-columns=C:.status.conditions[*].reason") == (
        "KubectlApprove\n"
    )
    assert (await shell(f"get csr {name} --no-headers")).split()[-1] == "Approved,Issued"
    assert await shell.refused(f"certificate deny {name}") == (
        'error: certificate signing request "suite-of-tests-kim" is already Approved\n'
    )

    issued = await shell.exactly(f"get csr {name} -o jsonpath='{{.status.certificate}}'")
    certificate = x509.load_pem_x509_certificate(base64.b64decode(issued))
    assert certificate.subject.rfc4514_string() == "CN=kim,O=crew"
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert (
        3600 <= lifetime.total_seconds() <= 3600 + 5 * 60
    )  # from a little before, for clocks that are behind

    kim = as_user(shell, **{"client-certificate-data": issued, "client-key-data": pem(key)})
    assert await kim("auth whoami -o jsonpath='{.status.userInfo.username} {.status.userInfo.groups}'") == (
        'kim ["crew","system:authenticated"]'
    )
    await shell("create role reader --verb=list --resource=configmaps")
    await shell("create rolebinding reading --role=reader --group=crew")
    await shell.granted("list configmaps --as=kim --as-group=crew")
    assert await kim("auth can-i list configmaps") == "yes\n"
    await shell(f"delete csr {name}")


async def test_csr_of_another_signer_stays_unsigned(shell: Shell) -> None:
    name, key = f"{shell.namespace}-kim", ec.generate_private_key(ec.SECP256R1())
    await shell("create -f -", given=request(name, key, signer="suite.fairway.dev/harbour"))
    await shell(f"certificate approve {name}")
    assert await shell.in_vain(f"wait csr/{name} --for=jsonpath='{{.status.certificate}}'") == (
        "error: timed out waiting for the condition on certificatesigningrequests/suite-of-tests-kim\n"
    )
    await shell(f"delete csr {name}")


def request(
    name: str, key: ec.EllipticCurvePrivateKey, *, signer: str = "kubernetes.io/kube-apiserver-client"
) -> str:
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "crew"),
        x509.NameAttribute(NameOID.COMMON_NAME, "kim"),
    ]
    signed = (
        x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject)).sign(key, hashes.SHA256())
    )
    encoded = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
    return f"""
        apiVersion: certificates.k8s.io/v1
        kind: CertificateSigningRequest
        metadata: {{name: {name}}}
        spec:
          request: {encoded}
          signerName: {signer}
          usages: [client auth]
          expirationSeconds: 3600
    """


def pem(key: ec.EllipticCurvePrivateKey) -> str:
    return base64.b64encode(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    ).decode()


def as_user(shell: Shell, **user: str) -> Shell:
    """The same place, but with other credentials."""
    config = yaml.safe_load(shell.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = user
    kubeconfig = shell.kubeconfig.with_name("another.kubeconfig")
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    return dataclasses.replace(shell, kubeconfig=kubeconfig)
