"""`replayfloor receipts resolve` and `evict`: what a person decides about one key.

Both say first what will follow, ask, and leave a line in the audit trail and in the log. A
resolution is fenced like a reconciler's: an owner that wakes up, or a reconciler that is at the
same orphan, is refused, or it is.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, cast

import typer

from replayfloor.core.errors import ReceiptCorrupt, UsageError
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.core.message import Response
from replayfloor.server.cli_common import (
    NOT_DONE,
    By,
    IdText,
    Url,
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
from replayfloor.server.reconcile import Applied, NotApplied, Settled, Verdict, orphan_of, settle
from replayfloor.server.responses import to_response
from replayfloor.server.sealing import Cipher
from replayfloor.server.settings import CACHE_S
from replayfloor.server.stores import open_receipts
from replayfloor.server.stores.records import (
    ClaimRecord,
    ReceiptRecord,
    Records,
    id_range,
    open_records,
)

log = logging.getLogger("replayfloor.server")

APPLIED_FOLLOWS = (
    "Its receipt will be the answer below. Every retry of the customer is answered with it, and "
    "the operation is never executed again under this key. An execution that is still alive "
    "cannot record another answer."
)
NOT_APPLIED_FOLLOWS = (
    "The key will be free. The next retry of the customer EXECUTES THE OPERATION. If the first "
    "execution did have an effect, or is alive and has one later, it happens twice. Be certain "
    "that the operation was not carried out and cannot be any more."
)
EVICT_FOLLOWS = (
    "Its receipt will be forgotten. The next retry of the customer EXECUTES THE OPERATION AGAIN, "
    "although it was carried out once. Workers that keep the answer in the lock's place go on "
    f"replaying it for up to {CACHE_S / 60:.0f} minutes."
)

Applies = Annotated[
    bool | None,
    typer.Option("--applied/--not-applied", help="Whether the operation was carried out."),
]
Status = Annotated[int | None, typer.Option(help="Status of the answer: what was promised.")]
HeaderLines = Annotated[
    list[str] | None, typer.Option("--header", help="'Name: value'; may be repeated.")
]
BodyFile = Annotated[str | None, typer.Option(help="Body of the answer; - reads stdin.")]
Note = Annotated[str, typer.Option(help="How you found out, for the audit trail.")]
CipherName = Annotated[
    str | None,
    typer.Option(help="The middleware's response_cipher, if it has one, as module:attribute."),
]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the person says became of the operation, and the line for the audit trail."""

    verdict: Verdict
    action: str
    detail: str
    follows: str


def resolve(
    url: Url,
    id_text: IdText,
    *,
    applied: Applies = None,
    status: Status = None,
    header: HeaderLines = None,
    body_file: BodyFile = None,
    sensitive: Annotated[
        bool, typer.Option("--sensitive", help="Store only the status and the Location.")
    ] = False,
    cipher: CipherName = None,
    note: Note = "",
    by: By = None,
    yes: Yes = False,
) -> None:
    """Settle an orphan by hand: say what became of it, once you have found out.

    With --applied, --status and the rest are the answer that every retry is given. With
    --not-applied, the next retry executes the operation.
    """
    with failures_as_exit_codes():
        start_log()
        answer = _answer(status, header or [], body_file, yes=yes)
        decision = _decision(applied, answer, note, sensitive=sensitive)
        sealing = None if cipher is None else cast("Cipher", load_object(cipher))
        records = open_records(url)
        record = _orphan(records, id_text)
        say(f"Orphan {record.id.hex()}: {decision.follows}")
        if answer is not None:
            say(f"  {decision.detail}")
        confirm("Go on?", yes=yes)
        # Before it is done: afterwards a crash could leave a settlement that nobody knows of.
        records.note(record.id, person(by), decision.action, decision.detail)
        _log(record.id, decision.action, person(by))
        if not _settled(url, record, decision, sealing):
            said = "somebody else had settled it, or was at it"
            records.note(record.id, person(by), "took no effect", said)
            complain(f"Nothing was changed: {said}.")
            raise typer.Exit(NOT_DONE)
        say("Settled.")


def _settled(url: str, record: ClaimRecord, decision: Decision, sealing: Cipher | None) -> bool:
    receipts = open_receipts(url)
    try:
        done = settle(receipts, orphan_of(record), lambda _orphan: decision.verdict, cipher=sealing)
    finally:
        receipts.close()
    return done in (Settled.APPLIED, Settled.NOT_APPLIED)


def evict(
    url: Url,
    id_text: IdText,
    *,
    note: Note = "",
    by: By = None,
    yes: Yes = False,
) -> None:
    """Forget the receipt of a finished key, so that the next retry is executed again."""
    with failures_as_exit_codes():
        start_log()
        records = open_records(url)
        id_ = _finished(records, id_text)
        say(f"Finished key {id_.hex()}: {EVICT_FOLLOWS}")
        confirm("Go on?", yes=yes)
        if not records.evict(id_, person(by), note):
            complain("Nothing was changed: the receipt is gone already.")
            raise typer.Exit(NOT_DONE)
        _log(id_, "evict", person(by))
        say("Evicted.")


def _log(id_: ReceiptId, action: str, who: str) -> None:
    log.warning("%s receipt=%s by %s", action, id_.hex(), plain(who))


def _answer(
    status: int | None, header: list[str], body_file: str | None, *, yes: bool
) -> Response | None:
    if status is None:
        if header or body_file is not None:
            raise UsageError("--header and --body-file belong to an answer: give its --status")
        return None
    if body_file == "-" and not yes:
        raise UsageError("stdin cannot be body and confirmation at once: add --yes")
    return to_response((status, [_header(line) for line in header], _body(body_file)))


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon:
        raise UsageError(f"--header {line!r}: expected 'Name: value'")
    return name.strip(), value.strip()


def _body(body_file: str | None) -> bytes:
    if body_file is None:
        return b""
    if body_file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(body_file).read_bytes()
    except OSError as error:
        raise UsageError(f"--body-file: {error}") from error


def _decision(
    applied: bool | None,  # noqa: FBT001 - the command's own option
    answer: Response | None,
    note: str,
    *,
    sensitive: bool,
) -> Decision:
    if applied is None:
        raise UsageError("say --applied or --not-applied")
    if not applied:
        if answer is not None:
            raise UsageError("--not-applied has no answer: leave --status out")
        return Decision(NotApplied(), "resolve not-applied", note, NOT_APPLIED_FOLLOWS)
    if answer is None:
        raise UsageError("--applied needs the answer that retries are given: --status at least")
    told = f"status {answer.status}; {len(answer.headers)} headers; {len(answer.body)} bytes"
    detail = f"{told}, SHA-256 {sha256(answer.body).hexdigest()}"
    return Decision(
        Applied(answer, sensitive=sensitive),
        "resolve applied",
        f"{detail}; {note}" if note else detail,
        APPLIED_FOLLOWS,
    )


def _orphan(records: Records, id_text: str) -> ClaimRecord:
    """Return the orphan; end the command if it is none."""
    match records.find(id_text):
        case ClaimRecord(orphaned=True) as found:
            return found
        case ClaimRecord(lease_until=until):
            complain(
                "It is in flight: it is being executed, or a reconciler is at it. Its lease lasts "
                f"until {until:%H:%M:%S} UTC, unless it is renewed."
            )
        case ReceiptRecord(status=status):
            complain(f"It is finished, with status {status}. There is nothing to resolve.")
        case None:
            complain("There is no such claim: it was freed or never made.")
    raise typer.Exit(NOT_DONE)


def _finished(records: Records, id_text: str) -> ReceiptId:
    """Return the id of a finished key; end the command if it is none."""
    try:
        record = records.find(id_text)
    except ReceiptCorrupt:
        lowest, highest = id_range(id_text)
        if lowest != highest:
            raise UsageError(
                "the receipt cannot be decoded: give all 32 digits of its id"
            ) from None
        return lowest
    match record:
        case ReceiptRecord(id=id_):
            return id_
        case ClaimRecord(orphaned=True):
            complain("It is an orphan: settle it with `replayfloor receipts resolve`.")
        case ClaimRecord():
            complain("It is in flight, and has no receipt yet.")
        case None:
            complain("There is no such receipt.")
    raise typer.Exit(NOT_DONE)
