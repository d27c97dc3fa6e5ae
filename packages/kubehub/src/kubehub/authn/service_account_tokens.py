"""Service account tokens: issued for TokenRequests and secrets, verified on every request.

A token is valid only while its service account, and the pod, secret or node it is bound to, exist with the uid in
its claims.
"""

import base64
import binascii
import hashlib
import hmac
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from kubehub import status
from kubehub.authn.jwt import ALGORITHM, Bound, Claims, Key, Reference, Rejected
from kubehub.object_reader import ObjectReader
from kubehub.resource import Document
from kubehub.user import User
from kubewire.api import naming
from kubewire.api.meta import format_time
from kubewire.api.selector import quote

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
LEGACY_ISSUER: Final = "kubernetes/serviceaccount"
JWKS_PATH: Final = "/openid/v1/jwks"
ACCOUNTS: Final = "system:serviceaccounts"
CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
NODE_NAME: Final = "authentication.kubernetes.io/node-name"

EXPIRED: Final = "service account token has expired"
TOO_EARLY: Final = "service account token is not valid yet"
INVALIDATED: Final = "service account token has been invalidated"
LEGACY_INVALIDATED: Final = "Token has been invalidated"
LEGACY_REPLACED: Final = "Token does not match server's copy"
LEGACY_MARKED: Final = (
    "the token in secret {secret} for service account {account} has been marked invalid. Use tokens from the "
    "TokenRequest API or manually created secret-based tokens, or remove the "
    "'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token"
)
SHORT: Final = "may not specify a duration less than 10 minutes"
LONG: Final = "may not specify a duration larger than 2^32 seconds"

_GROUP: Final = "authentication.k8s.io"
_BINDABLE: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
_LEEWAY: Final = 60
_DEFAULT_SECONDS: Final = 3600
_CACHE_SIZE: Final = 4096


class Verified(Struct, frozen=True):
    user: User
    audiences: tuple[str, ...]


class _CachedToken(Struct):
    """A token with a valid signature: its claims, and the revisions at which the objects were checked."""

    claims: Claims
    user: User
    seen: tuple[int, ...]


class Issuer:
    """Issues and verifies tokens of service accounts."""

    def __init__(
        self, *, key: Key, objects: ObjectReader, url: str = ISSUER, clock: Callable[[], float] = time.time
    ) -> None:
        self.url, self.audiences = url, (url,)
        self._key, self._objects, self._clock = key, objects, clock
        self._issuers = frozenset({url, LEGACY_ISSUER})
        self._remembered: dict[bytes, _CachedToken] = {}

    def discovery(self, *, address: str) -> Document:
        """Return the OpenID discovery document. ``address`` is the hub's external host and port."""
        return {
            "issuer": self.url,
            "jwks_uri": f"https://{address}{JWKS_PATH}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }

    def jwks(self) -> Document:
        return self._key.jwks()

    def request(self, document: Document, *, namespace: str, name: str) -> Document:
        """Answer a TokenRequest for a service account."""
        asked, spec = document.get("metadata") or {}, document.get("spec") or {}
        for part, mine in (("name", name), ("namespace", namespace)):
            if asked.get(part) and asked[part] != mine:
                fault = f"must match the service account {part} if specified"
                raise self._invalid(name, f"metadata.{part}", asked[part], fault)
        account = self._objects.document("serviceaccounts", namespace, name)
        if account is None:
            raise status.not_found("", "serviceaccounts", name)
        uid = account["metadata"]["uid"]
        if asked.get("uid") and asked["uid"] != uid:
            detail = (
                f"the UID in the token request ({asked['uid']}) does not match "
                f"the UID of the service account ({uid})"
            )
            raise status.conflict(_GROUP, "TokenRequest", name, detail)
        audiences = list(spec.get("audiences") or self.audiences)
        seconds = spec.get("expirationSeconds")
        seconds = _DEFAULT_SECONDS if seconds is None else seconds
        if seconds < 600:
            raise self._invalid("", "spec.expirationSeconds", seconds, SHORT)
        if seconds > 1 << 32:
            raise self._invalid("", "spec.expirationSeconds", seconds, LONG)
        bound = self._bound_object(spec.get("boundObjectRef"), namespace, Reference(name=name, uid=uid))
        now = int(self._clock())
        claims = Claims(
            aud=audiences,
            exp=now + seconds,
            iat=now,
            nbf=now,
            iss=self.url,
            jti=str(uuid.uuid4()),
            bound=bound,
            sub=username(namespace, name),
        )
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "creationTimestamp": _format_time(now),
                **{key: value for key, value in asked.items() if key == "managedFields"},
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": self._key.sign(claims), "expirationTimestamp": _format_time(now + seconds)},
        }

    def _invalid(self, name: str, path: str, value: object, detail: str) -> status.Refusal:
        return status.invalid(_GROUP, "TokenRequest", name, [status.invalid_value(path, value, detail)])

    def _bound_object(self, asked: Document | None, namespace: str, account: Reference) -> Bound:
        """Return the object that a token is bound to, after checking it."""
        if not asked:
            return Bound(namespace=namespace, serviceaccount=account)
        version, kind, name = asked.get("apiVersion", ""), asked.get("kind", ""), asked.get("name", "")
        resource = _BINDABLE.get(kind) if "/" not in version else None
        if resource is None:
            shown = version if "/" in version else f"/{version}"
            raise status.bad_request(f"cannot bind token to object of type {shown}, Kind={kind}")
        bound = self._objects.document(resource, "" if kind == "Node" else namespace, name)
        if bound is None:
            raise status.not_found("", resource, name)
        pod = bound.get("spec") or {} if kind == "Pod" else {}
        if kind == "Pod" and pod.get("serviceAccountName") != account.name:
            raise status.bad_request(
                f"cannot bind token for serviceaccount {quote(account.name)} to pod running with different "
                "serviceaccount name."
            )
        uid = bound["metadata"]["uid"]
        if asked.get("uid") and asked["uid"] != uid:
            detail = (
                f"the UID in the bound object reference ({asked['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise status.conflict("", kind, name, detail)
        node = None
        if host := pod.get("nodeName"):
            kept = self._objects.document("nodes", "", host)
            node = Reference(name=host, uid=kept["metadata"]["uid"] if kept else "")
        own = Reference(name=name, uid=uid)
        return Bound(
            namespace=namespace,
            serviceaccount=account,
            pod=own if kind == "Pod" else None,
            secret=own if kind == "Secret" else None,
            node=own if kind == "Node" else node,
        )

    def secret_token(self, *, account: Document, secret: Document) -> str:
        """Return the token without expiry for a secret of type kubernetes.io/service-account-token.

        It is valid only while that secret contains it, so the caller must write it there.
        """
        meta = account["metadata"]
        return self._key.sign(
            Claims(
                iss=LEGACY_ISSUER,
                sub=username(meta["namespace"], meta["name"]),
                legacy_namespace=meta["namespace"],
                legacy_name=meta["name"],
                legacy_uid=meta["uid"],
                legacy_secret=secret["metadata"]["name"],
            )
        )

    def is_outdated(self, token: str) -> bool:
        """Return whether a token of ``secret_token``'s form was signed with another key."""
        try:
            self._key.verify(token, issuers=frozenset({LEGACY_ISSUER}))
        except Rejected:
            return True
        return False

    def authenticate(self, token: str, *, audiences: Sequence[str] = ()) -> Verified | None:
        """Return the user; None for tokens of other issuers. Raises Rejected for an invalid or expired token."""
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        known = self._remembered.get(digest)
        if known is None:
            signed = self._key.verify(token, issuers=self._issuers)
            if signed is None:
                return None
            # Only the signature was verified: revision 0 makes the objects be checked next.
            known = _CachedToken(claims=signed, user=_user(signed), seen=())
        claims = known.claims
        meant = claims.audiences or self.audiences
        wanted = tuple(audiences) or self.audiences
        common = tuple(audience for audience in meant if audience in wanted)
        if not common:
            raise Rejected(
                f"token audiences {_format_list(meant)} is invalid for the target audiences {_format_list(wanted)}"
            )
        now = self._clock()
        if claims.nbf is not None and now + _LEEWAY < claims.nbf:
            raise Rejected(TOO_EARLY)
        if claims.exp is not None and now >= claims.exp:
            self._remembered.pop(digest, None)
            raise Rejected(EXPIRED)
        seen = tuple(map(self._objects.last_revision, _dependencies(claims)))
        if known.seen != seen:
            # Check the objects again, also for cached tokens: no token outlives its objects.
            self._remembered.pop(digest, None)
            legacy = claims.iss == LEGACY_ISSUER
            steady = self._check_legacy(claims, token) if legacy else self._check_objects(claims, now)
            if steady:
                if len(self._remembered) >= _CACHE_SIZE:
                    self._remembered.clear()
                known.seen = seen
                self._remembered[digest] = known
        return Verified(user=known.user, audiences=common)

    def _check_objects(self, claims: Claims, now: float) -> bool:
        """Return whether the result stays valid until one of the objects changes; a pending deletion expires by
        time alone."""
        bound = claims.bound
        if claims.exp is None:
            raise Rejected(EXPIRED)
        namespace, account = bound.namespace, bound.serviceaccount
        steady = self._check_bound_object(
            "serviceaccounts", namespace, account, now, missing="", kind="service account"
        )
        if bound.secret is not None:
            steady &= self._check_bound_object(
                "secrets", namespace, bound.secret, now, missing=INVALIDATED, kind="secret"
            )
        if bound.pod is not None:
            steady &= self._check_bound_object(
                "pods", namespace, bound.pod, now, missing=INVALIDATED, kind="pod"
            )
        elif bound.node is not None:
            steady &= self._check_bound_object("nodes", "", bound.node, now, missing=INVALIDATED, kind="node")
        return steady

    def _check_bound_object(
        self, resource: str, namespace: str, wanted: Reference, now: float, *, missing: str, kind: str
    ) -> bool:
        document = self._objects.document(resource, namespace, wanted.name)
        if document is None:
            raise Rejected(missing or f"{resource} {quote(wanted.name)} not found")
        uid = document["metadata"].get("uid", "")
        if uid != wanted.uid or not uid:
            claim = "claim" if not missing else f"service account {kind} ref claim"
            raise Rejected(f"{kind} UID ({uid}) does not match {claim} ({wanted.uid})")
        deleted = document["metadata"].get("deletionTimestamp")
        if deleted and datetime.fromisoformat(deleted).timestamp() < now - _LEEWAY:
            raise Rejected(missing or f"service account {namespace}/{wanted.name} has been deleted")
        return not deleted

    def _check_legacy(self, claims: Claims, token: str) -> bool:
        namespace, name, held = claims.legacy_namespace, claims.legacy_name, claims.legacy_secret
        if not (namespace and name and held and claims.legacy_uid) or claims.sub != username(namespace, name):
            raise Rejected("sub claim is invalid")
        secret = self._objects.document("secrets", namespace, held)
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            raise Rejected(LEGACY_INVALIDATED)
        if not hmac.compare_digest(secret_data(secret, "token"), token.encode(errors="surrogateescape")):
            raise Rejected(LEGACY_REPLACED)
        account = self._objects.document("serviceaccounts", namespace, name)
        if account is None:
            raise Rejected(f"serviceaccounts {quote(name)} not found")
        if account["metadata"].get("deletionTimestamp"):
            raise Rejected(f"ServiceAccount {namespace}/{name} has been deleted")
        if (uid := account["metadata"].get("uid")) != claims.legacy_uid:
            raise Rejected(f"ServiceAccount UID ({uid}) does not match claim ({claims.legacy_uid})")
        if (secret["metadata"].get("labels") or {}).get("kubernetes.io/legacy-token-invalid-since"):
            raise Rejected(LEGACY_MARKED.format(secret=f"{namespace}/{held}", account=f"{namespace}/{name}"))
        return True


def _dependencies(claims: Claims) -> Iterable[str]:
    """Return the resources whose changes may invalidate a token."""
    yield "serviceaccounts"
    bound = claims.bound
    if bound.secret is not None or claims.iss == LEGACY_ISSUER:
        yield "secrets"
    if bound.pod is not None:
        yield "pods"
    elif bound.node is not None:
        yield "nodes"


def username(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def account_of(user: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account with that user name."""
    prefix, _, rest = user.partition("system:serviceaccount:")
    parts = rest.split(":")
    if prefix or len(parts) != 2 or naming.label(parts[0]) or naming.subdomain(parts[1]):
        return None
    return parts[0], parts[1]


def groups(namespace: str) -> tuple[str, ...]:
    return (ACCOUNTS, f"{ACCOUNTS}:{namespace}")


def _user(claims: Claims) -> User:
    if claims.iss == LEGACY_ISSUER:
        namespace = claims.legacy_namespace
        return User(
            name=username(namespace, claims.legacy_name), uid=claims.legacy_uid, groups=groups(namespace)
        )
    bound = claims.bound
    extra: dict[str, tuple[str, ...]] = {}
    if claims.jti:
        extra[CREDENTIAL] = (f"JTI={claims.jti}",)
    if bound.node is not None:
        extra[NODE_NAME] = (bound.node.name,)
        if bound.node.uid:
            extra["authentication.kubernetes.io/node-uid"] = (bound.node.uid,)
    if bound.pod is not None:
        extra["authentication.kubernetes.io/pod-name"] = (bound.pod.name,)
        extra["authentication.kubernetes.io/pod-uid"] = (bound.pod.uid,)
    return User(
        name=username(bound.namespace, bound.serviceaccount.name),
        uid=bound.serviceaccount.uid,
        groups=groups(bound.namespace),
        extra=extra,
    )


def secret_data(secret: Document, key: str) -> bytes:
    """Return a value of a secret, empty if missing or invalid."""
    try:
        return base64.b64decode((secret.get("data") or {}).get(key) or "", validate=True)
    except (binascii.Error, TypeError):
        return b""


def _format_list(texts: Iterable[str]) -> str:
    return f"[{' '.join(map(quote, texts))}]"


def _format_time(seconds: int) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))
