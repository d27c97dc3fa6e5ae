"""Access reviews: the response to a create is the object with its status.

Every function takes the document of the request and returns a new one; metadata is kept.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from kubehub import status
from kubehub.authn.authenticator import INVALID, Authenticator
from kubehub.authn.jwt import Rejected
from kubehub.rbac.authorizer import Attributes, Authorizer
from kubehub.resource import Document
from kubehub.user import User
from kubewire.api.meta import format_time

AUTHENTICATION: Final = "authentication.k8s.io"
AUTHORIZATION: Final = "authorization.k8s.io"

TOKEN_NEEDED: Final = "token is required for TokenReview in authentication"
NAMESPACE_NEEDED: Final = "no namespace on request"
NOT_BOTH: Final = "cannot be specified in combination with resourceAttributes"
ONE_NEEDED: Final = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
SUBJECT_NEEDED: Final = "at least one of user or group must be specified"
NO_METADATA: Final = "must be empty"
ONLY_NAMESPACE: Final = "must be empty except for namespace"
OTHER_NAMESPACE: Final = "must match metadata.namespace"
NO_PATHS: Final = "disallowed on this kind of request"
NAMESPACE_MISMATCH: Final = (
    "the namespace of the provided object does not match the namespace sent on the request"
)
ONE_FORM: Final = "may not specified at the same time as requirements"


def token_review(document: Document, *, authenticator: Authenticator) -> Document:
    spec = document.get("spec") or {}
    token = spec.get("token") or ""
    if not token:
        raise status.bad_request(TOKEN_NEEDED)
    try:
        verified = authenticator.token(token, audiences=tuple(spec.get("audiences") or ()))
    except Rejected as fault:
        message = str(fault)
        # kube-apiserver tries its own loopback token first, which never matches.
        message = message if message == INVALID else f"[{INVALID}, {message}]"
        return _with_status(document, "TokenReview", AUTHENTICATION, {"user": {}, "error": message})
    result = {"authenticated": True, "user": user_info(verified.user), "audiences": list(verified.audiences)}
    return _with_status(document, "TokenReview", AUTHENTICATION, result)


def self_subject_review(*, user: User, now: datetime) -> Document:
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": f"{AUTHENTICATION}/v1",
        "metadata": {"creationTimestamp": format_time(now)},
        "status": {"userInfo": user_info(user)},
    }


def subject_access_review(document: Document, *, authorizer: Authorizer) -> Document:
    spec = document.get("spec") or {}
    _check([*_spec_causes(spec, named=True), *_metadata_causes(document, allowed=())])
    return _review(document, "SubjectAccessReview", authorizer, _subject(spec))


def local_subject_access_review(
    document: Document, *, authorizer: Authorizer, namespace: str = ""
) -> Document:
    """Review access in one namespace, so that permission there reveals nothing about another.

    ``namespace`` is that of the path; if empty, the document's own was authorized already.
    """
    meta, spec = document.get("metadata") or {}, document.get("spec") or {}
    if namespace and meta.get("namespace", namespace) != namespace:
        raise status.bad_request(NAMESPACE_MISMATCH)
    namespace = namespace or meta.get("namespace", "")
    document = document | {"metadata": meta | {"namespace": namespace}}
    causes = [*_spec_causes(spec, named=True), *_metadata_causes(document, allowed=("namespace",))]
    attributes, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if attributes is not None and (elsewhere := attributes.get("namespace", "")) != namespace:
        causes.append(status.invalid_value("spec.resourceAttributes.namespace", elsewhere, OTHER_NAMESPACE))
    if path is not None:
        causes.append(status.invalid_value("spec.nonResourceAttributes", _path_value(path), NO_PATHS))
    _check(causes)
    return _review(document, "LocalSubjectAccessReview", authorizer, _subject(spec))


def self_subject_access_review(document: Document, *, user: User, authorizer: Authorizer) -> Document:
    spec = document.get("spec") or {}
    _check([*_spec_causes(spec, named=False), *_metadata_causes(document, allowed=())])
    return _review(document, "SelfSubjectAccessReview", authorizer, user)


def self_subject_rules_review(document: Document, *, user: User, authorizer: Authorizer) -> Document:
    namespace = (document.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise status.bad_request(NAMESPACE_NEEDED)
    rules, fault = authorizer.rules_for(user, namespace)
    written = [rule.document() for rule in rules]
    result: Document = {
        "resourceRules": [_pick(rule, _RESOURCE_RULE) for rule in written if "resources" in rule],
        "nonResourceRules": [_pick(rule, _PATH_RULE) for rule in written if "nonResourceURLs" in rule],
        "incomplete": False,
    }
    if fault:
        result["evaluationError"] = fault
    return {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": f"{AUTHORIZATION}/v1",
        "metadata": {},
        "spec": {},
        "status": result,
    }


_RESOURCE_RULE: Final = ("verbs", "apiGroups", "resources", "resourceNames")
_PATH_RULE: Final = ("verbs", "nonResourceURLs")


def _pick(rule: Document, keys: tuple[str, ...]) -> Document:
    return {key: rule[key] for key in keys if key in rule}


def user_info(user: User) -> Document:
    info: Document = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in sorted(user.extra.items())}
    return info


def _subject(spec: Document) -> User:
    extra: Mapping[str, list[str]] = spec.get("extra") or {}
    return User(
        name=spec.get("user") or "",
        uid=spec.get("uid") or "",
        groups=tuple(spec.get("groups") or ()),
        extra={key: tuple(values) for key, values in extra.items()},
    )


def _review(document: Document, kind: str, authorizer: Authorizer, user: User) -> Document:
    spec = document.get("spec") or {}
    decision = authorizer.decide(user, _attributes(spec))
    result: Document = {"allowed": decision.allowed}
    if decision.reason:
        result["reason"] = decision.reason
    return _with_status(document, kind, AUTHORIZATION, result)


def _attributes(spec: Document) -> Attributes:
    attributes = spec.get("resourceAttributes")
    if attributes is None:
        path = spec["nonResourceAttributes"]
        return Attributes(verb=path.get("verb", ""), path=path.get("path", ""))
    names = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(**{name: attributes.get(name) or "" for name in names})


def _with_status(document: Document, kind: str, group: str, result: Document) -> Document:
    return {
        "kind": kind,
        "apiVersion": f"{group}/v1",
        "metadata": document.get("metadata") or {},
        "spec": document.get("spec") or {},
        "status": result,
    }


def _check(causes: list[status.Cause]) -> None:
    if causes:
        # kube-apiserver's message lacks the kind, too.
        raise status.invalid(AUTHORIZATION, "", "", causes)


def _spec_causes(spec: Document, *, named: bool) -> Iterator[status.Cause]:
    attributes, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if attributes is not None and path is not None:
        yield status.invalid_value("spec.nonResourceAttributes", _path_value(path), NOT_BOTH)
    if attributes is None and path is None:
        yield status.invalid_value("spec.resourceAttributes", None, ONE_NEEDED)
    if named and not spec.get("user") and not spec.get("groups"):
        yield status.invalid_value("spec.user", "", SUBJECT_NEEDED)
    for which in ("fieldSelector", "labelSelector"):
        selector = (attributes or {}).get(which)
        if selector is None:
            continue
        here = f"spec.resourceAttributes.{which}"
        raw, listed = selector.get("rawSelector"), selector.get("requirements")
        if raw and listed:
            yield status.invalid_value(f"{here}.rawSelector", raw, ONE_FORM)
        if not raw and not listed:
            detail = f"when {here} is specified, requirements or rawSelector is required"
            yield status.required(f"{here}.requirements", detail)


def _metadata_causes(document: Document, *, allowed: tuple[str, ...]) -> Iterator[status.Cause]:
    meta = document.get("metadata") or {}
    if any(value for key, value in meta.items() if key not in ("managedFields", *allowed)):
        yield status.invalid_value("metadata", meta, ONLY_NAMESPACE if allowed else NO_METADATA)


def _path_value(path: Document) -> Document:
    """Print as kube-apiserver does, with its internal field names."""
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
