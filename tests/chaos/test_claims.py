"""Name, namespace and version in a body must match the request, with the same message on every hub."""

from uuid import uuid4

import pytest

from chaos.api_model import APPLY, JSON, KINDS, MERGE, Kind, path, typed, written
from chaos.blocking import Document, Hub

UNNAMED = "the name of the object (there based on URL) was undeterminable: name must be provided"
MISNAMED = "the name of the object (x) does not match the name on the URL (there)"
MISPLACED = "the namespace of the provided object does not match the namespace sent on the request"
NO_NUMBER = 'strconv.ParseUint: parsing "abc": invalid syntax'

CLAIMS: list[tuple[str, str, Document, int, str]] = [
    # The body must match the path.
    ("PUT", JSON, {}, 400, UNNAMED),
    ("PUT", JSON, {"name": "x"}, 400, MISNAMED),
    ("PUT", JSON, {"name": "there", "namespace": "x"}, 400, MISPLACED),
    ("PATCH", MERGE, {"name": None}, 400, UNNAMED),
    ("PATCH", MERGE, {"name": "x"}, 400, MISNAMED),
    ("PATCH", MERGE, {"namespace": "x"}, 400, MISPLACED),
    ("PATCH", MERGE, {"namespace": None}, 200, ""),
    ("PATCH", APPLY, {}, 200, ""),
    ("PATCH", APPLY, {"name": "x"}, 400, MISNAMED),
    ("PATCH", APPLY, {"name": "there", "namespace": "x"}, 400, MISPLACED),
    # A version is a positive number.
    ("PUT", JSON, {"name": "there", "resourceVersion": "abc"}, 500, NO_NUMBER),
    ("PATCH", MERGE, {"resourceVersion": "abc"}, 500, NO_NUMBER),
    ("PATCH", APPLY, {"name": "there", "resourceVersion": "1"}, 409, "the object has been modified"),
    # A replace must name the same object, and a patch must not change its identity.
    ("PUT", JSON, {"name": "there", "uid": "x"}, 409, "Precondition failed: UID in precondition: x"),
    ("PATCH", MERGE, {"uid": "x"}, 422, 'metadata.uid: Invalid value: "x": field is immutable'),
    (
        "PATCH",
        APPLY,
        {"name": "there", "uid": "x"},
        422,
        'metadata.uid: Invalid value: "x": field is immutable',
    ),
]


@pytest.mark.parametrize("kind", KINDS)
def test_body_with_another_name_or_version_is_rejected(hub: Hub, kind: Kind) -> None:
    namespace = f"claims-{uuid4().hex[:8]}"
    assert hub.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).code == 201
    there, absent = (path(kind, namespace, name) + "?fieldManager=claims" for name in ("there", "absent"))
    document = {**typed(kind), **written(kind, "x")}
    made = hub.call("POST", path(kind, namespace), {**document, "metadata": {"name": "there"}})
    assert made.code == 201, made
    for method, type_, metadata, code, message in CLAIMS:
        answer = hub.call(method, there, {**document, "metadata": metadata}, type_=type_)
        assert answer.code == code, (method, type_, metadata, answer)
        assert message in answer.body.get("message", "")
    answer = hub.call("PATCH", absent, {**document, "metadata": {}}, type_=APPLY)
    assert (answer.code, answer.body["message"]) == (400, UNNAMED.replace("there", "absent"))
    for version in ("0", ""):
        claimed = {**typed(kind), **written(kind, "y")}
        claimed["metadata"] = {"name": "there", "resourceVersion": version}
        for method, type_ in (("PUT", JSON), ("PATCH", MERGE), ("PATCH", APPLY)):
            force = "&force=true" if type_ == APPLY else ""
            answer = hub.call(method, there + force, claimed, type_=type_)
            assert answer.code == (200 if kind == "configmaps" else 422), (method, type_, answer)
