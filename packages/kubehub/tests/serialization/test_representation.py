"""Content negotiation."""

import pytest

from kubehub.serialization import representation
from kubehub.status import Refusal

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "kind", "yaml"),
    [
        ("", representation.PLAIN, False),
        ("*/*", representation.PLAIN, False),
        ("application/json", representation.PLAIN, False),
        ("application/yaml", representation.PLAIN, True),
        ("application/vnd.kubernetes.protobuf,application/json", representation.PLAIN, False),
        (f"{TABLE},application/json", representation.TABLE, False),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", representation.PLAIN, False),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", representation.PARTIAL, False),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
            representation.PARTIAL,
            False,
        ),
        ("text/html, application/json;q=0.9", representation.PLAIN, False),
    ],
)
def test_first_supported_accept_form_is_used(accept: str, kind: str, yaml: bool) -> None:
    chosen = representation.negotiate(accept, {})
    assert (chosen.kind, chosen.yaml) == (kind, yaml)


@pytest.mark.parametrize("accept", ["text/html", "application/vnd.kubernetes.protobuf", "image/*"])
def test_forms_that_cannot_be_written(accept: str) -> None:
    with pytest.raises(Refusal) as refused:
        representation.negotiate(accept, {})
    assert refused.value.code == 406
