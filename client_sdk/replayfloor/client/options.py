"""What the caller says about idempotency: the request's extension and its own key header.

    extensions={"idempotency": {"operation_id": "invoice-123", "key": "..."}}

Anything that is not understood is refused before a byte leaves: a mistyped `operation_id` would
otherwise mean a new key at every call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict, cast

from replayfloor.client.profiles import Profile
from replayfloor.core.errors import InvalidKey, UsageError
from replayfloor.core.key import KeyRules, check_key, parse_key, write_key

EXTENSION: Final = "idempotency"
"""Its name in the extensions of requests and of responses."""

OPERATION_ID_LENGTH_MAX: Final = 255
"""Characters, as for a key: it is an identifier, not a document."""

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
        if not (isinstance(operation_id, str) and operation_id.strip()):
            raise UsageError(f"an operation_id is a string that is not blank: {operation_id!r}")
        if len(operation_id) > OPERATION_ID_LENGTH_MAX:
            raise UsageError(f"an operation_id has at most {OPERATION_ID_LENGTH_MAX} characters")
        options["operation_id"] = operation_id
    if (key := given.get("key")) is not None:
        if not isinstance(key, str):
            raise InvalidKey(f"a key is a string, not {key!r}")
        options["key"] = check_key(key)
    return options


def choose_key(lines: Sequence[bytes], option: str | None, profile: Profile) -> str | None:
    """Return the key that the caller gave, in the header or the extension; None if in neither.

    Raises InvalidKey if it could not be written to the header, UsageError if the two differ.
    """
    key = option
    if lines:
        key = parse_key(lines, _EITHER_FORM) if profile.quoted else _bare(lines)
        if option not in (None, key):
            raise UsageError(f"the {profile.header} header and the extension hold different keys")
    if key is not None:
        write_header(key, profile)
    return key


def write_header(key: str, profile: Profile) -> bytes:
    """Return the field value for a key, as the provider takes it; raises InvalidKey."""
    quoted = write_key(key)
    if profile.quoted:
        return quoted
    if key != key.strip(" "):
        raise InvalidKey("a key that is sent without quotes cannot begin or end with a space")
    return key.encode("ascii")


def _bare(lines: Sequence[bytes]) -> str:
    if len(lines) != 1:
        raise InvalidKey("send exactly one line of the key header (RFC 9110, 5.3)")
    return check_key(lines[0].strip(b" \t").decode("latin-1"))
