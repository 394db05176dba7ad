"""Asks RabbitMQ's management API, over HTTP with the standard library. Judges nothing.

Reads /api/overview, the queue, and the queues that its dead-letter exchange leads to.
"""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import IO, Final, cast
from urllib.parse import quote, urlsplit

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention.brokers import BrokerUnavailable, Window, whole_number
from replayfloor.retention.brokers_rabbitmq import Queue, rabbitmq_window

USER_VARIABLE: Final = "RABBITMQ_USER"
PASSWORD_VARIABLE: Final = "RABBITMQ_PASSWORD"
"""Where the command line takes them from: arguments can be seen by every process of the machine."""

TIMEOUT_S: Final = 10.0
BYTES_MAX: Final = 8 * 1024 * 1024
"""A queue is some kilobytes; with a thousand consumers some megabytes."""

Content = Mapping[str, object]


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """A user of the management API: the tag `monitoring`, or `management`, is enough."""

    user: str
    password: str


def measure_rabbitmq(
    base_url: str,
    queue: str,
    *,
    read_on: date,
    credentials: Credentials | None = None,
    vhost: str = "/",
    moves_back: int = 1,
    timeout_s: float = TIMEOUT_S,
) -> Window:
    """Return how long a queue may hand out a message again.

    Args:
        base_url: of the management API, such as https://rabbit.example:15671.
        queue: its name.
        read_on: today, which stands beside the figure.
        credentials: of a user of the API.
        vhost: the virtual host of the queue.
        moves_back: how often a person moves one dead letter back.
        timeout_s: how long each answer is waited for, in seconds.

    Raises ConfigurationError for what was mistyped or is not allowed, and BrokerUnavailable if the
    broker did not answer.
    """
    api = _Api(_checked(base_url), credentials, timeout_s)
    version = str(api.get("overview").get("rabbitmq_version", ""))
    return rabbitmq_window(
        _with_dead_letters(api, vhost, _queue(api, vhost, queue)),
        version=version,
        source=f"{api.base_url}/api/queues/{_path(vhost, queue)}",
        read_on=read_on,
        moves_back=moves_back,
    )


def _checked(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError("the management API has an address such as http://127.0.0.1:15672")
    if parts.username is not None or parts.password is not None:
        # Not repeated: it may hold a password.
        raise ConfigurationError(
            f"leave user and password out of the address: set {USER_VARIABLE} and "
            f"{PASSWORD_VARIABLE}"
        )
    return base_url.rstrip("/").removesuffix("/api")


def _path(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)


# -- what is asked --------------------------------------------------------------------------------


def _queue(api: _Api, vhost: str, name: str) -> Queue:
    content = api.get(f"queues/{_path(vhost, name)}")
    arguments = _content(content.get("arguments"))
    details = content.get("consumer_details")
    consumers = cast("list[object]", details) if isinstance(details, list) else []
    given = [_content(_content(each).get("arguments")) for each in consumers]
    policy = _content(content.get("effective_policy_definition"))
    exchange = arguments.get("x-dead-letter-exchange", policy.get("dead-letter-exchange"))
    return Queue(
        name=name,
        type=str(content.get("type") or arguments.get("x-queue-type") or "classic"),
        arguments=arguments,
        policy=policy,
        consumer_timeouts_ms=tuple(
            whole_number("x-consumer-timeout of a consumer", each["x-consumer-timeout"])
            for each in given
            if "x-consumer-timeout" in each
        ),
        dead_letter_exchange=None if exchange is None else str(exchange),
    )


def _with_dead_letters(api: _Api, vhost: str, queue: Queue) -> Queue:
    dead = [_queue(api, vhost, name) for name in _targets(api, vhost, queue)]
    return replace(
        queue,
        dead_letters=tuple(dead),
        # A dead-letter queue that lets messages die back into the first is a retry by itself.
        returns=any(queue.name in _targets(api, vhost, each) for each in dead),
    )


def _targets(api: _Api, vhost: str, queue: Queue) -> list[str]:
    """Return the names of the queues to which dead letters go."""
    if queue.dead_letter_exchange is None:
        return []
    key = queue.arguments.get(
        "x-dead-letter-routing-key", queue.policy.get("dead-letter-routing-key")
    )
    if queue.dead_letter_exchange == "":
        # The default exchange leads to the queue whose name is the routing key.
        return [] if key is None else [str(key)]
    bindings = api.list(f"exchanges/{_path(vhost, queue.dead_letter_exchange)}/bindings/source")
    # Which of them a routing key matches depends on the exchange: each may get the message.
    names = (
        str(each.get("destination")) for each in bindings if each.get("destination_type") == "queue"
    )
    return list(dict.fromkeys(names))


def _content(value: object) -> Content:
    return cast("Content", value) if isinstance(value, dict) else {}


# -- how it is asked ------------------------------------------------------------------------------


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: the password would go along."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


@dataclass(frozen=True, slots=True)
class _Api:
    base_url: str
    credentials: Credentials | None
    timeout_s: float

    def get(self, path: str) -> Content:
        """Return an object of the API."""
        found = self._ask(path)
        if not isinstance(found, dict):
            raise BrokerUnavailable(f"{self.base_url}/api/{path} answered with no object")
        return cast("Content", found)

    def list(self, path: str) -> Iterator[Content]:
        """Yield the objects of a list of the API."""
        found = self._ask(path)
        if not isinstance(found, list):
            raise BrokerUnavailable(f"{self.base_url}/api/{path} answered with no list")
        for each in cast("list[object]", found):
            yield _content(each)

    def _ask(self, path: str) -> object:
        url = f"{self.base_url}/api/{path}"
        request = urllib.request.Request(url, headers={"Accept": "application/json"})
        if self.credentials is not None:
            pair = f"{self.credentials.user}:{self.credentials.password}".encode()
            request.add_header("Authorization", f"Basic {base64.b64encode(pair).decode()}")
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=self.timeout_s) as answer:
                body: bytes = answer.read(BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise self._refused(url, error.code) from error
        except (OSError, http.client.HTTPException) as error:
            raise BrokerUnavailable(f"{url}: {error}") from error
        if len(body) > BYTES_MAX:
            raise BrokerUnavailable(f"{url}: the answer is longer than {BYTES_MAX} bytes")
        try:
            return cast("object", json.loads(body))
        except ValueError as error:
            raise BrokerUnavailable(f"{url}: the answer is no JSON") from error

    def _refused(self, url: str, status: int) -> ConfigurationError | BrokerUnavailable:
        match status:
            case 401 | 403:
                return ConfigurationError(
                    f"{url} is not allowed ({status}): set {USER_VARIABLE} and {PASSWORD_VARIABLE} "
                    "to a user with the tag monitoring"
                )
            case 404:
                return ConfigurationError(f"{url}: there is no such thing (404)")
            case _:
                return BrokerUnavailable(f"{url}: status {status}")
