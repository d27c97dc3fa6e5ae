"""Whole numbers written with a decimal point, and the storage version."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway.api.resources import PLACEMENTS
from fairway.testing.hub import HubAddress
from kubewire.client import Client

OLD = "/apis/cluster.open-cluster-management.io/v1alpha1/namespaces/default/placements/old"


@pytest.fixture
def kubeconfig(fairway_hub: HubAddress) -> Path:
    return fairway_hub.kubeconfig


async def test_whole_float_is_stored_as_integer(kubeconfig: Path) -> None:
    async with Client.from_kubeconfig(kubeconfig) as client:
        path = PLACEMENTS.path(namespace="default")
        body = b"""{"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": "p"}, "spec": {"numberOfClusters": 1000.0, "tolerations": [{"key": "k",
            "tolerationSeconds": 0.0}]}}"""
        answer = await client.request("POST", path, body=body)
        assert b'"numberOfClusters":1000,' in answer.body
        assert b'"tolerationSeconds":0.' not in answer.body
        placement = await client.get(PLACEMENTS, "p", namespace="default")
        assert (placement.spec.numberOfClusters, placement.spec.tolerations[0].tolerationSeconds) == (1000, 0)


async def test_v1alpha1_placement_can_be_applied(kubeconfig: Path) -> None:
    async with Client.from_kubeconfig(kubeconfig) as client:
        applied: dict[str, Any] = {
            "apiVersion": "cluster.open-cluster-management.io/v1alpha1",
            "kind": "Placement",
            "metadata": {"name": "old", "namespace": "default"},
            "spec": {"prioritizerPolicy": {"configurations": [{"name": "Steady", "weight": 2}]}},
        }
        for _ in range(2):
            answer = await client.request(
                "PATCH",
                OLD,
                query={"fieldManager": "me"},
                body=applied,
                content_type="application/apply-patch+yaml",
            )
            shown = msgspec.json.decode(answer.body)
            assert shown["apiVersion"] == "cluster.open-cluster-management.io/v1alpha1"
            assert shown["metadata"]["generation"] == 1
        placement = await client.get(PLACEMENTS, "old", namespace="default")
        assert placement.spec.prioritizerPolicy is not None
        (configuration,) = placement.spec.prioritizerPolicy.configurations
        assert configuration.scoreCoordinate is not None
        assert (configuration.scoreCoordinate.builtIn, configuration.weight) == ("Steady", 2)
