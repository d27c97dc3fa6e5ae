"""Keep a certificate valid: request it, store it, and replace it before it expires.

A cluster's certificate is stored in the state folder, an add-on's in a Secret; both are a ``CredentialStore`` here.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final, Protocol

from fairway.klusterlet import names
from fairway.klusterlet.certificates import CertificateError, KeyPair
from fairway.klusterlet.enrolment import CertificateSpec, Enrolment, PendingCertificate
from fairway.klusterlet.errors import KlusterletError, Refused
from kubewire.api.meta import FALSE, TRUE, Condition, format_time
from kubewire.client import SYSTEM_CLOCK, Backoff, Client, Clock, KubeError

log: Final = logging.getLogger(__name__)

LEFT: Final = 0.2
LEFT_SPREAD: Final = 0.05
"""Share of the validity at which a certificate is renewed, with a random spread for the renewals of a fleet."""
LEAST_USED: Final = 0.5
CHECK_SECONDS: Final = 300.0
"""Maximum interval of checks: stored files may be lost, and clocks may be set."""
REFUSED_SECONDS: Final = 300.0
"""Pause after a denied request."""

UPDATED: Final = "ClientCertificateUpdated"
UPDATE_FAILED: Final = "ClientCertificateUpdateFailed"

CONDITIONS: Final = {
    ("ManagedCluster", names.ROTATED): {
        UPDATED: "The agent has renewed its certificate.",
        UPDATE_FAILED: "The agent could not renew its certificate.",
    }
}
UPDATED_MESSAGE: Final = "client certificate rotated starting from {begins} to {ends}"
FAILED_MESSAGE: Final = "Failed to rotate the client certificate: {why}"

MISSING: Final = "it is missing"
FOR_ANOTHER: Final = "it has another user or other groups"
ENDS_SOON: Final = "it expires at {ends}"
CHANGED: Final = "{name} does not match it"
RENEWING: Final = "renewing the certificate of %s: %s"
RENEWED: Final = "the certificate of %s is valid until %s"
FAILED: Final = "cannot renew the certificate of %s: %s"

_BACKOFF: Final = Backoff(base=1.0, cap=60.0)

ReportCondition = Callable[[Condition], Awaitable[None]]


class CredentialStore(Protocol):
    """Stores the files of an identity. Raises KubeErrors or OSErrors."""

    async def read(self) -> Mapping[str, bytes]: ...

    async def write(self, files: Mapping[str, bytes]) -> None:
        """Replace these files atomically, and keep others."""


class Renewal:
    """``beside``: further files of the identity; if one differs, another certificate is requested."""

    def __init__(
        self,
        hub: Client,
        wanted: CertificateSpec,
        store: CredentialStore,
        *,
        pending: PendingCertificate,
        report: ReportCondition,
        beside: Mapping[str, bytes] | None = None,
        left: float = LEFT,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._wanted, self._store, self._report, self._clock = wanted, store, report, clock
        self._beside = dict(beside or {})
        self._enrolment = Enrolment(hub, wanted, pending=pending)
        # Drawn once per process: certificates of a fleet that was registered in one hour would be renewed in one hour,
        # too, and with a new draw in every check the earliest one would win.
        self._left = left + random.uniform(0, LEFT_SPREAD)
        self._not_before: datetime | None = None
        """Minimum use of a new certificate, which may be due from its start if it is short-lived."""
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Check the stored files now."""
        self._woken.set()

    async def run(self) -> None:
        failures = 0
        while True:
            # Before the check: a wake during it must cause another one.
            self._woken.clear()
            try:
                pause = await self.check()
            except (KubeError, KlusterletError, OSError) as error:
                await self._report_failure(error)
                refused = isinstance(error, Refused)
                # A denial is a decision of a person or of a policy: asking again at once only fills the hub with
                # requests.
                pause = REFUSED_SECONDS if refused else _BACKOFF.delay(failures) * random.uniform(0.5, 1.0)
                failures += 1
            else:
                failures = 0
            try:
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def check(self) -> float:
        """Renew the certificate if necessary. Return the seconds until the next check."""
        files = await self._store.read()
        reason, due = self._evaluate(files)
        if reason is not None:
            log.info(RENEWING, self._wanted.subject.user, reason)
            pair = await self._enrolment.obtain()
            await self._store.write({**self._beside, names.KEY: pair.key, names.CERTIFICATE: pair.chain})
            self._enrolment.mark_stored()
            certificate = pair.check()
            log.info(RENEWED, self._wanted.subject.user, format_time(certificate.ends))
            now = self._clock.wall()
            # A signer that caps the validity to minutes, or backdates the start, may return a certificate whose renewal
            # is due at once: without a minimum use, agents would request certificates in a loop.
            self._not_before = now + (certificate.ends - now) * LEAST_USED
            due = max(certificate.renewal_time(left=self._left), self._not_before)
            await self._report(_success_condition(certificate.begins, certificate.ends))
        else:
            self._enrolment.mark_stored()  # an earlier process may have been killed before this
        assert due is not None
        return min(max((due - self._clock.wall()).total_seconds(), 1.0), CHECK_SECONDS)

    def _evaluate(self, files: Mapping[str, bytes]) -> tuple[str | None, datetime | None]:
        """Return why another certificate is needed, or when it will be."""
        if names.CERTIFICATE not in files or names.KEY not in files:
            return MISSING, None
        try:
            certificate = KeyPair(files[names.KEY], files[names.CERTIFICATE]).check()
        except CertificateError as fault:
            return str(fault), None
        if not certificate.is_for(self._wanted.subject):
            return FOR_ANOTHER, None
        for name, content in self._beside.items():
            if files.get(name) != content:
                return CHANGED.format(name=name), None
        due = certificate.renewal_time(left=self._left)
        if self._not_before is not None:
            due = max(due, min(self._not_before, certificate.ends))
        if self._clock.wall() >= due:
            return ENDS_SOON.format(ends=format_time(certificate.ends)), None
        return None, due

    async def _report_failure(self, error: Exception) -> None:
        log.warning(FAILED, self._wanted.subject.user, error)
        try:
            await self._report(_failure_condition(str(error)))
        except KubeError:
            return  #  the hub may be unreachable for both


def _success_condition(begins: datetime, ends: datetime) -> Condition:
    message = UPDATED_MESSAGE.format(begins=format_time(begins), ends=format_time(ends))
    return Condition(type=names.ROTATED, status=TRUE, reason=UPDATED, message=message)


def _failure_condition(why: str) -> Condition:
    message = FAILED_MESSAGE.format(why=why[:1000])
    return Condition(type=names.ROTATED, status=FALSE, reason=UPDATE_FAILED, message=message)
