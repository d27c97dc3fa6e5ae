"""Negotiation: which form a client gets."""

import pytest

from fairway.hub.serving import form
from fairway.hub.status import Refusal

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "kind", "yaml"),
    [
        ("", form.PLAIN, False),
        ("*/*", form.PLAIN, False),
        ("application/json", form.PLAIN, False),
        ("application/yaml", form.PLAIN, True),
        ("application/vnd.kubernetes.protobuf,application/json", form.PLAIN, False),
        (f"{TABLE},application/json", form.TABLE, False),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", form.PLAIN, False),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", form.PARTIAL, False),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
            form.PARTIAL,
            False,
        ),
        ("text/html, application/json;q=0.9", form.PLAIN, False),
    ],
)
def test_the_first_form_that_can_be_written(accept: str, kind: str, yaml: bool) -> None:
    chosen = form.negotiate(accept, {})
    assert (chosen.kind, chosen.yaml) == (kind, yaml)


@pytest.mark.parametrize("accept", ["text/html", "application/vnd.kubernetes.protobuf", "image/*"])
def test_forms_that_cannot_be_written(accept: str) -> None:
    with pytest.raises(Refusal) as refused:
        form.negotiate(accept, {})
    assert refused.value.code == 406
