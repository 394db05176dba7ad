"""What was read of Redis. Values only; a figure that could not be read is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Words: TypeAlias = Mapping[str, str]


class Kind(StrEnum):
    """What the URL says that is there."""

    ONE = "one server"
    SENTINELS = "sentinels"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Server:
    """One server that holds locks.

    Attributes:
        name: host and port.
        failed: why it could not be asked at all; "" if it could.
        info: the fields of INFO; None if it is forbidden.
        config: the fields of CONFIG GET; None if it is forbidden.
        pings_s: how long round trips took, in seconds.
    """

    name: str
    failed: str = ""
    info: Words | None = None
    config: Words | None = None
    pings_s: tuple[float, ...] = ()

    def text(self, name: str) -> str | None:
        """Return a field of INFO."""
        return None if self.info is None else self.info.get(name)

    def number(self, name: str) -> float | None:
        """Return a field of INFO that is a number."""
        return number(self.text(name))

    def option(self, name: str) -> str | None:
        """Return a field of CONFIG GET."""
        return None if self.config is None else self.config.get(name)


@dataclass(frozen=True, slots=True)
class Sentinel:
    """One sentinel, and what it says of the service; `failed` if it says nothing."""

    name: str
    failed: str = ""
    says: Words = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """Everything that was read.

    Attributes:
        kind: what the URL says.
        servers: those that hold locks: one, the sentinels' primary, or the cluster's primaries.
        sentinels: all that the URL names.
        service: that they watch.
        cluster: the fields of CLUSTER INFO; None if there is no cluster, or it cannot be read.
        failed: why none could be asked at all; "" if one could.
        usable: False if the URL is none, so that no worker would start with it.
    """

    kind: Kind
    servers: tuple[Server, ...] = ()
    sentinels: tuple[Sentinel, ...] = ()
    service: str = ""
    cluster: Words | None = None
    failed: str = ""
    usable: bool = True


def number(text: str | None) -> float | None:
    """Return the number that a text is; None if it is none."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
