"""Preconditions of updates and deletions: uid and resourceVersion."""

import re
from typing import Final

from kubehub import status
from kubehub.kind import Kind
from kubehub.options import Deletion
from kubehub.resource import Document, Resource
from kubewire.api.selector import quote

WITHOUT_VERSION: Final = "Invalid value: 0: must be specified for an update"

_ANY: Final = (None, "", "0")
"""resourceVersions that make a write unconditional."""
_NUMBER: Final = re.compile("[0-9]{1,20}")
_PLACES: Final = {"services": "services/specs", "endpoints": "services/endpoints"}
"""etcd's keys of resources that aren't stored under their own name; conflict messages contain them."""


def check_uid(resource: Resource, name: str, namespace: str, uid: object, expected: object) -> None:
    """Require the uid of the request, if any. ``uid`` is empty if the object doesn't exist. Raises a 409."""
    if not expected or expected == uid:
        return
    path = [resource.group] if resource.custom else []
    place = _PLACES.get(resource.key, resource.plural)
    key = "/".join(["/registry", *path, place, namespace, name]).replace("//", "/")
    raise status.conflict(
        resource.group,
        resource.plural,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {expected}, UID in object meta: {uid}",
    )


def require_version(resource: Resource, kind: Kind, metadata: Document, name: str) -> None:
    """Require a resourceVersion, for kinds without unconditional updates. Raises a 422."""
    if (resource.custom or not kind.allow_unconditional_update) and metadata.get("resourceVersion") in _ANY:
        cause = status.Cause(field="metadata.resourceVersion", reason=status.INVALID, message=WITHOUT_VERSION)
        raise status.invalid(resource.group, resource.plural, name, [cause])


def check_version(resource: Resource, old: Document, metadata: Document) -> None:
    """Require that the request's resourceVersion, if any, is the newest. Raises a 409."""
    revision, live = metadata.get("resourceVersion"), old["metadata"]
    if revision in _ANY or revision == live["resourceVersion"]:
        return
    if not _NUMBER.fullmatch(str(revision)):
        message = f"strconv.ParseUint: parsing {quote(str(revision))}: invalid syntax"
        raise status.Refusal(code=500, reason="", message=message)
    raise status.conflict(resource.group, resource.plural, live["name"])


def check_deletion(resource: Resource, metadata: Document, options: Deletion) -> None:
    """Check the preconditions of DeleteOptions. Raises a 409."""
    message = ""
    if options.uid is not None and options.uid != metadata["uid"]:
        message = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated"
        )
    elif options.revision is not None and options.revision != metadata["resourceVersion"]:
        message = (
            f"the ResourceVersion in the precondition ({options.revision}) does not match the ResourceVersion "
            f"in record ({metadata['resourceVersion']}). The object might have been modified"
        )
    if message:
        raise status.conflict(resource.group, resource.kind, metadata["name"], message)
