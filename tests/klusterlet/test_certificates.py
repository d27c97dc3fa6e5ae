"""Keys, requests and certificates."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from fairway.klusterlet.certificates import (
    NOT_A_CERTIFICATE,
    OTHER_KEY,
    Certificate,
    CertificateError,
    KeyPair,
    Subject,
    new_key,
    request_for,
)
from klusterlet.key_pairs import signed

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
LONG = Subject(
    user="system:open-cluster-management:cluster:a-cluster-with-a-long-name:addon:resource-usage-collect:agent:x",
    groups=(
        "system:open-cluster-management:cluster:a-cluster-with-a-long-name:addon:resource-usage-collect",
    ),
)


def test_certificate_has_requested_subject() -> None:
    subject = Subject(user="u", groups=("g1", "g2"), units=("o",))
    certificate = signed(subject, begins=NOON, life=timedelta(hours=1)).check()
    assert certificate.subject == subject
    assert (certificate.begins, certificate.ends) == (NOON, NOON + timedelta(hours=1))


def test_user_names_longer_than_x520_are_accepted() -> None:
    """As those of add-ons are; warnings are errors here."""
    request_for(new_key(), LONG)
    assert signed(LONG, begins=NOON, life=timedelta(hours=1)).check().is_for(LONG)


def test_subjects_compare_without_order_of_groups() -> None:
    certificate = Certificate(subject=Subject(user="u", groups=("a", "b")), begins=NOON, ends=NOON)
    assert certificate.is_for(Subject(user="u", groups=("b", "a")))
    assert not certificate.is_for(Subject(user="u", groups=("a",)))
    assert not certificate.is_for(Subject(user="v", groups=("a", "b")))
    assert not certificate.is_for(Subject(user="u", groups=("a", "b"), units=("o",)))


def test_renewal_time_is_share_of_validity() -> None:
    certificate = Certificate(subject=Subject(user="u"), begins=NOON, ends=NOON + timedelta(hours=10))
    assert certificate.renewal_time(left=0.2) == NOON + timedelta(hours=8)


def test_certificate_for_another_key_is_rejected() -> None:
    pair = signed(Subject(user="u"), begins=NOON, life=timedelta(hours=1))
    for key in (new_key(), b"nonsense"):
        with pytest.raises(CertificateError, match=OTHER_KEY):
            KeyPair(key, pair.chain).check()
    with pytest.raises(CertificateError, match=NOT_A_CERTIFICATE):
        KeyPair(pair.key, b"nonsense").check()


def test_request_contains_additional_dns_names() -> None:
    request = x509.load_pem_x509_csr(
        request_for(new_key(), Subject(user="u"), hosts=("a.example", "b.example"))
    )
    extension = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert extension.get_values_for_type(x509.DNSName) == ["a.example", "b.example"]
    assert request.is_signature_valid


def test_private_key_is_not_in_repr() -> None:
    pair = signed(Subject(user="u"), begins=NOON, life=timedelta(hours=1))
    assert "PRIVATE" not in repr(pair)
