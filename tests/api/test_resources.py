"""Every kind that Fairway serves has a resource."""

from fairway.api import resources
from fairway.api.crd import MACHINE_RESOURCES, RESOURCES
from kubewire.api.resource import Resource


def test_every_kind_of_the_api_has_a_resource() -> None:
    listed = {
        resource.kind
        for resource in vars(resources).values()
        if isinstance(resource, Resource) and resource.group
    }
    assert listed == {resource.kind for resource in (*RESOURCES, *MACHINE_RESOURCES)}
