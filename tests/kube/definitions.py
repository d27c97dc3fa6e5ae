"""When the kinds of a definition can be used."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rigs.kubernetes import Tools, kubectl
from rigs.processes import POLL

SECONDS = 120
NOT_SERVED = "kubectl still doesn't find all kinds: {errors}"


async def known(tools: Tools, definitions: Iterable[Mapping[str, Any]], *, kubeconfig: Path) -> None:
    """Until kubectl finds them all.

    `kubectl wait` is no way to know: it fails at once where a definition has no conditions yet, and discovery may be
    behind the condition it waits for.
    """
    kinds = ",".join(
        f"{definition['spec']['names']['plural']}.{definition['spec']['group']}" for definition in definitions
    )
    errors = ""
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                asked = ("get", kinds, "--all-namespaces", "--output=name")
                ran = await kubectl(tools, *asked, kubeconfig=kubeconfig)
                if ran.status == 0:
                    return
                errors = ran.errors
                await asyncio.sleep(POLL)
    except TimeoutError:
        raise AssertionError(NOT_SERVED.format(errors=errors)) from None
