"""Embedded hubs with static tokens of the test users."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from fairway.testing.hub import hub_in_thread
from security.wire import USERS, Hub

TOKENS = {user: f"token-of-{user}" for user in USERS}


def write_tokens(folder: Path) -> Path:
    path = folder / "tokens.csv"
    lines = (f'{TOKENS[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in USERS.items())
    path.write_text("".join(lines))
    return path


@contextmanager
def started(folder: Path) -> Iterator[Hub]:
    """Run an embedded hub in a thread, with its data in the folder."""
    data = folder / "data"
    with hub_in_thread(folder=folder, data=data, definitions=(), tokens=write_tokens(folder)) as hub:
        yield target_of(hub.url, authority=hub.authority, data=data)


def target_of(url: str, *, authority: Path, data: Path) -> Hub:
    address = urlsplit(url)
    assert address.hostname
    assert address.port
    return Hub(
        kind="embedded",
        host=address.hostname,
        port=address.port,
        authority=authority,
        tokens=TOKENS,
        folder=data / "pki",
        account_key=data / "pki" / "tokens.pem",
    )
