"""Talks to a hub in plain HTTP: what a client library would hide is what matters here."""

import asyncio
import json
import ssl
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
from clients.exchanges import Call, Script, filled, lookup, normal
from yarl import URL


class Talk:
    def __init__(self, *, url: str, context: ssl.SSLContext, token: str = "") -> None:
        self.url = url
        self._context, self._token = context, token

    async def __aenter__(self) -> "Talk":
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._context),
            headers={**headers, "User-Agent": "suite/1"},
            timeout=aiohttp.ClientTimeout(total=240),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        type_: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, Any]:
        headers = {"Accept": accept}
        data = None
        if body is not None:
            headers["Content-Type"] = type_
            data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        async with self._session.request(
            method, URL(self.url + path, encoded=True), data=data, headers=headers
        ) as answer:
            text = await answer.text()
            try:
                return answer.status, json.loads(text)
            except ValueError:
                return answer.status, text

    def open(
        self, path: str, *, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """A response that is read as it arrives."""
        return self._session.get(URL(self.url + path, encoded=True), headers={"Accept": accept})

    async def run(self, script: Script, *, namespace: str) -> list[dict[str, Any]]:
        """The answers to a script, made comparable."""
        await self.call("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
        known = {"ns": namespace}
        answers = []
        for call in script.calls:
            body = None if call.body is None else json.loads(filled(json.dumps(call.body), known))
            code, answer = await self.call(
                call.method, filled(call.path, known), body=body, type_=call.type, accept=call.accept
            )
            if call.keep:
                known[call.keep.rpartition(".")[2]] = lookup(answer, call.keep)
            answers.append({"code": code, "body": normal(answer, namespace=namespace)})
        return answers


def described(call: Call) -> str:
    return f"{call.method} {call.path}" + (f" {json.dumps(call.body)[:200]}" if call.body is not None else "")


def context(kubeconfig: Path) -> tuple[str, ssl.SSLContext, str]:
    """The server, how to trust it and the token of a kubeconfig with everything embedded or beside it."""
    import base64
    import tempfile

    import yaml

    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    made = ssl.create_default_context()
    if "certificate-authority-data" in cluster:
        made.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    else:
        made.load_verify_locations(cafile=str(kubeconfig.parent / cluster["certificate-authority"]))
    if "client-certificate-data" in user:
        with tempfile.TemporaryDirectory() as folder:
            pair = Path(folder, "pair.pem")
            pair.write_bytes(
                base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
            )
            made.load_cert_chain(pair)
    return cluster["server"], made, user.get("token", "")


async def established(talk: Talk, name: str) -> None:
    """Wait until the hub serves and discovers a CRD, which may be a moment after its condition."""
    while True:
        _, definition = await talk.call(
            "GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        )
        conditions = {
            c["type"]: c["status"] for c in (definition.get("status") or {}).get("conditions") or ()
        }
        if conditions.get("Established") == "True":
            break
        await asyncio.sleep(0.05)
    spec = definition["spec"]
    plural = spec["names"]["plural"]
    for version in (listed["name"] for listed in spec["versions"] if listed["served"]):
        path = f"/apis/{spec['group']}/{version}"
        while (await talk.call("GET", f"{path}/{plural}"))[0] != 200:
            await asyncio.sleep(0.05)
        while plural not in await _names(talk, path, "resources"):
            await asyncio.sleep(0.05)
    while spec["group"] not in await _names(talk, "/apis", "groups"):
        await asyncio.sleep(0.05)


async def _names(talk: Talk, path: str, part: str) -> set[str]:
    code, answer = await talk.call("GET", path)
    return {entry["name"] for entry in answer[part]} if code == 200 else set()
