"""Many clients read, create, replace and delete the same few objects; the history of each object is linearizable."""

import asyncio
import random
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from chaos.linearizability import Access, AccessKind, Operation, order, register
from chaos.record import Key, Record, State, Verb, Write
from chaos.servers import RealServer, Server, client_of, embedded_server
from chaos.token_objects import CONFIG_MAPS, create_kinds
from chaos.traffic import TrafficProgress, Writer

VERBS: Mapping[str, int] = {"create": 20, "update": 40, "patch": 10, "delete": 15, "get": 30, "touch": 10}
WRITES = 1_000
WRITERS = 8
NAMES = ("one", "two")
KINDS: Mapping[str, AccessKind] = {"create": "create", "update": "swap", "patch": "write", "delete": "delete"}


def histories(record: Record) -> dict[Key, list[Operation[Access]]]:
    """Convert the record to accesses of registers of tokens; each version has its own token."""
    tokens = _tokens(record)
    made: dict[Key, list[Operation[Access]]] = defaultdict(list)
    for look in record.looks:
        access = Access(kind="read", value=look.state.token if look.state else None)
        made[look.key].append(Operation(call=access, begun=look.begun, ended=look.ended))
    for write in record.writes:
        if write.outcome != "unsent":
            operation = Operation(
                call=_access(write, tokens),
                begun=write.begun,
                ended=write.ended,
                optional=write.outcome == "unknown",
            )
            made[write.key].append(operation)
    return made


def _tokens(record: Record) -> dict[tuple[Key, int], str]:
    states = [look.state for look in record.looks] + [write.state for write in record.writes]
    tokens: dict[tuple[Key, int], str] = {}
    for state in states:
        if state is not None:
            known = tokens.setdefault((state.key, state.version), state.token)
            assert known == state.token, f"{state} and {known} have the same version"
    return tokens


def _access(write: Write, tokens: Mapping[tuple[Key, int], str]) -> Access:
    assert write.outcome != "unsent"
    return Access(
        kind=KINDS[write.verb],
        value=None if write.verb == "delete" else write.token,
        result=write.outcome,
        expected=None if write.expected is None else tokens[write.key, write.expected],
    )


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    if request.param == "real":
        yield RealServer(request.getfixturevalue("real_hub"))
        return
    async with embedded_server(folder=tmp_path) as embedded:
        yield embedded


@pytest.mark.parametrize("kills", [0, 3])
async def test_concurrent_accesses_of_each_object_are_linearizable(
    server: Server, chance: random.Random, length: int, kills: int
) -> None:
    record, pulse = Record(), TrafficProgress()
    over = False
    namespace = f"chaos-{uuid.uuid4().hex[:8]}"  # not of the seed: a real hub keeps what an earlier test made
    async with AsyncExitStack() as stack:
        writers = [
            Writer(
                name=f"w{number}",
                client=await stack.enter_async_context(client_of(server)),
                record=record,
                pulse=pulse,
                chance=random.Random(chance.random()),
                verbs=VERBS,
                resources=(CONFIG_MAPS,),
                namespaces=(namespace,),
                names=NAMES,
            )
            for number in range(WRITERS)
        ]
        await create_kinds(writers[0].client, namespace)
        async with asyncio.TaskGroup() as traffic:
            for writer in writers:
                traffic.create_task(writer.run(until=lambda: over))
            for _ in range(kills):
                await pulse.sends(length * WRITES // (kills + 1))
                await pulse.answer()
                pulse.alive.clear()
                await server.crash()
                await server.start()
                pulse.alive.set()
            await pulse.sends(length * WRITES // (kills + 1))
            over = True
    for key, operations in histories(record).items():
        assert order(operations, initial=None, step=register) is not None, _format(key, operations)
    seen = {(write.verb, write.outcome) for write in record.writes}
    assert {("update", "conflict"), ("update", "done"), ("create", "exists"), ("delete", "conflict")} <= seen


def _format(key: Key, operations: list[Operation[Access]]) -> str:
    lines = [f"{operation.begun:.4f} {operation.ended:.4f} {operation.call}" for operation in operations]
    return f"no order explains {key}:\n" + "\n".join(sorted(lines))


def test_lost_update_is_not_linearizable() -> None:
    """Two clients replaced the same version."""

    def state(version: int, token: str) -> State:
        return State(key=("configmaps", "a", "one"), uid="u", version=version, token=token)

    record = Record()
    deeds: list[tuple[Verb, int | None, State]] = [
        ("create", None, state(5, "a")),
        ("update", 5, state(6, "b")),
        ("update", 5, state(7, "c")),
    ]
    for at, (verb, expected, made) in enumerate(deeds):
        write = Write(
            verb=verb,
            key=made.key,
            token=made.token,
            begun=at,
            ended=at + 0.5,
            outcome="done",
            expected=expected,
            state=made,
        )
        record.writes.append(write)
        (operations,) = histories(record).values()
        assert (order(operations, initial=None, step=register) is None) == (at == 2)
