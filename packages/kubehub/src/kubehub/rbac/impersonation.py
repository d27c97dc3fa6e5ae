"""Impersonation: authorize what the Impersonate headers name.

Kubernetes has several modes. The constrained ones need two permissions, to be that user (``impersonate:<mode>``)
and to do this while impersonating (``impersonate-on:<mode>:<verb>``), and exclude the group system:masters. The
legacy mode needs ``impersonate`` alone. The first mode that allows the request is used; the refusal is that of the
first mode that applies.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

import msgspec

from kubehub import status
from kubehub.authn.service_account_tokens import NODE_NAME, account_of, groups
from kubehub.rbac.authorizer import Attributes, Authorizer, refusal
from kubehub.user import ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User
from kubewire.api import naming
from kubewire.api.selector import quote

USER: Final = "impersonate-user"
GROUP: Final = "impersonate-group"
UID: Final = "impersonate-uid"
EXTRA: Final = "impersonate-extra-"

EMPTY_GROUP: Final = "impersonating the empty string group is not allowed"
MASTERS_GROUP: Final = "impersonating the system:masters group is not allowed"
EMPTY_KEY: Final = "impersonating the empty string key in extra is not allowed"
EMPTY_VALUE: Final = "impersonating the empty string value in extra is not allowed"

_AUTHENTICATION: Final = "authentication.k8s.io"
_CACHE_SIZE: Final = 4096
_MODES: Final = ("associated-node", "arbitrary-node", "serviceaccount", "user-info", "")
"""In the order in which they are tried; the last, without a name, is the legacy mode."""


def requested_user(headers: Iterable[tuple[str, str]]) -> User | None:
    """Return the user that the headers name; None without headers. Raises a 400 for headers without a user."""
    name = uid = ""
    listed: list[str] = []
    extra: dict[str, list[str]] = {}
    for header, value in headers:
        key = header.lower()
        if key == USER:
            name = name or value
        elif key == UID:
            uid = uid or value
        elif key == GROUP:
            listed.append(value)
        elif key.startswith(EXTRA):
            extra.setdefault(unquote(key.removeprefix(EXTRA)), []).append(value)
    if not name:
        if uid or listed or extra:
            raise status.bad_request(
                f'requested &user.DefaultInfo{{Name:"", UID:{quote(uid)}, Groups:{_format_slice(listed)}, '
                f"Extra:{_format_map(extra)}}} without impersonating a user name"
            )
        return None
    return User(name=name, uid=uid, groups=tuple(listed), extra={key: tuple(v) for key, v in extra.items()})


class Impersonation:
    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._last: dict[str, str] = {}

    def impersonate(self, user: User, headers: Iterable[tuple[str, str]], attributes: Attributes) -> User:
        """Return the effective user of a request: its own, or the impersonated one. Raises a 400 or a 403."""
        named = requested_user(headers)
        if named is None:
            return user
        # Try the mode that succeeded last time first; its refusal is the one that the client expects.
        last = self._last.get(user.name)
        modes = _MODES if last is None else (last, *(mode for mode in _MODES if mode != last))
        first: status.Refusal | None = None
        for mode in modes:
            if not _applies(mode, named, user):
                continue
            try:
                became = self._check_mode(mode, user, named, attributes)
            except status.Refusal as fault:
                first = first or fault
                continue
            if len(self._last) >= _CACHE_SIZE:
                self._last.clear()
            self._last[user.name] = mode
            return became
        assert first is not None  # the legacy mode always applies
        raise first

    def _check_mode(self, mode: str, user: User, named: User, attributes: Attributes) -> User:
        if mode:
            on = msgspec.structs.replace(attributes, verb=f"impersonate-on:{mode}:{attributes.verb}")
            self._authorizer.authorize(user, on)
        for asked in _identity(mode, named):
            self._authorizer.authorize(user, asked)
        for asked, fault in _parts(mode, named):
            if fault:
                raise refusal(user, asked, fault)
            self._authorizer.authorize(user, asked)
        return _add_implied_groups(mode, named)


def _applies(mode: str, named: User, user: User) -> bool:
    node, account = _node_of(named.name), account_of(named.name)
    alone = not (named.uid or named.groups or named.extra)
    match mode:
        case "associated-node":
            here = user.extra.get(NODE_NAME, ())
            return alone and node is not None and account_of(user.name) is not None and here == (node,)
        case "arbitrary-node":
            return alone and node is not None
        case "serviceaccount":
            return alone and account is not None
        case "user-info":
            return node is None and account is None
        case _:
            return True


def _node_of(name: str) -> str | None:
    node = name.removeprefix("system:node:")
    return node if node != name and not naming.subdomain(node) else None


def _identity(mode: str, named: User) -> Iterator[Attributes]:
    verb = f"impersonate:{mode}" if mode else "impersonate"
    group = _AUTHENTICATION if mode else ""
    account, node = account_of(named.name), _node_of(named.name)
    if account is not None:
        yield Attributes(
            verb=verb, group=group, resource="serviceaccounts", namespace=account[0], name=account[1]
        )
    elif mode and node is not None:
        # Permission to impersonate the associated node includes permission for any node.
        own = "*" if mode == "associated-node" else node
        yield Attributes(verb=verb, group=group, resource="nodes", name=own)
    else:
        yield Attributes(verb=verb, group=group, resource="users", name=named.name)


def _parts(mode: str, named: User) -> Iterator[tuple[Attributes, str]]:
    """Yield everything but the name, each with the reason why this mode excludes it."""
    verb = f"impersonate:{mode}" if mode else "impersonate"
    if named.uid:
        yield Attributes(verb=verb, group=_AUTHENTICATION, resource="uids", name=named.uid), ""
    core = _AUTHENTICATION if mode else ""
    if mode and "" in named.groups:
        yield Attributes(verb=verb, group=core, resource="groups"), EMPTY_GROUP
    if mode and MASTERS in named.groups:
        yield Attributes(verb=verb, group=core, resource="groups", name=MASTERS), MASTERS_GROUP
    for group in named.groups:
        yield Attributes(verb=verb, group=core, resource="groups", name=group), ""
    extras = Attributes(verb=verb, group=_AUTHENTICATION, resource="userextras")
    if mode and "" in named.extra:
        yield extras, EMPTY_KEY
    if mode and any("" in values for values in named.extra.values()):
        yield extras, EMPTY_VALUE
    for key, values in sorted(named.extra.items()):
        for value in values:
            yield msgspec.structs.replace(extras, subresource=key, name=value), ""


def _add_implied_groups(mode: str, named: User) -> User:
    """Add the groups that every such user has."""
    listed = named.groups
    account = account_of(named.name)
    if mode and _node_of(named.name) is not None:
        listed = ("system:nodes",)
    elif account is not None and not listed:
        listed = groups(account[0])
    always = UNAUTHENTICATED if named.name == ANONYMOUS else AUTHENTICATED
    if always not in listed and UNAUTHENTICATED not in listed:
        listed = (*listed, always)
    return User(name=named.name, uid=named.uid, groups=listed, extra=named.extra)


def _format_slice(texts: list[str]) -> str:
    return f"[]string{{{', '.join(map(quote, texts))}}}" if texts else "[]string(nil)"


def _format_map(extra: Mapping[str, list[str]]) -> str:
    if not extra:
        return "map[string][]string(nil)"
    inner = ", ".join(f"{quote(key)}:{_format_slice(extra[key])}" for key in sorted(extra))
    return f"map[string][]string{{{inner}}}"
