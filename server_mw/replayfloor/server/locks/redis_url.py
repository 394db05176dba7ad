"""What a lock's URL says: one server, a service that sentinels watch, or a cluster.

    redis://[user:password@]host[:port][/db]       rediss://… with TLS
    unix:///path/to/socket[?db=0]
    redis+sentinel://[user:password@]host[:port][,host[:port]…]/service[/db]
    redis+cluster://[user:password@]host[:port][,host[:port]…]

`rediss+sentinel://` and `rediss+cluster://` use TLS everywhere. Every form takes redis-py's options
as a query (`?ssl_ca_certs=…`), that with sentinels also `sentinel_username` and
`sentinel_password`. Reserved characters in a name or password are percent-encoded.

Nothing is connected here, and no message repeats what it was given: it may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar, cast
from urllib.parse import SplitResult, urlsplit

from redis.connection import parse_url  # pyright: ignore[reportUnknownVariableType]
from redis.exceptions import RedisClusterException, RedisError

from replayfloor.core.errors import ConfigurationError

T = TypeVar("T")

SCHEMES = (
    "redis",
    "rediss",
    "unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
)

REDIS_PORT = 6379
SENTINEL_PORT = 26379
"""The ports that the servers listen on by default."""

Options = Mapping[str, object]
"""Arguments of a redis-py connection, and those of its pool."""

POOL_OPTIONS = frozenset({"max_connections"})
"""Options that are the pool's alone."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class OneServer:
    """A server; `options` hold its address as well, or the path of its socket."""

    options: Options
    tls: bool


@dataclass(frozen=True, slots=True)
class Sentinels:
    """A service whose primary the sentinels know; `options` are for its servers."""

    addresses: tuple[Address, ...]
    service: str
    options: Options
    sentinel_options: Options
    tls: bool


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster; `addresses` are some of its nodes, from which the others are learnt."""

    addresses: tuple[Address, ...]
    options: Options
    tls: bool


_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.DOTALL)
"""RFC 3986, 3: the scheme, the authority, and what follows it."""

Target = OneServer | Sentinels | Cluster


def parse(url: str) -> Target:
    """Return what a URL means. Raises ConfigurationError if it is not one of the forms above."""
    try:
        parts = _split(url)
        scheme, _plus, kind = parts.scheme.partition("+")
        if parts.scheme not in SCHEMES:
            _refuse("the scheme is not one of " + ", ".join(SCHEMES))
        match kind:
            case "sentinel":
                return _sentinels(parts, scheme)
            case "cluster":
                return _cluster(parts, scheme)
            case _:
                return _one_server(parts)
    except ConfigurationError:
        raise
    except ValueError:
        # Without the cause: it may repeat the text.
        _refuse("it cannot be parsed")


def _split(url: str) -> SplitResult:
    """Split a URL that may name several hosts.

    Newer Pythons take those for one bad host if a later one is in brackets, so the authority is
    kept from them; each host is looked at by itself later.
    """
    found = _AUTHORITY.match(url)
    if found is None:
        return urlsplit(url)
    scheme, authority, rest = found.groups()
    return urlsplit(f"{scheme}://{rest}")._replace(netloc=authority)


def configured(make: Callable[[], T]) -> T:
    """Return what `make` makes of a URL's options.

    Raises ConfigurationError for options that redis-py does not know or want.
    """
    try:
        return make()
    except ConfigurationError:
        raise
    except (TypeError, ValueError, RedisError, RedisClusterException):
        # Without the cause: it may repeat the text.
        _refuse("redis-py does not take one of its options")


def check_options(connection_class: Callable[..., object], options: Options) -> None:
    """Let redis-py refuse a connection's options (see `configured`).

    It would do so itself, but only when it connects for the first time, within a request.
    """
    connection_class(**{name: options[name] for name in options if name not in POOL_OPTIONS})


def _one_server(parts: SplitResult) -> OneServer:
    if parts.scheme == "unix":
        if not parts.path:
            _refuse("the path of the socket is missing")
        return OneServer(_options(parts, "unix", parts.netloc, parts.path), tls=False)
    if "," in parts.netloc.rpartition("@")[2]:
        _refuse("several hosts need +sentinel or +cluster in the scheme")
    path = f"/{_database(parts.path.strip('/'))}"
    return OneServer(_options(parts, parts.scheme, parts.netloc, path), parts.scheme == "rediss")


def _sentinels(parts: SplitResult, scheme: str) -> Sentinels:
    service, _slash, database = parts.path.strip("/").partition("/")
    if not service:
        _refuse("the name of the service is missing: …host:26379/service")
    addresses = _addresses(parts, scheme, SENTINEL_PORT)
    options = _options(parts, scheme, _user(parts) + "host", f"/{_database(database)}")
    del options["host"]
    of_sentinels = {
        name: options.pop(f"sentinel_{name}")
        for name in ("username", "password")
        if f"sentinel_{name}" in options
    }
    shared = {name: options[name] for name in options if name.startswith(("ssl_", "socket_"))}
    return Sentinels(addresses, service, options, shared | of_sentinels, scheme == "rediss")


def _cluster(parts: SplitResult, scheme: str) -> Cluster:
    if parts.path.strip("/") not in ("", "0"):
        _refuse("a cluster has one database, 0")
    options = _options(parts, scheme, _user(parts) + "host", "/")
    del options["host"]
    if options.pop("db", 0) != 0:
        _refuse("a cluster has one database, 0")
    return Cluster(_addresses(parts, scheme, REDIS_PORT), options, scheme == "rediss")


def _addresses(parts: SplitResult, scheme: str, default_port: int) -> tuple[Address, ...]:
    hosts = parts.netloc.rpartition("@")[2].split(",")
    split = [urlsplit(f"{scheme}://{host}") for host in hosts]
    if not all(one.hostname for one in split):
        _refuse("a host is missing")
    return tuple(Address(one.hostname or "", one.port or default_port) for one in split)


def _options(parts: SplitResult, scheme: str, netloc: str, path: str) -> dict[str, object]:
    """Return redis-py's reading of the part that it knows as well."""
    url = f"{scheme}://{netloc}{path}?{parts.query}"
    options = cast("dict[str, object]", cast("Any", parse_url)(url))
    options.pop("connection_class", None)
    if "decode_responses" in options:
        _refuse("fences and receipts are bytes, so decode_responses is not an option")
    return options


def _user(parts: SplitResult) -> str:
    user, at, _hosts = parts.netloc.rpartition("@")
    return user + at


def _database(text: str) -> int:
    if text and not text.isdecimal():
        _refuse("the database is not a number")
    return int(text or 0)


def _refuse(why: str) -> NoReturn:
    raise ConfigurationError(
        f"not a usable Redis URL: {why}. Expected redis://host:port/db, "
        "redis+sentinel://host:port,host:port/service/db or redis+cluster://host:port,host:port"
    ) from None
