"""JSON Web Tokens: claims, and the key that signs and verifies them."""

import base64
import hashlib
import re
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from msgspec import Struct, field

from kubehub.pki.certificates import (
    FOREIGN,
    LOST,
    UNUSABLE,
    CertificateFault,
    private_pem,
    read_private,
    write_private,
)
from kubehub.resource import Document

KEY_FILE: Final = "tokens.pem"
ALGORITHM: Final = "ES256"

NOT_A_KEY: Final = "not a P-256 key"
NO_KEY: Final = "invalid signature, no keys found"
BAD_SIGNATURE: Final = "go-jose/go-jose: error in cryptographic primitive"

_PART: Final = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST: Final = 16_384


class Rejected(Exception):
    """The reason why a token is rejected, safe to show. Never contains the token."""


class Reference(Struct, frozen=True, omit_defaults=True):
    name: str = ""
    uid: str = ""


class Bound(Struct, frozen=True, omit_defaults=True):
    namespace: str = ""
    node: Reference | None = None
    pod: Reference | None = None
    secret: Reference | None = None
    serviceaccount: Reference = Reference()


class Claims(Struct, frozen=True, kw_only=True, omit_defaults=True):
    aud: list[str] | str = field(default_factory=list)
    exp: int | None = None
    iat: int | None = None
    iss: str
    jti: str = ""
    bound: Bound = field(name="kubernetes.io", default=Bound())
    nbf: int | None = None
    sub: str = ""
    legacy_namespace: str = field(name="kubernetes.io/serviceaccount/namespace", default="")
    legacy_secret: str = field(name="kubernetes.io/serviceaccount/secret.name", default="")
    legacy_name: str = field(name="kubernetes.io/serviceaccount/service-account.name", default="")
    legacy_uid: str = field(name="kubernetes.io/serviceaccount/service-account.uid", default="")

    @property
    def audiences(self) -> tuple[str, ...]:
        return (self.aud,) if isinstance(self.aud, str) else tuple(self.aud)


_decode_claims: Final = msgspec.json.Decoder(Claims).decode
_decode_header: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Key:
    """Signs and verifies. The algorithm is fixed: the token's header is compared, never followed."""

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        self._private = private
        self._public = private.public_key()
        der = self._public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.id = _encode(hashlib.sha256(der).digest())
        self._header = _encode(msgspec.json.encode({"alg": ALGORITHM, "kid": self.id}))

    @classmethod
    def open(cls, folder: Path | None, *, expected: bool = False, trusted: str | None = None) -> "Key":
        """Open the key in the folder, created if missing; without a folder, create a new one.

        ``expected``: the hub has data, so a key must exist. ``trusted`` is the id it had. Raises CertificateFault.
        """
        if folder is None:
            return cls(ec.generate_private_key(ec.SECP256R1()))
        path, data = folder / KEY_FILE, folder.parent
        content = read_private(path)
        if content is None:
            if expected:
                raise CertificateFault(LOST.format(path=path, data=data))
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            content = private_pem(ec.generate_private_key(ec.SECP256R1()))
            write_private(path, content)
        try:
            private = serialization.load_pem_private_key(content, password=None)
        except (ValueError, TypeError) as fault:
            raise CertificateFault(UNUSABLE.format(path=path, why=NOT_A_KEY, data=data)) from fault
        if not isinstance(private, ec.EllipticCurvePrivateKey) or private.curve.name != "secp256r1":
            raise CertificateFault(UNUSABLE.format(path=path, why=NOT_A_KEY, data=data))
        key = cls(private)
        if trusted not in (None, key.id):
            raise CertificateFault(FOREIGN.format(path=path, data=data))
        return key

    def sign(self, claims: Claims) -> str:
        signed = f"{self._header}.{_encode(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._private.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def verify(self, token: str, *, issuers: frozenset[str]) -> Claims | None:
        """Return the claims; None for a token of other issuers. Raises Rejected if this key didn't sign it."""
        parts = token.split(".")
        if len(token) > _LONGEST or len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
            return None
        try:
            claims = _decode_claims(_decode(parts[1]))
        except (msgspec.DecodeError, ValueError):
            return None
        if claims.iss not in issuers:
            return None
        self._check(*parts)
        return claims

    def _check(self, header: str, payload: str, signature: str) -> None:
        try:
            asked, raw = _decode_header(_decode(header)), _decode(signature)
        except (msgspec.DecodeError, ValueError):
            raise Rejected(BAD_SIGNATURE) from None
        if asked.get("kid", self.id) != self.id:
            raise Rejected(NO_KEY)
        if asked.get("alg") != ALGORITHM or "crit" in asked or len(raw) != 64:
            raise Rejected(BAD_SIGNATURE)
        pair = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        try:
            self._public.verify(pair, f"{header}.{payload}".encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise Rejected(BAD_SIGNATURE) from None

    def jwks(self) -> Document:
        numbers = self._public.public_numbers()
        return {
            "keys": [
                {
                    "use": "sig",
                    "kty": "EC",
                    "kid": self.id,
                    "crv": "P-256",
                    "alg": ALGORITHM,
                    "x": _encode(numbers.x.to_bytes(32, "big")),
                    "y": _encode(numbers.y.to_bytes(32, "big")),
                }
            ]
        }


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
