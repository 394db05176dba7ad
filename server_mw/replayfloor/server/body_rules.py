"""How a body counts in the fingerprint: the options `fingerprint=` and `exclude=`. Pure.

Reading and hashing a body is in `body.py`; what JSON and forms mean is in `core/canonical.py`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from replayfloor.core.canonical import Pointer
from replayfloor.core.errors import ConfigurationError
from replayfloor.core.message import Headers

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)+", re.DOTALL)
"""RFC 6901, section 3, without the empty pointer, which is the whole document."""


@dataclass(frozen=True, slots=True)
class FingerprintRequest:
    """What a `fingerprint=` function is given: one request, its body whole in memory.

    `path` is the whole path as the client sent it, percent-encoded in one form (`body_target.py`);
    `query` is its bytes; `content_type` is the header's value or b""; header names are lower-case.
    """

    method: str
    path: bytes
    query: bytes
    content_type: bytes
    headers: Headers
    body: bytes


BodyFingerprint: TypeAlias = Callable[[FingerprintRequest], bytes]
"""Returns the bytes that stand for the body: two requests are the same if these bytes are, and
method, path, query and media type too, which count always. It must be quick and depend on its
argument alone; what it raises fails the request before anything is executed."""

FingerprintOption: TypeAlias = BodyFingerprint | Literal["body", "off"]


@dataclass(frozen=True, slots=True)
class BodyRule:
    """How the body of a request counts; made by `body_rule`.

    `counts` is False if only method, path, query and media type are compared; `function` replaces
    the comparison by meaning; `exclude` names what is taken out before it.
    """

    exclude: tuple[Pointer, ...] = ()
    function: BodyFingerprint | None = None
    counts: bool = True


DEFAULT_BODY_RULE = BodyRule()


def body_rule(
    *, fingerprint: FingerprintOption | None = None, exclude: Sequence[str] = ()
) -> BodyRule:
    """Return the rule that a route's options ask for.

    Args:
        fingerprint: "body" or None: by meaning, the default. "off": the body does not count
            (draft -07, 2.4: a fingerprint is optional). A function: see BodyFingerprint.
        exclude: JSON pointers (RFC 6901), such as "/sent_at" or "/items/0/ts", to what may differ
            between a request and its retry. There are no wildcards: "*" is a member of that name,
            and "-" in an array points at nothing. In a form or a multipart body a pointer of one
            segment names a field. Where a body cannot be read with certainty nothing is excluded:
            it counts byte for byte.

    Raises ConfigurationError for a pointer that is none, and for options that exclude each other.
    """
    pointers = _pointers(exclude)
    if fingerprint is None or fingerprint == "body":
        return BodyRule(exclude=pointers) if pointers else DEFAULT_BODY_RULE
    if pointers:
        raise ConfigurationError(
            "exclude has no effect with a fingerprint function or fingerprint='off': choose one"
        )
    if fingerprint == "off":
        return BodyRule(counts=False)
    function = cast("object", fingerprint)
    if not callable(function):
        raise ConfigurationError(
            f"fingerprint={function!r}: expected 'body', 'off' or a function that returns bytes"
        )
    if inspect.iscoroutinefunction(function):
        raise ConfigurationError("fingerprint: expected a plain function, not an asynchronous one")
    return BodyRule(function=fingerprint)


def _pointers(exclude: Sequence[str]) -> tuple[Pointer, ...]:
    pointers = cast("Sequence[object]", exclude)
    if isinstance(pointers, str | bytes):
        raise ConfigurationError(f"exclude={exclude!r}: expected a sequence of JSON pointers")
    return tuple(_pointer(pointer) for pointer in pointers)


def _pointer(pointer: object) -> Pointer:
    if not isinstance(pointer, str):
        raise ConfigurationError(f"exclude: {pointer!r} is no JSON pointer (a string)")
    if pointer == "":
        raise ConfigurationError(
            "exclude: '' is the whole body; fingerprint='off' is the option for that"
        )
    if not _POINTER.fullmatch(pointer):
        raise ConfigurationError(
            f"exclude: {pointer!r} is no JSON pointer: it starts with '/', and '~' and '/' in a "
            "name are written ~0 and ~1 (RFC 6901)"
        )
    # In this order: "~01" is "~1", and not "/" (RFC 6901, section 4).
    return tuple(
        segment.replace("~1", "/").replace("~0", "~") for segment in pointer[1:].split("/")
    )
