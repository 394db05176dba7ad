"""`replayfloor policy measure`: reads how long a broker hands out a message again, to paste.

What is read and why it decides stands in `brokers_sqs` and its neighbours: here are the arguments,
the environment, and the only clock.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention.brokers import BrokerUnavailable, Window
from replayfloor.retention.brokers_kafka import kafka_window, read_properties
from replayfloor.retention.brokers_postgres import postgres_window
from replayfloor.retention.brokers_rabbitmq_api import (
    PASSWORD_VARIABLE,
    USER_VARIABLE,
    Credentials,
    measure_rabbitmq,
)
from replayfloor.retention.brokers_sqs import measure_sqs
from replayfloor.retention.brokers_toml import window_report, window_toml
from replayfloor.retention.cli_common import (
    WRONG,
    JsonOption,
    complain,
    failures_as_exit_codes,
    say,
    say_json,
)
from replayfloor.retention.durations import parse_duration
from replayfloor.retention.files import read_text

app = typer.Typer(
    name="measure",
    help="Read how long a broker hands out a message again, as a term to paste. Exit 1 if no "
    "setting ends it and no number is chosen.",
    no_args_is_help=True,
)

ChooseOption: TypeAlias = Annotated[
    str | None, typer.Option("--choose", help="Your number, where no setting ends it: 10d.")
]
MovesOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--moves-back",
        min=0,
        help="How often a person moves one dead letter back, or resets the offsets.",
    ),
]


@app.command("sqs")
def measure_sqs_queue(
    queue_url: Annotated[str, typer.Argument(metavar="QUEUE_URL")],
    *,
    moves_back: MovesOption = 1,
    choose: ChooseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read a queue of Amazon SQS and its dead-letter queue, with boto3 and its environment."""
    _print(
        lambda today: measure_sqs(queue_url, read_on=today, moves_back=moves_back),
        choose,
        as_json=as_json,
    )


@app.command("rabbitmq")
def measure_rabbitmq_queue(
    url: Annotated[
        str, typer.Argument(help="Of the management API: http://host:15672", metavar="URL")
    ],
    queue: Annotated[str, typer.Argument(metavar="QUEUE")],
    *,
    vhost: Annotated[str, typer.Option(help="The virtual host.")] = "/",
    moves_back: MovesOption = 1,
    choose: ChooseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read a queue of RabbitMQ; user and password are in RABBITMQ_USER and RABBITMQ_PASSWORD."""
    _print(
        lambda today: measure_rabbitmq(
            url,
            queue,
            read_on=today,
            credentials=_credentials(),
            vhost=vhost,
            moves_back=moves_back,
        ),
        choose,
        as_json=as_json,
    )


@app.command("kafka")
def measure_kafka_consumer(
    files: Annotated[
        list[str], typer.Argument(help="consumer.properties, and the topic's.", metavar="FILE...")
    ],
    *,
    topic: Annotated[str, typer.Option(help="For the messages.")] = "topic",
    moves_back: MovesOption = 0,
    choose: ChooseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read the configuration of a Kafka consumer, and of its topic, from files of properties."""

    def measured(today: date) -> Window:
        properties: dict[str, str] = {}
        for file in files:
            properties |= read_properties(read_text(Path(file)))
        return kafka_window(
            properties,
            read_on=today,
            source=", ".join(files),
            topic=topic,
            moves_back=moves_back,
        )

    _print(measured, choose, as_json=as_json)


@app.command("postgres")
def measure_postgres_queue(
    *,
    attempts: Annotated[
        int | None, typer.Option(min=0, help="Retries at most. Without it: no limit.")
    ] = None,
    delay: Annotated[str, typer.Option(help="Before the first retry, such as 30s.")],
    factor: Annotated[float, typer.Option(help="By which each delay grows.")] = 1.0,
    delay_max: Annotated[str | None, typer.Option(help="The longest delay.")] = None,
    attempt: Annotated[str, typer.Option(help="How long one attempt may take.")] = "0s",
    source: Annotated[str, typer.Option(help="Where these stand.")] = "by value",
    queue: Annotated[str, typer.Option(help="The kind of job, for the messages.")] = "jobs",
    choose: ChooseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute it for a queue in Postgres (procrastinate, pgqueuer, your own): attempts x delay."""
    _print(
        lambda today: postgres_window(
            attempts=attempts,
            delay_s=parse_duration(delay),
            read_on=today,
            factor=factor,
            delay_max_s=None if delay_max is None else parse_duration(delay_max),
            attempt_s=parse_duration(attempt),
            source=source,
            queue=queue,
        ),
        choose,
        as_json=as_json,
    )


def _credentials() -> Credentials | None:
    user, password = os.environ.get(USER_VARIABLE), os.environ.get(PASSWORD_VARIABLE)
    if user is None and password is None:
        return None
    if user is None or password is None:
        raise ConfigurationError(f"set both {USER_VARIABLE} and {PASSWORD_VARIABLE}, or neither")
    return Credentials(user, password)


def _print(measure: Callable[[date], Window], choose: str | None, *, as_json: bool) -> None:
    with failures_as_exit_codes():
        try:
            window = measure(datetime.now(UTC).date())
        except BrokerUnavailable as error:
            complain(str(error))
            raise typer.Exit(WRONG) from None
        if as_json:
            say_json(window_report(window, choose))
        else:
            say(window_toml(window, choose))
        if not window.is_bounded and choose is None:
            complain(str(window.must_be_chosen()))
            raise typer.Exit(WRONG)
