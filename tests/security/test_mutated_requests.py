"""The hub answers every mutated request and continues to serve."""

import asyncio
import os
from itertools import chain
from pathlib import Path
from random import SystemRandom
from typing import Any

import aiohttp
import yaml
from clients.boat_crd import DEFINITION
from clients.talk import context
from yarl import URL

from error_logs import recorded_errors
from fairway.api import crds
from fairway.testing.hub import embedded_hub
from security.mutations import Mutant, Mutator

REQUESTS = int(os.environ.get("FAIRWAY_FUZZ", "400"))
"""Number of requests; raise it to search longer."""
SEED = int(os.environ.get("FAIRWAY_SEED", "0" if os.environ.get("CI") else SystemRandom().randrange(10**9)))
ANSWERED_SECONDS = 120.0
INTERNAL = "InternalError"


async def answer(session: aiohttp.ClientSession, url: str, mutant: Mutant) -> tuple[int, Any]:
    target = URL(url + mutant.path, encoded=True)
    async with asyncio.timeout(ANSWERED_SECONDS):
        async with session.request(
            mutant.method,
            target,
            data=mutant.body or None,
            headers=mutant.headers,
            skip_auto_headers=["Accept"],
        ) as response:
            if response.status == 200 and mutant.watches:
                response.close()
                return response.status, None
            raw = await response.read()
            return response.status, yaml.safe_load(raw) if response.status >= 500 else None


def failed(code: int, document: Any) -> bool:
    """Return whether the hub failed. Some rejections are a 500 in kube-apiserver, too, but without a reason."""
    return code >= 500 and (not isinstance(document, dict) or document.get("reason") == INTERNAL)


async def test_mutated_requests_are_answered_and_the_hub_serves_on(tmp_path: Path) -> None:
    async with embedded_hub(definitions=(*crds(), DEFINITION)) as hub:
        hub.certificates.write_kubeconfig(tmp_path / "kubeconfig", server=hub.url)
        _, tls, _ = context(tmp_path / "kubeconfig")
        served = (hub.registry.of_key(key) for key in tuple(hub.registry.keys()))
        mutator = Mutator(SEED, [resource for resource in served if resource is not None])
        connector = aiohttp.TCPConnector(ssl=tls, limit=1)
        with recorded_errors() as errors:
            async with aiohttp.ClientSession(connector=connector) as session:
                mutants = chain(mutator.valid(), (mutator.request() for _ in range(REQUESTS)))
                for number, mutant in enumerate(mutants):
                    code, document = await answer(session, hub.url, mutant)
                    assert not failed(code, document), (SEED, number, mutant, document)
                    assert not errors, (SEED, number, mutant, errors)
                ordinary = Mutant(
                    method="POST",
                    path="/api/v1/namespaces/default/configmaps",
                    headers={"Content-Type": "application/json"},
                    body=b'{"metadata":{"name":"after-all"}}',
                )
                assert (await answer(session, hub.url, ordinary))[0] == 201
