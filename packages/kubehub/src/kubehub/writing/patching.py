"""Apply JSON, merge and strategic merge patches. ``writer`` handles server-side apply."""

from collections.abc import Sequence

import msgspec

from kubehub import status
from kubehub.patches import jsonpatch, mergepatch, strategic
from kubehub.resource import Document, Resource
from kubehub.serialization import body
from kubehub.write_request import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Patch

_encode = msgspec.json.Encoder().encode


def apply_patch(resource: Resource, live: Document, patch: Patch) -> Document:
    """Return the patched object. Raises Refusal."""
    if patch.media == JSON_PATCH:
        changed = jsonpatch.apply(live, patch.body)
        # Only a JSON patch can multiply content, by copying.
        body.check_shape(_encode(changed), kept=True)
    elif patch.media == MERGE_PATCH:
        changed = mergepatch.apply(live, patch.body)
    elif patch.media == STRATEGIC_PATCH and not resource.custom:
        changed = strategic.apply(live, patch.body, resource.node)
    else:
        accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
        raise status.unsupported_media(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(accepted)
        )
    if not isinstance(changed, dict):
        raise status.bad_request(f"the patched {resource.kind} is not an object")
    return changed


def unknown_fields(patch: Patch) -> Sequence[str]:
    """Return unknown fields of the patch itself, which strict validation rejects."""
    return jsonpatch.unknown_fields(patch.body) if patch.media == JSON_PATCH else ()
