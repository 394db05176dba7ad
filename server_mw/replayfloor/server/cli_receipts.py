"""`replayfloor receipts …`: look at what is stored, and settle by hand what nobody else can.

For the person on call. What each situation means, and how to find out whether a customer was
charged, is in docs/operating.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, TypeAlias

import typer

from replayfloor.core.errors import UsageError
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.core.key import parse_key
from replayfloor.server.cli_common import NOT_DONE, Url, complain, failures_as_exit_codes, say
from replayfloor.server.cli_settle import evict, resolve
from replayfloor.server.cli_show import audit_lines, describe, list_lines, record_json
from replayfloor.server.stores.records import Record, id_range, open_records

app = typer.Typer(
    help="Look at receipts and claims, and settle orphans by hand.", no_args_is_help=True
)
LIST_LIMIT = 50
AUDIT_LIMIT = 20

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Limit: TypeAlias = Annotated[int, typer.Option(min=1, help="At most so many.")]


@app.command("list")
def list_records(
    url: Url,
    *,
    orphans: Annotated[bool, typer.Option("--orphans", help="Keys of unknown outcome.")] = False,
    claims: Annotated[bool, typer.Option("--claims", help="In flight, and orphans.")] = False,
    limit: Limit = LIST_LIMIT,
    since_h: Annotated[
        float, typer.Option(min=0, help="Receipts: finished within so many hours.")
    ] = 1.0,
    as_json: AsJson = False,
) -> None:
    """List receipts, latest first; or orphans or claims, longest waiting first."""
    with failures_as_exit_codes():
        if orphans and claims:
            raise UsageError("--claims lists the orphans too: leave one of the two out")
        records = open_records(url)
        found: list[Record] = []
        if orphans:
            found += records.orphans(limit)
        elif claims:
            found += records.claims(limit)
        else:
            found += records.receipts(limit, timedelta(hours=since_h))
    if as_json:
        lines = [record_json(each) for each in found]
    else:
        lines = list_lines(found) if found else ["None."]
    for line in lines:
        say(line)


@app.command()
def show(
    url: Url,
    id_text: Annotated[
        str | None, typer.Argument(help="32 hex digits, or at least the first 8.", metavar="[ID]")
    ] = None,
    *,
    key: Annotated[str | None, typer.Option(help="The customer's key, instead of an id.")] = None,
    principal: Annotated[
        str | None, typer.Option(help="Whose key it is; leave out if the middleware has None.")
    ] = None,
    namespace: Annotated[str, typer.Option(help="The middleware's namespace.")] = "default",
    body: Annotated[bool, typer.Option("--body", help="Show the stored body too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show all that is known about one key, and what was done to it by hand."""
    with failures_as_exit_codes():
        if (id_text is None) == (key is None):
            raise UsageError("give either an ID or --key")
        records = open_records(url)
        if id_text is not None:
            record = records.find(id_text)
        else:
            record = records.find_key(namespace, principal, _bare(key or ""))
        known = record.id if record else _whole(id_text)
        trail = records.audit(AUDIT_LIMIT, known) if known else []
    if record is not None and as_json:
        say(record_json(record, with_body=body))
    elif record is not None:
        for line in describe(record, with_body=body):
            say(line)
    if trail and not as_json:
        for line in ("", "Done by hand:", *audit_lines(trail)):
            say(line)
    if record is None:
        complain(
            "There is no claim and no receipt: the key was never used, or it was freed, "
            "or its receipt has expired."
        )
        raise typer.Exit(NOT_DONE)


@app.command()
def audit(url: Url, limit: Limit = AUDIT_LIMIT) -> None:
    """List what was done by hand, latest first."""
    with failures_as_exit_codes():
        trail = open_records(url).audit(limit)
    for line in audit_lines(trail) if trail else ["None."]:
        say(line)


app.command()(resolve)
app.command()(evict)


def _bare(key: str) -> str:
    """Return the key as the middleware sees it, also if it was copied with its quotes."""
    return parse_key([key.encode()]) if key.startswith('"') else key


def _whole(id_text: str | None) -> ReceiptId | None:
    """Return the id if the text is all of it: what is gone cannot be found by its beginning."""
    if id_text is None:
        return None
    lowest, highest = id_range(id_text)
    return lowest if lowest == highest else None
