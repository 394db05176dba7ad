"""RabbitMQ is read through its management API: against a server with answers of its shape."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import pytest

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import HorizonUnknown
from replayfloor.retention.brokers import BrokerUnavailable, Window
from replayfloor.retention.brokers_rabbitmq_api import Credentials, measure_rabbitmq

TODAY = date(2026, 11, 30)
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
Json = dict[str, object]


@dataclass
class Broker:
    """What the API answers, by path, and what it was asked."""

    url: str
    answers: dict[str, object] = field(default_factory=dict[str, object])
    statuses: dict[str, int] = field(default_factory=dict[str, int])
    asked: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, "str | None"]])

    def version(self, version: str) -> None:
        self.answers["/api/overview"] = {
            "rabbitmq_version": version,
            "management_version": version,
            "product_name": "RabbitMQ",
            "cluster_name": "rabbit@one",
        }

    def queue(self, name: str, *, vhost: str = "%2F", **more: object) -> None:
        """Add a queue, as GET /api/queues/VHOST/NAME describes it."""
        self.answers[f"/api/queues/{vhost}/{name}"] = {
            "name": name,
            "vhost": "/",
            "type": "classic",
            "durable": True,
            "auto_delete": False,
            "exclusive": False,
            "arguments": {},
            "policy": None,
            "operator_policy": None,
            "effective_policy_definition": {},
            "messages": 0,
            "consumers": 0,
            "consumer_details": [],
            "state": "running",
        } | more

    def bindings(self, exchange: str, *queues: str) -> None:
        self.answers[f"/api/exchanges/%2F/{exchange}/bindings/source"] = [
            {
                "source": exchange,
                "vhost": "/",
                "destination": queue,
                "destination_type": "queue",
                "routing_key": "#",
                "arguments": {},
                "properties_key": "%23",
            }
            for queue in queues
        ]


@pytest.fixture
def broker() -> Iterator[Broker]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append((self.path, self.headers.get("Authorization")))
            status = made.statuses.get(self.path, 200 if self.path in made.answers else 404)
            found = made.answers.get(self.path, {"error": "Object Not Found"})
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", made.url + "/api/elsewhere")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Broker(f"http://127.0.0.1:{server.server_address[1]}")
    made.version("4.1.3")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def measure(broker: Broker, name: str = "orders", **options: object) -> Window:
    return measure_rabbitmq(broker.url, name, read_on=TODAY, **options)  # type: ignore[arg-type]


def settings(window: Window) -> dict[str, str]:
    return {each.name: each.value for each in window.settings}


def test_the_time_to_live_of_the_queue_ends_it(broker: Broker) -> None:
    broker.queue("orders", arguments={"x-message-ttl": DAY_MS})
    window = measure(broker)

    assert (window.seconds, window.driver) == (DAY_S, "message TTL")
    assert window.source == f"{broker.url}/api/queues/%2F/orders"
    assert window.term().provenance.read_on == TODAY


def test_the_smaller_of_argument_and_policy_counts(broker: Broker) -> None:
    policy: Json = {"message-ttl": HOUR_MS, "consumer-timeout": 120_000}
    arguments: Json = {"x-message-ttl": DAY_MS, "x-consumer-timeout": 300_000}
    broker.queue("orders", type="quorum", arguments=arguments, effective_policy_definition=policy)
    window = measure(broker)

    assert window.seconds == HOUR_S
    assert settings(window)["consumer timeout"] == "2 min"


def test_without_a_time_to_live_there_is_no_end_and_the_user_has_to_choose(broker: Broker) -> None:
    broker.queue("orders", type="quorum")
    window = measure(broker)

    assert window.seconds is None
    assert "no time to live" in window.unbounded[0]
    # 20 deliveries, each taken back after 30 minutes, and a minute until somebody looks.
    assert window.while_consumed_s == 20 * 31 * MINUTE_S
    with pytest.raises(HorizonUnknown, match="choose that or more"):
        window.term()
    assert window.term("2d").seconds == 2 * DAY_S


@pytest.mark.parametrize(
    ("version", "kind", "timeout"),
    [
        ("3.13.7", "classic", "30 min"),
        ("4.2.1", "classic", "30 min"),
        ("4.3.0", "classic", "none"),
        ("4.3.0", "quorum", "30 min"),
        ("5.0.0", "classic", "none"),
        ("4.3.0-rc.1", "classic", "none"),
    ],
)
def test_which_queues_take_deliveries_back_depends_on_the_version(
    broker: Broker, version: str, kind: str, timeout: str
) -> None:
    broker.version(version)
    broker.queue("orders", type=kind)

    assert settings(measure(broker))["consumer timeout"] == timeout


@pytest.mark.parametrize(
    ("version", "kind", "arguments", "limit"),
    [
        ("4.0.0", "quorum", {}, "20"),
        ("3.13.7", "quorum", {}, "none"),
        ("4.0.0", "classic", {}, "none"),
        ("4.0.0", "quorum", {"x-delivery-limit": 3}, "3"),
        ("4.0.0", "quorum", {"x-delivery-limit": -1}, "none"),
        ("3.13.7", "quorum", {"x-delivery-limit": 7}, "7"),
    ],
)
def test_how_often_a_message_is_handed_out_depends_on_queue_and_version(
    broker: Broker, version: str, kind: str, arguments: Json, limit: str
) -> None:
    broker.version(version)
    broker.queue("orders", type=kind, arguments=arguments)

    assert settings(measure(broker))["delivery limit"] == limit


def test_a_consumers_own_time_out_goes_before_all_others(broker: Broker) -> None:
    details = [{"arguments": {"x-consumer-timeout": 7_200_000}}, {"arguments": {}}]
    broker.queue(
        "orders",
        type="quorum",
        arguments={"x-consumer-timeout": 60_000},
        consumer_details=details,
    )

    assert settings(measure(broker))["consumer timeout"] == "2 h"


def test_a_stream_has_no_end_whatever_it_says(broker: Broker) -> None:
    broker.queue("orders", type="stream", arguments={"x-message-ttl": 1, "x-max-age": "7D"})
    window = measure(broker)

    assert window.seconds is None
    assert "stream" in window.unbounded[0]


# -- dead letters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("moves_back", "hours"), [(0, 1), (1, 1 + 25), (2, 1 + 50)])
def test_dead_letters_can_be_moved_back(broker: Broker, moves_back: int, hours: int) -> None:
    broker.queue("orders", arguments={"x-message-ttl": HOUR_MS, "x-dead-letter-exchange": "dead"})
    broker.bindings("dead", "orders.dead")
    broker.queue("orders.dead", arguments={"x-message-ttl": DAY_MS})
    window = measure(broker, moves_back=moves_back)

    assert window.seconds == hours * HOUR_S
    assert ("orders.dead" in window.driver) is (moves_back > 0)


def test_dead_letters_without_an_end_have_none(broker: Broker) -> None:
    policy: Json = {"dead-letter-exchange": "dead"}
    broker.queue("orders", arguments={"x-message-ttl": HOUR_MS}, effective_policy_definition=policy)
    broker.bindings("dead", "orders.dead")
    broker.queue("orders.dead")

    assert "from orders.dead at any time" in measure(broker).unbounded[0]
    assert measure(broker, moves_back=0).seconds == HOUR_S


def test_dead_letters_in_a_stream_have_no_end_whatever_it_says(broker: Broker) -> None:
    broker.queue("orders", arguments={"x-message-ttl": HOUR_MS, "x-dead-letter-exchange": "dead"})
    broker.bindings("dead", "orders.dead")
    broker.queue("orders.dead", type="stream", arguments={"x-message-ttl": DAY_MS})

    assert "from orders.dead at any time" in measure(broker).unbounded[0]


def test_a_queue_that_sends_dead_letters_back_by_itself_is_a_retry_without_an_end(
    broker: Broker,
) -> None:
    broker.queue("orders", arguments={"x-message-ttl": HOUR_MS, "x-dead-letter-exchange": "retry"})
    broker.bindings("retry", "orders.wait")
    broker.queue(
        "orders.wait",
        arguments={
            "x-message-ttl": 30_000,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "orders",
        },
    )

    assert "orders.wait sends dead letters back by itself" in measure(broker).unbounded[0]
    # Nobody's word can end that.
    assert measure(broker, moves_back=0).seconds is None


def test_the_default_exchange_leads_to_the_queue_that_the_key_names(broker: Broker) -> None:
    broker.queue(
        "orders",
        arguments={
            "x-message-ttl": HOUR_MS,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    broker.queue("dead", arguments={"x-message-ttl": DAY_MS})

    assert measure(broker).seconds == 26 * HOUR_S


def test_dead_letters_that_reach_no_queue_are_gone(broker: Broker) -> None:
    broker.queue("orders", arguments={"x-message-ttl": HOUR_MS, "x-dead-letter-exchange": "dead"})
    broker.bindings("dead")

    assert measure(broker).seconds == HOUR_S


# -- how it is asked ------------------------------------------------------------------------------


def test_the_user_is_told_to_the_api_and_not_in_the_figures(broker: Broker) -> None:
    broker.queue("a/b c", vhost="my%2Fhost", arguments={"x-message-ttl": HOUR_MS})
    broker.answers["/api/queues/my%2Fhost/a%2Fb%20c"] = broker.answers.pop(
        "/api/queues/my%2Fhost/a/b c"
    )
    window = measure_rabbitmq(
        f"{broker.url}/api/",
        "a/b c",
        read_on=TODAY,
        credentials=Credentials("reader", "s3cret:ü"),
        vhost="my/host",
    )

    sent = {header for _, header in broker.asked}
    assert sent == {"Basic " + base64.b64encode("reader:s3cret:ü".encode()).decode()}
    assert "s3cret" not in repr(window)
    assert "s3cret" not in repr(Credentials("reader", "s3cret"))


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_user_is_told_which_variables_to_set(broker: Broker, status: int) -> None:
    broker.statuses["/api/overview"] = status

    with pytest.raises(ConfigurationError, match="RABBITMQ_USER and RABBITMQ_PASSWORD"):
        measure(broker)


def test_a_queue_that_is_not_there_is_told(broker: Broker) -> None:
    with pytest.raises(ConfigurationError, match="there is no such thing"):
        measure(broker, "nobody")


def test_a_redirect_is_not_followed_with_the_password(broker: Broker) -> None:
    broker.statuses["/api/overview"] = 302

    with pytest.raises(BrokerUnavailable, match="status 302"):
        measure(broker, credentials=Credentials("reader", "s3cret"))
    assert [path for path, _ in broker.asked] == ["/api/overview"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"<html>", "no JSON"),
        ([], "no object"),
        ({"rabbitmq_version": "new"}, "the version"),
        ({}, "the version"),
        (b"x" * (8 * 1024 * 1024 + 1), "longer than"),
    ],
)
def test_an_answer_that_is_not_understood_is_no_figure(
    broker: Broker, answer: object, message: str
) -> None:
    broker.queue("orders")
    broker.answers["/api/overview"] = answer

    with pytest.raises(BrokerUnavailable, match=message):
        measure(broker)


@pytest.mark.parametrize("ttl", ["soon", -1, 1.5, True])
def test_a_setting_that_is_not_understood_is_no_figure(broker: Broker, ttl: object) -> None:
    broker.queue("orders", arguments={"x-message-ttl": ttl})

    with pytest.raises(BrokerUnavailable, match="x-message-ttl of orders"):
        measure(broker)


def test_a_broker_that_does_not_answer_is_told() -> None:
    with pytest.raises(BrokerUnavailable, match="Connection refused"):
        measure_rabbitmq("http://127.0.0.1:1", "orders", read_on=TODAY, timeout_s=1.0)


@pytest.mark.parametrize("url", ["rabbit:15672", "amqp://rabbit", "http://", "", "file:///etc"])
def test_another_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="has an address such as"):
        measure_rabbitmq(url, "orders", read_on=TODAY)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="leave user and password out") as caught:
        measure_rabbitmq("http://guest:s3cret@127.0.0.1:1", "orders", read_on=TODAY)

    assert "s3cret" not in str(caught.value)
    assert cast("object", caught.value.__cause__) is None
