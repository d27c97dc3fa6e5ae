"""Run all tasks of a registered agent."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fairway.klusterlet.addon_health import AddOnHealth
from fairway.klusterlet.addons import AddOnCredentials
from fairway.klusterlet.certificates import KeyPair
from fairway.klusterlet.errors import Refused
from fairway.klusterlet.heartbeat import Heartbeat
from fairway.klusterlet.local_agents import LocalAgents
from fairway.klusterlet.membership import Membership, wait_for_access
from fairway.klusterlet.names import CERTIFICATE, KEY
from fairway.klusterlet.registration import UNACCEPTED, certificate_spec
from fairway.klusterlet.renewal import LEFT, Renewal
from fairway.klusterlet.report import CUSTOM_CLAIMS
from fairway.klusterlet.state import State
from fairway.klusterlet.status_reporter import HEALTH_SECONDS, StatusReporter
from fairway.klusterlet.works import WorkAgent
from kubewire.client import SYSTEM_CLOCK, Client, Clock

log: Final = logging.getLogger(__name__)

JOINED: Final = "cluster {name} has joined hub {server} as {user}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KlusterletOptions:
    """``certificate_seconds``: requested validity of certificates, which the hub's signer may ignore.

    ``left``: share of the validity at which a certificate is renewed. ``health_seconds``: interval of API checks.
    """

    certificate_seconds: int | None = None
    left: float = LEFT
    health_seconds: float = HEALTH_SECONDS
    most_claims: int = CUSTOM_CLAIMS
    local_agents: bool = False
    works: bool = True


class StateCredentialStore:
    """CredentialStore in the state folder."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def read(self) -> Mapping[str, bytes]:
        return self._state.hub.read()

    async def write(self, files: Mapping[str, bytes]) -> None:
        self._state.renew(KeyPair(files[KEY], files[CERTIFICATE]))


class Klusterlet:
    """``hub`` is a client with the identity in ``state``, ``cluster`` one of the managed cluster."""

    def __init__(
        self,
        hub: Client,
        cluster: Client,
        state: State,
        *,
        options: KlusterletOptions | None = None,
        notify: Callable[[str], None] = log.info,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._hub, self._cluster, self._state = hub, cluster, state
        self._options = options or KlusterletOptions()
        self._notify, self._clock = notify, clock

    async def run(self) -> None:
        """Run until cancelled. Raises Refused when the hub removes the cluster."""
        name, state, options = self._state.cluster, self._state, self._options
        wanted = certificate_spec(state, seconds=options.certificate_seconds)
        await wait_for_access(self._hub, name, waiting=lambda: self._notify(UNACCEPTED.format(name=name)))
        async with Membership(self._hub, name, clock=self._clock) as membership:
            renewal = Renewal(
                self._hub,
                wanted,
                StateCredentialStore(state),
                pending=state.pending("hub"),
                report=membership.report,
                left=options.left,
                clock=self._clock,
            )
            add_ons = AddOnCredentials(
                self._hub,
                self._cluster,
                state,
                left=options.left,
                seconds=options.certificate_seconds,
                clock=self._clock,
            )
            parts = [
                membership.wait_until_removed(),
                Heartbeat(self._hub, membership, clock=self._clock).run(),
                StatusReporter(
                    self._hub,
                    self._cluster,
                    membership,
                    health_seconds=options.health_seconds,
                    most_claims=options.most_claims,
                    clock=self._clock,
                ).run(),
                renewal.run(),
                add_ons.run(),
                AddOnHealth(self._hub, self._cluster, add_ons.informer, name=name, clock=self._clock).run(),
            ]
            if options.works:
                works = WorkAgent(self._hub, self._cluster, name, agent_id=state.agent_id, clock=self._clock)
                parts.append(works.run())
            if options.local_agents:
                parts.append(LocalAgents(self._cluster, state.agents, clock=self._clock).run())
            self._notify(
                JOINED.format(name=name, server=self._hub.connection.server, user=wanted.subject.user)
            )
            try:
                async with asyncio.TaskGroup() as group:
                    for part in parts:
                        group.create_task(part)
            except* Refused as refused:
                raise _first(refused) from None


def _first(group: BaseExceptionGroup[Refused]) -> Refused:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Refused)
    return error
