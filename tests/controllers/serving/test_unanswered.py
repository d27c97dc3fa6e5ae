"""Failed access reviews deny access without details."""

from collections.abc import AsyncIterator

import pytest

from controllers.serving.asking import LOOPBACK, Answer, ask
from controllers.serving.inspecting import Fleet
from fairway.controllers.serving import Address, endpoint
from fairway.controllers.serving.access import AccessDecision, Authorizer, TooManyReviews, User
from fairway.controllers.serving.endpoint import DebugEndpoint
from fairway.controllers.serving.http_server import listening
from fairway.testing.builders import placement
from kubewire.client import Client, Connection, Forbidden, KubeError, TransportError

PATH = "/debug/placements/ns1/p1"
WORDS = 'User "system:serviceaccount:fairway-system:fairway" cannot create resource'


class RecordingAuthorizer(Authorizer):
    """Allows everything by default."""

    def __init__(self) -> None:
        super().__init__(Client(Connection(server="https://hub.invalid")))
        self.of_user: Exception | None = None
        self.of_path: Exception | None = None
        self.of_placements: Exception | None = None

    async def user(self, token: str, *, peer: str = "") -> User | None:
        if self.of_user is not None:
            raise self.of_user
        return User(name="alice")

    async def path(self, user: User, *, verb: str, path: str) -> AccessDecision:
        if self.of_path is not None:
            raise self.of_path
        return AccessDecision(True)

    async def placements(self, user: User, *, verb: str, namespace: str) -> AccessDecision:
        if self.of_placements is not None:
            raise self.of_placements
        return AccessDecision(True)


@pytest.fixture
def questions() -> RecordingAuthorizer:
    return RecordingAuthorizer()


@pytest.fixture
def fleet() -> Fleet:
    return Fleet([placement()])


@pytest.fixture
async def here(questions: RecordingAuthorizer, fleet: Fleet) -> AsyncIterator[Address]:
    served = DebugEndpoint(questions, fleet, ready=lambda: ())
    async with listening(LOOPBACK, served.handle) as address:
        yield address


async def get(here: Address) -> Answer:
    return await ask(here, "GET", PATH, token="t")


async def test_request_with_all_rights_is_answered(here: Address) -> None:
    assert (await get(here)).code == 200


async def test_failed_token_review_returns_500_without_its_message(
    here: Address, questions: RecordingAuthorizer, fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    questions.of_user = Forbidden(WORDS, code=403)
    answer = await get(here)
    assert (answer.code, answer.error) == (500, endpoint.UNCHECKED.format(why=endpoint.NO_REVIEW))
    assert WORDS in caplog.text
    assert fleet.seen == []


@pytest.mark.parametrize("error", [Forbidden(WORDS, code=403), TransportError("no response within 10 s")])
async def test_failed_access_review_of_the_path_returns_500(
    here: Address, questions: RecordingAuthorizer, fleet: Fleet, error: KubeError
) -> None:
    questions.of_path = error
    answer = await get(here)
    assert (answer.code, answer.error) == (500, f"failed to check permissions: {error}")
    assert fleet.seen == []


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_failed_access_review_of_placements_returns_500(
    here: Address, questions: RecordingAuthorizer, fleet: Fleet, method: str
) -> None:
    questions.of_placements = TransportError("no response within 10 s")
    path = PATH if method == "GET" else "/debug/placements/"
    answer = await ask(here, method, path, token="t", body={"spec": {}} if method == "POST" else None)
    assert (answer.code, answer.error) == (500, "failed to check permissions: no response within 10 s")
    assert fleet.seen == []


async def test_too_many_unknown_tokens_return_429(here: Address, questions: RecordingAuthorizer) -> None:
    questions.of_user = TooManyReviews()
    answer = await get(here)
    assert (answer.code, answer.error) == (429, "too many requests, please try again later")
    assert answer.headers["retry-after"] == "1"


async def test_number_of_rate_limited_users_is_bounded(
    here: Address, questions: RecordingAuthorizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "USERS", 2)
    monkeypatch.setattr(endpoint, "BURST", 1)
    monkeypatch.setattr(endpoint, "EVERY", 1e6)
    names = iter(["a", "b", "a", "c", "a", "b"])

    async def user(token: str, *, peer: str) -> User | None:
        return User(name=next(names))

    monkeypatch.setattr(questions, "user", user)
    codes = [(await get(here)).code for _ in range(6)]
    # c displaced b, the least recently used.
    assert codes == [200, 200, 429, 200, 429, 200]
