"""`replayfloor client resume`: send a pending operation again, under its key, before its deadline.

Two ways: from here, with the body of the first time (`cli_resend`), or by a function of the user,
who sends it through a client of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias, cast

import anyio
import typer

from replayfloor.client.cli_common import (
    NOT_DONE,
    Namespace,
    Url,
    complain,
    failures_as_exit_codes,
    load_object,
    plain,
    say,
)
from replayfloor.client.cli_journal import find, journal_at
from replayfloor.client.cli_profile import ProfileChoice
from replayfloor.client.cli_request import RequestParts, read_parts
from replayfloor.client.cli_resend import ATTEMPTS_MAX, resend
from replayfloor.client.cli_words import advice, verdict
from replayfloor.client.clock import system_clock
from replayfloor.client.journal import Journal
from replayfloor.client.operations import PendingOperation, described, pending
from replayfloor.client.policy import ATTEMPTS_LIMIT
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import FINISHED, JournalEntry, OperationState, ReadOperation

Resender: TypeAlias = Callable[[PendingOperation], object]
_Texts: TypeAlias = list[str] | None
_Text: TypeAlias = str | None

# -- the options ----------------------------------------------------------------------------------

OperationIds: TypeAlias = Annotated[
    _Texts, typer.Argument(metavar="OPERATION_ID", help="One; with --with any number.")
]
Body: TypeAlias = Annotated[
    _Text, typer.Option(metavar="FILE", help="The body of the first time; - for stdin.")
]
MediaType: TypeAlias = Annotated[
    _Text, typer.Option(help="The body's media type, such as application/json.")
]
Query: TypeAlias = Annotated[str, typer.Option(help="The query, without the question mark.")]
HeaderLines: TypeAlias = Annotated[
    _Texts, typer.Option(metavar="'NAME: VALUE'", help="A further header that is no secret.")
]
HeaderEnv: TypeAlias = Annotated[
    _Texts, typer.Option(metavar="NAME=VARIABLE", help="A header from the environment.")
]
HeaderFile: TypeAlias = Annotated[
    _Texts, typer.Option(metavar="NAME=FILE", help="A header whose value is in a file.")
]
ProfileName: TypeAlias = Annotated[
    _Text,
    typer.Option(
        help="The provider's name in the catalogue, or your own Profile as module:attribute. "
        "Default: what the journal says."
    ),
]
Account: TypeAlias = Annotated[_Text, typer.Option(help="With a profile of the catalogue.")]
Mode: TypeAlias = Annotated[_Text, typer.Option(help="With a profile of the catalogue.")]
HeaderName: TypeAlias = Annotated[
    _Text, typer.Option(help="What carries the key, if the catalogue does not know the provider.")
]
Quoted: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--quoted/--unquoted",
        help="How the key is written, if the catalogue does not know the provider.",
        show_default=False,
    ),
]
Attempts: TypeAlias = Annotated[
    int, typer.Option(min=1, max=ATTEMPTS_LIMIT, help="At most so many, with waits between them.")
]
With: TypeAlias = Annotated[
    _Text,
    typer.Option(
        "--with",
        metavar="MODULE:FUNCTION",
        help="Your function: is given each resumable PendingOperation, and sends it again.",
    ),
]

# -- the command ----------------------------------------------------------------------------------


def resume(
    url: Url,
    operation_ids: OperationIds = None,
    *,
    body: Body = None,
    content_type: MediaType = None,
    query: Query = "",
    header: HeaderLines = None,
    header_env: HeaderEnv = None,
    header_file: HeaderFile = None,
    profile: ProfileName = None,
    account: Account = None,
    mode: Mode = None,
    header_name: HeaderName = None,
    quoted: Quoted = None,
    attempts: Attempts = ATTEMPTS_MAX,
    with_name: With = None,
    namespace: Namespace = None,
) -> None:
    """Send a pending operation again, with its own key, if it still may be sent.

    The request has to be the same: method, address and key are taken from the journal, the rest is
    given here and compared with the first time before a byte leaves.
    """
    ids = operation_ids or []
    parts = RequestParts(
        body, content_type, query, header or [], header_env or [], header_file or []
    )
    choice = ProfileChoice(profile, account, mode, header_name, quoted)
    with failures_as_exit_codes():
        if with_name is not None:
            if parts.given or choice.given:
                raise UsageError("--with sends through your own client: leave out the rest")
            finished = _resume_with(url, _function(with_name), ids, namespace)
        elif len(ids) != 1:
            raise UsageError("say which operation: one OPERATION_ID, or --with module:function")
        else:
            place = (ids[0], choice.namespace(namespace))
            finished = _resume_one(url, place, parts, choice, attempts)
    if not finished:
        raise typer.Exit(NOT_DONE)


def _resume_one(
    url: str,
    place: tuple[str, str | None],
    parts: RequestParts,
    choice: ProfileChoice,
    attempts: int,
) -> bool:
    request = read_parts(parts)
    with journal_at(url) as journal:
        entry = find(journal, *place)
        if entry.state is OperationState.DONE:
            complain(f"It was answered with status {entry.final_status}: there is nothing to send.")
            return False
        resend(journal, entry, choice.profile(entry), request, attempts)
        return _tell(_again(journal, entry))


def _again(journal: Journal, entry: JournalEntry) -> JournalEntry:
    return journal.read(ReadOperation(entry.namespace, entry.operation_id)) or entry


def _tell(entry: JournalEntry) -> bool:
    """Say what is known now; return whether it has its answer."""
    say(f"{plain(entry.operation_id)} is {entry.state.value}. Was it executed? {verdict(entry)}")
    if entry.state is not OperationState.DONE:
        say(f"What to do: {advice(described(entry, system_clock()))}")
    return entry.state is OperationState.DONE


# -- a function of the user -----------------------------------------------------------------------


@dataclass(slots=True)
class _Count:
    resumed: int = 0
    open: int = 0


def _function(name: str) -> Resender:
    found = load_object(name)
    if not callable(found) or isinstance(found, type):
        raise UsageError(f"{name} is no function that could be called with a PendingOperation")
    return cast("Resender", found)


def _resume_with(url: str, function: Resender, ids: Sequence[str], namespace: str | None) -> bool:
    """Call the function for each; return whether none is left that could still be sent."""
    count = _Count()
    with journal_at(url) as journal:
        for operation in _chosen(journal, ids, namespace):
            name = plain(operation.operation_id)
            if not operation.resumable:
                count.open += operation.state not in FINISHED
                complain(f"{name}: not sent: {_refusal(operation)}")
            elif operation.leased and not ids:
                count.open += 1
                complain(f"{name}: left alone: {advice(operation)}")
            elif _called(journal, function, operation):
                count.resumed += 1
            else:
                count.open += 1
    say(f"{count.resumed} have an end now, {count.open} are still open.")
    return count.open == 0


def _chosen(journal: Journal, ids: Sequence[str], namespace: str | None) -> list[PendingOperation]:
    now = system_clock()
    if ids:
        return [described(find(journal, each, namespace), now) for each in ids]
    return [each for each in pending(journal, now, namespace) if each.resumable]


def _refusal(operation: PendingOperation) -> str:
    ended = operation.state in FINISHED
    return "it has an end already" if ended else advice(operation)


def _called(journal: Journal, function: Resender, operation: PendingOperation) -> bool:
    """Call the function; say and return whether the operation has an end now."""
    failure = ""
    try:
        result = function(operation)
        if inspect.isawaitable(result):
            anyio.run(_awaited, result)
    except Exception as error:  # noqa: BLE001 - told below; the others have their turn
        failure = f"{type(error).__name__}: {error}"
    entry = journal.read(ReadOperation(operation.namespace, operation.operation_id))
    ended = entry is not None and entry.state in FINISHED
    state = "gone" if entry is None else entry.state.value
    status = f", status {entry.final_status}" if entry and entry.final_status else ""
    said = f"{operation.operation_id}: {state}{status}{'; ' + failure if failure else ''}"
    (say if ended else complain)(plain(said))
    return ended


async def _awaited(result: Awaitable[object]) -> object:
    return await result
