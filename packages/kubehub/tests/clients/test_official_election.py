"""The official Python client elects a leader through a lease."""

import threading
from importlib import import_module
from typing import Any

import pytest
from clients.official import client

DEADLINE = 120

elections: Any = import_module("kubernetes.leaderelection.leaderelection")
settings: Any = import_module("kubernetes.leaderelection.electionconfig")
locks: Any = import_module("kubernetes.leaderelection.resourcelock.leaselock")


class Candidate:
    """Runs for election until its renewals are stopped."""

    def __init__(self, api: Any, *, namespace: str, name: str) -> None:
        self.leads = threading.Event()
        lock = locks.LeaseLock("helm", namespace, name)
        lock.api_instance = client.CoordinationV1Api(api)
        self._lock = lock
        config = settings.Config(
            lock,
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=self.leads.set,
            onstopped_leading=lambda: None,
        )
        self._thread = threading.Thread(target=elections.LeaderElection(config).run, daemon=True)

    def start(self) -> "Candidate":
        self._thread.start()
        return self

    def fall_silent(self) -> None:
        """Drop all further writes, as if the network were lost."""
        self._lock.update = lambda *_, **__: False
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()


@pytest.fixture
def leases(api: Any) -> Any:
    return client.CoordinationV1Api(api)


def test_official_leader_election_hands_over(api: Any, leases: Any, room: str) -> None:
    first = Candidate(api, namespace=room, name="first").start()
    assert first.leads.wait(DEADLINE)
    lease = leases.read_namespaced_lease("helm", room)
    assert lease.spec.holder_identity == "first"
    assert lease.spec.renew_time >= lease.spec.acquire_time
    second = Candidate(api, namespace=room, name="second").start()
    first.fall_silent()
    assert second.leads.wait(DEADLINE)
    lease = leases.read_namespaced_lease("helm", room)
    assert lease.spec.holder_identity == "second"
    second.fall_silent()
