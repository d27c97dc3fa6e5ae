"""Authenticate requests by client certificate or bearer token."""

import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from kubehub import status
from kubehub.authn.bearer_tokens import StaticTokens, bootstrap_user
from kubehub.authn.jwt import Rejected
from kubehub.authn.service_account_tokens import CREDENTIAL, Issuer, Verified
from kubehub.object_reader import ObjectReader
from kubehub.pki.certificates import Authority, CertificateFault, texts
from kubehub.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User

INVALID: Final = "invalid bearer token"
OPEN_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
"""Paths for which a request without credentials passes on to authorization, as system:anonymous."""

NOBODY: Final = User(name=ANONYMOUS, groups=(UNAUTHENTICATED,))

_USER_UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
_CACHE_SIZE: Final = 1024


class Authenticator:
    def __init__(
        self,
        *,
        authority: Authority,
        issuer: Issuer,
        objects: ObjectReader,
        static: StaticTokens | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.issuer = issuer
        self._authority, self._objects, self._clock = authority, objects, clock
        self._static = static or StaticTokens()
        self._certified: dict[bytes, tuple[User, datetime]] = {}

    def authenticate(self, *, authorization: str, certificate: bytes | None, path: str) -> User:
        """Return the user of a request. Raises a 401. ``authorization`` is the header or empty, ``certificate`` the
        client's, as DER.

        A valid token is accepted even beside an invalid certificate; otherwise invalid credentials are always
        rejected, even for paths that need none.
        """
        faulty = False
        if certificate:
            try:
                if (user := self._certificate_user(certificate)) is not None:
                    return user
            except CertificateFault:
                faulty = True
        token = _parse_bearer(authorization)
        if token:
            try:
                return self.token(token).user
            except Rejected:
                faulty = True
        if faulty or path not in OPEN_PATHS:
            raise status.unauthorized()
        return NOBODY

    def token(self, token: str, *, audiences: Sequence[str] = ()) -> Verified:
        """Return the user of a token for these audiences or the hub's own. Raises Rejected, whose message may be
        shown."""
        wanted = tuple(audiences) or self.issuer.audiences
        # Tokens without an audience are for the hub itself.
        common = tuple(audience for audience in self.issuer.audiences if audience in wanted)
        if common and (user := self._static.authenticate(token)) is not None:
            return Verified(user=_add_authenticated_group(user), audiences=common)
        verified = self.issuer.authenticate(token, audiences=wanted)
        if verified is not None:
            return Verified(user=_add_authenticated_group(verified.user), audiences=verified.audiences)
        if common:
            user = bootstrap_user(token, objects=self._objects, now=self._clock())
            if user is not None:
                return Verified(user=_add_authenticated_group(user), audiences=common)
        raise Rejected(INVALID)

    def _certificate_user(self, der: bytes) -> User | None:
        """Return None for a certificate of ours without a user name."""
        now, digest = self._clock(), hashlib.sha256(der).digest()
        known = self._certified.get(digest)
        if known is not None and now <= known[1]:
            return known[0]
        certificate = self._authority.verify(der, now=now)
        names = texts(certificate, NameOID.COMMON_NAME)
        uids = texts(certificate, _USER_UID)
        if len(uids) > 1 or "" in uids:
            raise CertificateFault("a certificate can't have several uids or an empty one")
        if not names or not names[-1]:
            return None
        user = _add_authenticated_group(
            User(
                name=names[-1],
                uid="".join(uids),
                groups=texts(certificate, NameOID.ORGANIZATION_NAME),
                extra={CREDENTIAL: (f"X509SHA256={digest.hex()}",)},
            )
        )
        if len(self._certified) >= _CACHE_SIZE:
            self._certified.clear()
        end = min(certificate.not_valid_after_utc, self._authority.certificate.not_valid_after_utc)
        self._certified[digest] = (user, end)
        return user


def _parse_bearer(authorization: str) -> str:
    """Return the token of the header. Other schemes count as no credentials, as in kube-apiserver."""
    scheme, _, rest = authorization.strip().partition(" ")
    return rest.partition(" ")[0] if scheme.lower() == "bearer" else ""


def _add_authenticated_group(user: User) -> User:
    if user.name == ANONYMOUS or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return User(name=user.name, uid=user.uid, groups=(*user.groups, AUTHENTICATED), extra=user.extra)
