"""Validation of CertificateSigningRequests: content, changes, and permission to approve and sign.

The main resource, its approval and its status are written by different users, so each has its own rules.
``subresource`` is empty, ``approval`` or ``status``.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from cryptography import x509

from kubehub import status
from kubehub.csr.signing import CLIENT, NOT_MASTERS, USAGES, RequestFault, decode, organizations, parse
from kubehub.rbac.authorizer import Attributes, Authorizer
from kubehub.resource import Document
from kubehub.user import MASTERS, User
from kubewire.api import naming
from kubewire.api.csr import pem_blocks
from kubewire.api.meta import format_time
from kubewire.api.selector import quote

GROUP: Final = "certificates.k8s.io"
RESOURCE: Final = "certificatesigningrequests"
LEGACY: Final = "kubernetes.io/legacy-unknown"

LEGACY_REFUSED: Final = "the legacy signerName is not allowed via this API version"
SHORT: Final = "may not specify a duration less than 600 seconds (10 minutes)"
NOT_APPROVER: Final = "user not permitted to approve requests with signerName {signer}"
NOT_SIGNER: Final = "user not permitted to sign requests with signerName {signer}"
EXCLUSIVE: Final = "Approved and Denied conditions are mutually exclusive"
NO_REMOVAL: Final = "updates may not remove a condition of type {kind}"
NO_ADDITION: Final = "updates may not add a condition of type {kind}"
NO_CHANGE: Final = "updates may not modify a condition of type {kind}"
NO_CERTIFICATE: Final = "updates may not set certificate content"
SIGNED_ONCE: Final = "updates may not modify existing certificate content"
NO_BLOCK: Final = "must contain at least one CERTIFICATE PEM block"
OTHER_BLOCK: Final = "only CERTIFICATE PEM blocks are allowed, found {kind}"
SIGNER_FORM: Final = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
SIGNER_DOMAIN: Final = "should be a domain with at least two segments separated by dots"

_DECISIONS: Final = ("Approved", "Denied")
_FINAL: Final = (*_DECISIONS, "Failed")


def prepare(
    document: Document, old: Document | None, *, user: User, now: datetime, subresource: str = ""
) -> None:
    """Set the fields that clients don't control, in place, before validation."""
    if old is None:
        spec = {k: v for k, v in (document.get("spec") or {}).items() if k not in _OF_THE_USER}
        spec["username"] = user.name
        if user.uid:
            spec["uid"] = user.uid
        if user.groups:
            spec["groups"] = list(user.groups)
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}
        document["spec"], document["status"] = spec, {}
        return
    document["spec"] = old.get("spec") or {}
    before = old.get("status") or {}
    if not subresource:
        document["status"] = before
        return
    state = dict(document.get("status") or {})
    conditions = [dict(condition) for condition in state.get("conditions") or ()]
    if subresource == "approval":
        state = {key: value for key, value in before.items() if key != "conditions"}
    else:
        for kind in _DECISIONS:
            _keep_condition(conditions, before.get("conditions") or [], kind)
    _set_times(conditions, before.get("conditions") or [], now)
    if conditions:
        state["conditions"] = conditions
    else:
        state.pop("conditions", None)
    document["status"] = state


_OF_THE_USER: Final = frozenset({"username", "uid", "groups", "extra"})


def _keep_condition(conditions: list[Document], before: list[Document], kind: str) -> None:
    """Keep the stored decision in a status update; other changes to it are ignored."""
    kept = [condition for condition in before if condition.get("type") == kind]
    places = [i for i, condition in enumerate(conditions) if condition.get("type") == kind]
    if len(kept) == len(places):
        for place, condition in zip(places, kept, strict=True):
            conditions[place] = condition


def _set_times(conditions: list[Document], before: list[Document], now: datetime) -> None:
    stamp = format_time(now)
    for condition in conditions:
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = stamp
        if not condition.get("lastTransitionTime"):
            same = (
                other["lastTransitionTime"]
                for other in before
                if other.get("type") == condition.get("type")
                and other.get("status") == condition.get("status")
                and other.get("lastTransitionTime")
            )
            condition["lastTransitionTime"] = next(same, stamp)


def check(document: Document, old: Document | None, *, subresource: str = "") -> list[status.Cause]:
    """Validate a prepared document. The spec is immutable, so it is validated only on create."""
    causes: list[status.Cause] = []
    if old is None:
        causes.extend(_spec_causes(document.get("spec") or {}))
    state = document.get("status") or {}
    before = (old or {}).get("status") or {}
    causes.extend(_condition_causes(state.get("conditions") or []))
    certificate = state.get("certificate")
    if (
        certificate
        and certificate != before.get("certificate")
        and (fault := _certificate_fault(certificate))
    ):
        causes.append(status.invalid_value("status.certificate", "<certificate data>", fault))
    if old is not None:
        causes.extend(_change_causes(state, before, subresource))
    return causes


def _spec_causes(spec: Document) -> Iterator[status.Cause]:
    try:
        parse(spec.get("request"))
    except RequestFault as fault:
        yield status.invalid_value("spec.request", spec.get("request") or "", str(fault))
    usages = spec.get("usages") or []
    if not usages:
        yield status.required("spec.usages")
    for index, usage in enumerate(usages):
        if usage not in USAGES:
            yield status.not_supported(f"spec.usages[{index}]", usage, USAGES)
    seen: set[str] = set()
    for index, usage in enumerate(usages):
        if usage in seen:
            yield status.duplicate(f"spec.usages[{index}]", usage)
        seen.add(usage)
    signer = spec.get("signerName") or ""
    if signer == LEGACY:
        yield status.invalid_value("spec.signerName", signer, LEGACY_REFUSED)
    else:
        yield from _signer_causes(signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        yield status.invalid_value("spec.expirationSeconds", seconds, SHORT)


def _signer_causes(signer: str) -> Iterator[status.Cause]:
    here = "spec.signerName"
    if not signer:
        yield status.required(here)
        return
    domain, *rest = signer.split("/")
    if len(rest) != 1:
        yield status.invalid_value(here, signer, SIGNER_FORM)
        return
    labels = domain.split(".")
    for label in labels:
        if faults := naming.label(label):
            for fault in faults:
                yield status.invalid_value(here, domain, f"validating label {quote(label)}: {fault}")
            break
    if len(labels) < 2:
        yield status.invalid_value(here, domain, SIGNER_DOMAIN)
    for label in rest[0].split("."):
        if faults := naming.subdomain(label):
            for fault in faults:
                yield status.invalid_value(here, rest[0], f"validating label {quote(label)}: {fault}")
            break


def _condition_causes(conditions: list[Document]) -> Iterator[status.Cause]:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        here = f"status.conditions[{index}]"
        kind, value = condition.get("type") or "", condition.get("status") or ""
        if not kind:
            yield status.required(f"{here}.type")
        allowed = ("True",) if kind in _FINAL else ("False", "True", "Unknown")
        if not value:
            yield status.required(f"{here}.status")
        elif value not in allowed:
            yield status.not_supported(f"{here}.status", value, allowed)
        if kind in _DECISIONS and seen & (set(_DECISIONS) - {kind}):
            yield status.invalid_value("status.conditions", kind, EXCLUSIVE)
        if kind in seen:
            yield status.duplicate(f"{here}.type", kind)
        seen.add(kind)


def _certificate_fault(field: object) -> str:
    has_certificate = False
    for kind, body in pem_blocks(decode(field)):
        if kind != "CERTIFICATE":
            return OTHER_BLOCK.format(kind=quote(kind))
        try:
            x509.load_der_x509_certificate(body)
        except ValueError:
            return "x509: malformed certificate"
        has_certificate = True
    return "" if has_certificate else NO_BLOCK


def _change_causes(state: Document, before: Document, subresource: str) -> Iterator[status.Cause]:
    here = "status.conditions"
    for kind in _FINAL:
        if len(_with_type(state, kind)) < len(_with_type(before, kind)):
            yield status.forbidden_field(here, NO_REMOVAL.format(kind=quote(kind)))
    if subresource != "approval":
        for kind in _DECISIONS:
            new, old = _with_type(state, kind), _with_type(before, kind)
            if len(new) > len(old):
                yield status.forbidden_field(here, NO_ADDITION.format(kind=quote(kind)))
            elif len(new) == len(old) and new != old:
                yield status.forbidden_field(here, NO_CHANGE.format(kind=quote(kind)))
    if (state.get("certificate") or "") != (before.get("certificate") or ""):
        if subresource != "status":
            yield status.forbidden_field("status.certificate", NO_CERTIFICATE)
        elif before.get("certificate"):
            yield status.forbidden_field("status.certificate", SIGNED_ONCE)


def _with_type(state: Document, kind: str) -> list[Document]:
    return [condition for condition in state.get("conditions") or () if condition.get("type") == kind]


def admit(
    document: Document, old: Document | None, *, user: User, authorizer: Authorizer, subresource: str = ""
) -> None:
    """Raise a 403 for a forbidden subject, and for users who may not approve or sign for the signer.

    Follows ``check``, as in kube-apiserver.
    """
    name = document["metadata"].get("name", "")
    if old is None:
        spec = document.get("spec") or {}
        if spec.get("signerName") == CLIENT:
            try:
                asked = organizations(parse(spec.get("request")))
            except RequestFault as fault:
                raise status.forbidden(GROUP, RESOURCE, name, f"failed to parse CSR: {fault}") from fault
            if MASTERS in asked:
                raise status.forbidden(GROUP, RESOURCE, name, NOT_MASTERS)
        return
    signer = (old.get("spec") or {}).get("signerName", "")
    if subresource == "approval":
        if not is_permitted("approve", signer, user=user, authorizer=authorizer):
            raise status.forbidden(GROUP, RESOURCE, name, NOT_APPROVER.format(signer=quote(signer)))
    elif subresource == "status":
        new, before = document.get("status") or {}, old.get("status") or {}
        same = all(
            (new.get(key) or None) == (before.get(key) or None) for key in ("certificate", "conditions")
        )
        if not same and not is_permitted("sign", signer, user=user, authorizer=authorizer):
            raise status.forbidden(GROUP, RESOURCE, name, NOT_SIGNER.format(signer=quote(signer)))


def is_permitted(verb: str, signer: str, *, user: User, authorizer: Authorizer) -> bool:
    """Return whether a user may approve or sign for this signer, or for all of its domain."""
    domain = signer.partition("/")[0]
    return any(
        authorizer.decide(user, Attributes(verb=verb, group=GROUP, resource="signers", name=name)).allowed
        for name in (signer, f"{domain}/*")
    )
