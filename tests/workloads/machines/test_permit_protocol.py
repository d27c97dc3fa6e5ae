"""Permit requests: what is accepted, and the status and message of every refusal."""

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from fairway.workloads.machines import permit_protocol as protocol
from fairway.workloads.machines.permit_protocol import (
    Permit,
    PermitError,
    decode_request,
    decode_size,
    encode_reply,
)

GI = 1 << 30
REQUEST: dict[str, Any] = {
    "protoVersion": 7,
    "pod": {"namespace": "ns", "name": "vm-a"},
    "computeUnit": {"vCPUs": "250m", "mem": "1Gi"},
    "resources": {"vCPUs": 1, "mem": 4 * GI},
    "lastPermit": {"vCPUs": 0.5, "mem": 2 * GI},
    "metrics": {"loadAvg1M": 0.75},
}


def refusal(**changes: Any) -> tuple[int, str]:
    with pytest.raises(PermitError) as error:
        decode_request(json.dumps({**REQUEST, **changes}).encode())
    return error.value.status, str(error.value)


def test_request_is_decoded_to_milli_units() -> None:
    request = decode_request(json.dumps(REQUEST).encode())
    assert (request.namespace, request.name) == ("ns", "vm-a")
    assert request.unit == {"cpu": 250, "memory": GI * 1000}
    assert request.resources == {"cpu": 1000, "memory": 4 * GI * 1000}
    assert request.last_permit == {"cpu": 500, "memory": 2 * GI * 1000}
    assert request.load == 0.75


def test_last_permit_and_metrics_may_be_null() -> None:
    request = decode_request(json.dumps({**REQUEST, "lastPermit": None, "metrics": None}).encode())
    assert (request.last_permit, request.load) == (None, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"protoVersion": 6}, protocol.WRONG_VERSION.format(given="v4.0", number=7, name="v5.0")),
        ({"protoVersion": 99}, protocol.WRONG_VERSION.format(given="99", number=7, name="v5.0")),
        ({"pod": {"namespace": "ns"}}, protocol.NO_POD.format(field="name")),
        ({"pod": {"name": "vm-a"}}, protocol.NO_POD.format(field="namespace")),
        (
            {"computeUnit": {"vCPUs": 0, "mem": GI}},
            protocol.ZERO_SIZE.format(path="computeUnit.vCPUs"),
        ),
        (
            {"resources": {"vCPUs": "-1", "mem": GI}},
            protocol.NEGATIVE_SIZE.format(path="resources.vCPUs", given="-1"),
        ),
        (
            {"resources": {"vCPUs": 1, "mem": "1Ei"}},
            protocol.ABSURD_SIZE.format(path="resources.mem", most=64 << 40, given="1Ei"),
        ),
        (
            {"lastPermit": {"vCPUs": 1e300, "mem": GI}},
            protocol.ABSURD_SIZE.format(path="lastPermit.vCPUs", most=512, given=1e300),
        ),
    ],
)
def test_invalid_request_is_refused_with_400(changes: dict[str, Any], message: str) -> None:
    assert refusal(**changes) == (400, message)


def test_unreadable_quantity_names_its_field() -> None:
    status, message = refusal(resources={"vCPUs": "two", "mem": GI})
    assert (status, message.startswith("resources.vCPUs must be a quantity: ")) == (400, True)


def test_body_over_one_kibibyte_is_refused_with_413() -> None:
    with pytest.raises(PermitError) as error:
        decode_request(b" " * 1025)
    assert (error.value.status, str(error.value)) == (413, protocol.TOO_LARGE.format(size=1025, most=1024))


@settings(max_examples=60)
@given(body=st.binary(max_size=64) | st.text(max_size=40).map(str.encode) | st.just(b"[" * 900))
def test_any_other_body_is_refused_with_400(body: bytes) -> None:
    with pytest.raises(PermitError) as error:
        decode_request(body)
    assert error.value.status == 400


def test_reply_has_migrate_only_for_a_machine_that_moves() -> None:
    size = {"cpu": 1250, "memory": 5 * GI * 1000}
    assert json.loads(encode_reply(Permit(resources=size, migrations=("m1",)))) == {
        "permit": {"vCPUs": "1250m", "mem": 5 * GI},
        "waitingFor": ["m1"],
    }
    assert json.loads(encode_reply(Permit(resources=size, migrate=True)))["migrate"] == {}


def test_size_of_an_annotation_is_read_back_as_it_was_written() -> None:
    size = {"cpu": 250, "memory": GI * 1000}
    assert decode_size(json.dumps(protocol.encode_size(size)), path="x") == size
    with pytest.raises(PermitError, match="x must be a quantity"):
        decode_size("{", path="x")
