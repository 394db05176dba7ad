"""`replayfloor inbox …`: what waits to be applied, what is dead, and what a person decides of it.

For the person on call; what each situation means is in docs/inbox.md.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

import typer

from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.server.cli_common import (
    NOT_DONE,
    By,
    IdText,
    Yes,
    complain,
    confirm,
    failures_as_exit_codes,
    load_object,
    person,
    plain,
    say,
    start_log,
)
from replayfloor.server.cli_settle import CipherName
from replayfloor.server.sealing import Cipher, Sealer
from replayfloor.server.stores import POSTGRES_MISSING

if TYPE_CHECKING:
    from replayfloor.server.stores.inbox_records import InboxRecords, StoredEvent

app = typer.Typer(
    help='Events of webhooks with ack="first" that were not applied yet.', no_args_is_help=True
)

LIST_LIMIT = 50

AGAIN_FOLLOWS = (
    "A worker hands it to the application again, at once, with all its attempts before it. If its "
    "outcome is unknown and it did have an effect, it has one a second time: be certain that it "
    "was not applied."
)
DROP_FOLLOWS = (
    "It will be forgotten WITHOUT HAVING BEEN APPLIED. Its sender was told that it was accepted "
    "and will not deliver it again by itself; if it does, it is answered as accepted. Events of "
    "its subject that wait for it go on without it."
)

PostgresUrl: TypeAlias = Annotated[
    str, typer.Argument(help="postgresql://user@host/database", metavar="URL")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]

log = logging.getLogger("replayfloor.server")


@app.command("list")
def list_events(
    url: PostgresUrl,
    *,
    dead: Annotated[bool, typer.Option("--dead", help="Only those that need a person.")] = False,
    source: Annotated[str | None, typer.Option(help="Only those of one sender.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = LIST_LIMIT,
    as_json: AsJson = False,
) -> None:
    """List the events in the inbox in the order of their arrival, after the numbers of all."""
    with failures_as_exit_codes():
        records = _records(url)
        numbers = records.stats()
        found = records.events(limit, source=source, dead=dead)
    from replayfloor.server.cli_inbox_show import list_lines, record_json, stats_lines

    if as_json:
        lines = [record_json(each) for each in found]
    else:
        lines = [*stats_lines(numbers), *(list_lines(found) if found else ["None."])]
    for line in lines:
        say(line)


@app.command()
def stats(url: PostgresUrl, *, as_json: AsJson = False) -> None:
    """Say how many events wait, are in work and are dead, and how old the oldest is."""
    with failures_as_exit_codes():
        found = _records(url).stats()
    from replayfloor.server.cli_inbox_show import stats_json, stats_lines

    for line in [stats_json(found)] if as_json else stats_lines(found):
        say(line)


@app.command()
def show(
    url: PostgresUrl,
    id_text: IdText,
    *,
    body: Annotated[bool, typer.Option("--body", help="Show the request's body too.")] = False,
    cipher: CipherName = None,
    as_json: AsJson = False,
) -> None:
    """Show one event: where it came from, what went wrong, and the request that told of it."""
    with failures_as_exit_codes():
        sealer = Sealer(None if cipher is None else cast("Cipher", load_object(cipher)))
        event = _found(_records(url), id_text)
    from replayfloor.server.cli_inbox_show import describe, event_json

    if as_json:
        lines = [event_json(event, sealer, with_body=body)]
    else:
        lines = describe(event, sealer, with_body=body)
    for line in lines:
        say(line)


@app.command()
def retry(
    url: PostgresUrl,
    id_text: Annotated[
        str | None, typer.Argument(help="32 hex digits, or at least the first 8.", metavar="[ID]")
    ] = None,
    *,
    dead: Annotated[
        bool, typer.Option("--dead", help="All dead ones of the --source, instead of one ID.")
    ] = False,
    source: Annotated[str | None, typer.Option(help="Whose.")] = None,
    note: Annotated[str, typer.Option(help="How you found out, for the audit trail.")] = "",
    by: By = None,
    yes: Yes = False,
) -> None:
    """Have an event applied again now, or all dead ones of a source."""
    with failures_as_exit_codes():
        if (id_text is None) != dead or dead != (source is not None):
            raise UsageError("give either an ID, or --dead with the --source whose events to retry")
        start_log()
        records = _records(url)
        if source is not None:
            say(f"Every dead event of {plain(source)}: {AGAIN_FOLLOWS}")
            confirm("Go on?", yes=yes)
            count = records.retry_dead(source, person(by), note)
            log.warning("inbox retry source=%s events=%d by %s", source, count, plain(person(by)))
            say(f"{count} are due now.")
            return
        event = _found(records, id_text or "")
        say(f"Event {event.record.id.hex()} ({plain(event.record.event_id)}): {AGAIN_FOLLOWS}")
        confirm("Go on?", yes=yes)
        if not records.retry(event.record.id, person(by), note):
            _refuse()
        log.warning("inbox retry receipt=%s by %s", event.record.id.hex(), plain(person(by)))
        say("It is due now.")


@app.command()
def drop(
    url: PostgresUrl,
    id_text: IdText,
    *,
    reason: Annotated[str, typer.Option(help="Why it need not be applied; it is kept.")],
    by: By = None,
    yes: Annotated[bool, typer.Option("--yes", help="Needed: it cannot be undone.")] = False,
) -> None:
    """Give an event up without applying it. The reason stays in the audit trail."""
    with failures_as_exit_codes():
        if not reason.strip():
            raise UsageError("--reason says why the event need not be applied")
        start_log()
        records = _records(url)
        event = _found(records, id_text)
        say(f"Event {event.record.id.hex()} ({plain(event.record.event_id)}): {DROP_FOLLOWS}")
        if not yes:
            raise UsageError("nothing was changed: to drop it, add --yes")
        if not records.drop(event.record.id, person(by), reason):
            _refuse()
        log.warning("inbox drop receipt=%s by %s", event.record.id.hex(), plain(person(by)))
        say("Dropped.")


@app.command()
def work(
    name: Annotated[
        str, typer.Argument(help="The application, as module:attribute.", metavar="APP")
    ],
    *,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Events at a time. Default: as in the application.")
    ] = None,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that handlers have after SIGTERM.")
    ] = 20.0,
) -> None:
    """Apply what is in an application's inbox, in this process, until SIGTERM or SIGINT.

    APP is what a server is given, or the middleware itself. Its lifespan is run, and no socket is
    opened.
    """
    with failures_as_exit_codes():
        start_log()
        from replayfloor.server.webhooks.inbox.standalone import run_inbox

        in_time = run_inbox(load_object(name), workers=workers, grace_s=grace)
    if not in_time:
        complain("Not all handlers have ended in time.")
        raise typer.Exit(NOT_DONE)


def _records(url: str) -> InboxRecords:
    try:
        module = import_module("replayfloor.server.stores.inbox_records")
    except ImportError as error:
        raise ConfigurationError(POSTGRES_MISSING) from error
    return cast("InboxRecords", module.open_inbox_records(url))


def _found(records: InboxRecords, id_text: str) -> StoredEvent:
    """Return the event; end the command if there is none."""
    event = records.event(id_text)
    if event is None:
        complain("There is no such event in the inbox: it was applied, dropped, or never accepted.")
        raise typer.Exit(NOT_DONE)
    return event


def _refuse() -> None:
    complain("Nothing was changed: a worker has it at this moment, or it is gone by now.")
    raise typer.Exit(NOT_DONE)
