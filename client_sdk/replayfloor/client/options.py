"""What the caller says about idempotency, and how a key is written into a request.

The caller speaks through the request's extension, or through a key of its own in the request:

    extensions={"idempotency": {"operation_id": "invoice-123", "key": "..."}}

or, around an SDK that passes no extensions on, through the block it is called in:

    with operation("invoice-123"):
        stripe_client.v1.payment_intents.create(…)

Anything that is not understood is refused before a byte leaves: a mistyped `operation_id` would
otherwise mean a new key at every call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from email.utils import formatdate
from types import TracebackType
from typing import Final, TypedDict, cast

from replayfloor.client.key_member import read_member, with_member
from replayfloor.client.profiles import NS_PER_S, Profile
from replayfloor.core.errors import ConfigurationError, InvalidKey, UsageError
from replayfloor.core.key import KeyRules, check_key, parse_key, write_key

EXTENSION: Final = "idempotency"
"""Its name in the extensions of requests and of responses."""

FIRST_SENT_FIELD: Final = "Repeatability-First-Sent"
"""The time of the first attempt (OASIS Repeatable Requests 1.0, 3.3)."""

OPERATION_ID_LENGTH_MAX: Final = 255
"""Characters, as for a key: it is an identifier, not a document."""

_current: ContextVar[str | None] = ContextVar("replayfloor.client.operation", default=None)

_PLAIN: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")
"""What nearly every key looks like, those that are made here always."""

_EITHER_FORM: Final = KeyRules(accept_unquoted=True)


class IdempotencyOptions(TypedDict, total=False):
    """The request's extension. An operation id is what makes a call resumable after a restart."""

    operation_id: str
    key: str


def read_options(extension: object) -> IdempotencyOptions:
    """Return the validated extension; raises UsageError, InvalidKey if it is the key."""
    if extension is None:
        return {}
    if not isinstance(extension, Mapping):
        raise UsageError(f"the extension {EXTENSION!r} is a dictionary, not {extension!r}")
    given = cast("Mapping[object, object]", extension)
    unknown = [name for name in given if name not in ("operation_id", "key")]
    if unknown:
        raise UsageError(f"the extension {EXTENSION!r} has unknown members: {unknown!r}")
    options: IdempotencyOptions = {}
    if (operation_id := given.get("operation_id")) is not None:
        options["operation_id"] = _check_operation_id(operation_id)
    if (key := given.get("key")) is not None:
        if not isinstance(key, str):
            raise InvalidKey(f"a key is a string, not {key!r}")
        options["key"] = check_key(key)
    return options


def _check_operation_id(operation_id: object) -> str:
    if not (isinstance(operation_id, str) and operation_id.strip()):
        raise UsageError(f"an operation_id is a string that is not blank: {operation_id!r}")
    if len(operation_id) > OPERATION_ID_LENGTH_MAX:
        raise UsageError(f"an operation_id has at most {OPERATION_ID_LENGTH_MAX} characters")
    return operation_id


class _Block:
    """What `operation` returns. Not a decorator: a coroutine would run after its end."""

    def __init__(self, operation_id: str) -> None:
        self._operation_id = operation_id
        self._tokens: list[Token[str | None]] = []

    def __enter__(self) -> None:
        self._tokens.append(_current.set(self._operation_id))

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _current.reset(self._tokens.pop())


def operation(operation_id: str) -> AbstractContextManager[None]:
    """Give the one write that is sent within the block an operation id.

    It is for SDKs that pass no extensions on. It holds for the thread or task that enters the
    block and for tasks that it starts there. An `operation_id` in a request's extension goes before
    it. Where the operation has a key already, from an earlier call, that one is sent, and not the
    one that the SDK made for this call. A second, different write within the block is refused with
    KeyReuseMismatch, and nothing of it is sent. What no profile covers passes through without a
    key, as it does outside of the block. In a generator the block must not yield: what the caller
    sends meanwhile would be sent within it.

    Raises UsageError for an id that is blank, or longer than 255 characters.
    """
    return _Block(_check_operation_id(operation_id))


def current_operation() -> str | None:
    """Return the operation id of the block that this is called in, or None."""
    return _current.get()


def choose_key(
    lines: Sequence[bytes], option: str | None, profile: Profile, body: bytes = b""
) -> str | None:
    """Return the key that the caller gave, in the request or the extension; None if in neither.

    `lines` are the values of the key header; `body` is looked at if that is where the provider
    takes its key from. Raises InvalidKey if the provider would not take the key, UsageError if the
    two differ, or if no key can be written to the body.
    """
    key = option
    given = _given(lines, body, profile)
    if given is not None:
        key = given
        if option not in (None, key):
            place = f"member {profile.body_field}" if profile.body_field else "header"
            name = "body's" if profile.body_field else profile.header
            raise UsageError(f"the {name} {place} and the extension hold different keys")
    if key is not None:
        profile.check_key(key)
        if not profile.body_field:
            write_header(key, profile)
    return key


def _given(lines: Sequence[bytes], body: bytes, profile: Profile) -> str | None:
    if profile.body_field:
        if lines:
            raise UsageError(f"{profile.name} takes its key in the body, and not in a header")
        return read_member(body, profile.body_field)
    if not lines:
        return None
    return parse_key(lines, _EITHER_FORM) if profile.quoted else _bare(lines)


def write_header(key: str, profile: Profile) -> str:
    """Return the field value for a key, as the provider takes it; raises InvalidKey.

    Raises ConfigurationError for a provider that takes no header: it would ignore the key.
    """
    if profile.body_field:
        raise ConfigurationError(
            f"{profile.name} takes its key in the body, as {profile.body_field!r}; a header would "
            "not protect the request"
        )
    if _PLAIN.fullmatch(key):
        # Without a character to escape, a String is the text between two quotes (RFC 9651, 4.1.6).
        return f'"{key}"' if profile.quoted else key
    quoted = write_key(key).decode("ascii")
    if profile.quoted:
        return quoted
    if key != key.strip(" "):
        raise InvalidKey("a key that is sent without quotes cannot begin or end with a space")
    return key


def write_fields(key: str, first_attempt_at_ns: int, profile: Profile) -> list[tuple[str, str]]:
    """Return the header fields that an attempt gets: the key's, and the first attempt's time.

    The time is cut to the second, as an HTTP-date is (RFC 9110, 5.6.7): it is never later than the
    first attempt was. Raises InvalidKey.
    """
    written: list[tuple[str, str]] = []
    if not profile.body_field:
        written.append((profile.header, write_header(key, profile)))
    if profile.sends_first_sent:
        moment = formatdate(first_attempt_at_ns // NS_PER_S, usegmt=True)
        written.append((FIRST_SENT_FIELD, moment))
    return written


def write_body(body: bytes, key: str, profile: Profile) -> bytes:
    """Return the body that every attempt sends: with the key, if the provider takes it there.

    Raises UsageError if it has no place for one.
    """
    return with_member(body, profile.body_field, key) if profile.body_field else body


def _bare(lines: Sequence[bytes]) -> str:
    if len(lines) != 1:
        raise InvalidKey("send exactly one line of the key header (RFC 9110, 5.3)")
    return check_key(lines[0].strip(b" \t").decode("latin-1"))
