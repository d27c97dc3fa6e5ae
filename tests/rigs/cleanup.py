"""Deletes what tests and benchmarks created on a hub."""

from typing import Any

from kubewire.client import Client, Resource


async def delete_all(
    client: Client,
    resource: Resource[Any],
    *,
    namespace: str | None = None,
    labels: str = "",
    grace_period: int | None = None,
) -> None:
    """Delete a collection, or the objects in it with these labels."""
    query = {"labelSelector": labels} if labels else {}
    body = {} if grace_period is None else {"gracePeriodSeconds": grace_period}
    await client.request("DELETE", resource.path(namespace=namespace), query=query, body=body)
