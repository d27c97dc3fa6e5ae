"""The policy of a hub of managed clusters: a joining cluster neither accepts itself nor chooses its cluster set.

OCM has a webhook for this. This is the policy that ``deploy/controllers/acceptance`` installs on other hubs, with
the same name and text.
"""

import copy
from collections.abc import Iterator
from typing import Final

from kubehub.admission.control import BINDINGS, POLICIES
from kubehub.resource import Document

CLUSTERS: Final = "managedclusters.cluster.open-cluster-management.io"
"""The CRD that the policy matches."""
NAME: Final = "fairway-acceptance"
AUTO_UPDATE: Final = "fairway.dev/autoupdate"
"""Set to ``"false"``, the hub keeps changes to the policy or its binding when it starts."""

_SET: Final = "cluster.open-cluster-management.io/clusterset"

POLICY: Final[Document] = {
    "failurePolicy": "Fail",
    "matchConstraints": {
        "resourceRules": [
            {
                "apiGroups": ["cluster.open-cluster-management.io"],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["managedclusters"],
            }
        ]
    },
    "variables": [
        {
            "name": "before",
            "expression": (
                "oldObject != null && has(oldObject.spec) && oldObject.spec.?hubAcceptsClient.orValue(false)"
            ),
        },
        {"name": "after", "expression": "has(object.spec) && object.spec.?hubAcceptsClient.orValue(false)"},
        {
            "name": "from",
            "expression": f"oldObject == null ? '' : oldObject.metadata.?labels['{_SET}'].orValue('')",
        },
        {"name": "to", "expression": f"object.metadata.?labels['{_SET}'].orValue('')"},
        {
            "name": "sets",
            "expression": (
                "authorizer.group('cluster.open-cluster-management.io').resource('managedclustersets')"
                ".subresource('join')"
            ),
        },
    ],
    "validations": [
        {
            "expression": (
                "variables.before || !variables.after ||"
                " authorizer.group('register.open-cluster-management.io').resource('managedclusters')"
                ".subresource('accept') .name(object.metadata.name).check('update').allowed()"
            ),
            "reason": "Forbidden",
            "message": (
                "setting spec.hubAcceptsClient requires permission to update managedclusters/accept in"
                " register.open-cluster-management.io"
            ),
        },
        {
            "expression": (
                "variables.from == variables.to || (variables.from == '' && variables.to == 'default') ||"
                " ((variables.from == '' || variables.sets.name(variables.from).check('create').allowed()) &&"
                " (variables.to == '' || variables.sets.name(variables.to).check('create').allowed()))"
            ),
            "reason": "Forbidden",
            "message": (
                "changing the set of a cluster requires permission to create managedclustersets/join for the"
                " old and the new set"
            ),
        },
    ],
}
BINDING: Final[Document] = {"policyName": NAME, "validationActions": ["Deny"]}


def documents() -> Iterator[tuple[str, Document]]:
    for key, spec in ((POLICIES, POLICY), (BINDINGS, BINDING)):
        yield key, {"metadata": {"name": NAME}, "spec": copy.deepcopy(spec)}


def is_managed(document: Document) -> bool:
    """Return whether the object is one of these and managed by the hub."""
    metadata = document["metadata"]
    return metadata["name"] == NAME and (metadata.get("annotations") or {}).get(AUTO_UPDATE) != "false"


def reconcile(stored: Document, wanted: Document) -> Document | None:
    """Return the stored object with what this Fairway version changes, or None if nothing."""
    if not is_managed(stored) or _covers(stored.get("spec"), wanted["spec"]):
        return None
    return copy.deepcopy(stored) | {"spec": copy.deepcopy(wanted["spec"])}


def _covers(stored: object, wanted: object) -> bool:
    """Return whether ``stored`` contains all of ``wanted``; additions are allowed."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        return all(_covers(stored.get(key), value) for key, value in wanted.items())
    if isinstance(stored, list) and isinstance(wanted, list):
        return len(stored) == len(wanted) and all(map(_covers, stored, wanted))
    return stored == wanted
