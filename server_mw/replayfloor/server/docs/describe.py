"""What a middleware does, as plain text for a terminal. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from replayfloor.core.key import DRAFT_REVISION
from replayfloor.server.docs.facts import (
    Statuses,
    bytes_words,
    pointers,
    seconds,
    statuses,
    words,
)
from replayfloor.server.docs.keys import key_rules
from replayfloor.server.docs.operations import Endpoint, Row, rows, unreachable
from replayfloor.server.policy import Options
from replayfloor.server.settings import Settings

COLUMNS = (
    "METHOD",
    "PATH",
    "KEY",
    "EFFECTS",
    "ORPHAN",
    "LEASE",
    "WAIT",
    "STORE AWAY",
    "ANSWER",
    "FINGERPRINT",
    "RETENTION",
    "STATUSES",
)
EVERY_OTHER_PATH = "(every other path)"

TEXT_COLUMNS = 88
"""Where running text is wrapped, beside its headings; a table is as wide as it has to be."""


def describe(settings: Settings, endpoints: Iterable[Endpoint] = ()) -> str:
    """Return what a middleware with these settings does, a line for each protected route.

    `endpoints` are the operations of the application, as far as they are known: with them, the
    decorated ones are listed too. Routes are listed in the order in which they are tried.
    """
    listed = rows(settings, endpoints)
    policies = list(dict.fromkeys(statuses(row.options) for row in listed))
    parts = [
        f'{DRAFT_REVISION}, namespace "{settings.namespace}"',
        _protected(listed, policies),
        *_warnings(settings),
        *_status_tables(policies),
        _limits(settings),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _protected(listed: Sequence[Row], policies: Sequence[Statuses]) -> str:
    if not listed:
        return "No request is protected: there are neither routes nor methods."
    lines = [
        (
            row.methods,
            _path(row),
            *_cells(row.options),
            str(policies.index(statuses(row.options)) + 1),
        )
        for row in listed
    ]
    return aligned([COLUMNS, *lines])


def _path(row: Row) -> str:
    path = row.path or EVERY_OTHER_PATH
    return f"{path} (of {row.within})" if row.within else path


def _cells(options: Options) -> tuple[str, ...]:
    retention_ms = options.retention_ms
    return (
        _key(options),
        (options.worker_effects or options.effects).value,
        "taken over" if options.takes_over else "outcome-unknown",
        f"{seconds(options.lease_ms)} s",
        f"{seconds(options.wait_ms)} s",
        "executed" if options.executes_openly else "refused",
        "not kept" if options.sensitive else "kept",
        _fingerprint(options),
        "no end" if retention_ms is None else words(retention_ms),
    )


def _key(options: Options) -> str:
    hook = options.webhook
    if hook is None:
        return "required" if options.required else "optional"
    verified = "" if hook.verify else ", unverified"
    return f"event of {hook.source.name}{verified}, answered {hook.ack}"


def _fingerprint(options: Options) -> str:
    rule = options.body_rule
    if options.webhook is not None:
        return "the event"
    if not rule.counts:
        return "without body"
    if rule.function is not None:
        return f"by {getattr(rule.function, '__qualname__', type(rule.function).__qualname__)}"
    return f"body without {' '.join(pointers(rule))}" if rule.exclude else "body"


def _warnings(settings: Settings) -> Sequence[str]:
    lines = [
        f"Never reached, an earlier route has all its requests: {route.method} {route.path_pattern}"
        for route in unreachable(settings)
    ]
    return ["\n".join(lines)]


def _status_tables(policies: Sequence[Statuses]) -> Sequence[str]:
    return [_status_table(number, each) for number, each in enumerate(policies, start=1)]


def _status_table(number: int, policy: Statuses) -> str:
    return aligned(
        [
            (f"STATUSES {number}", "stored", ", ".join(policy.stored) or "none"),
            ("", "free the key", ", ".join(policy.freed) or "none"),
            ("", "an exception", policy.raised_words),
        ]
    )


def _limits(settings: Settings) -> str:
    body, answer = bytes_words(settings.body_bytes_max), bytes_words(settings.response_bytes_max)
    texts = [
        ("KEY", " ".join(key_rules(settings.routes.defaults))),
        ("REQUEST", f"Body at most {body}; a larger one is refused with 413."),
        (
            "ANSWER",
            f"Kept up to {answer} and {settings.response_headers_max} header lines; a larger one "
            "passes through, and a repeated request gets 409 answer-not-kept.",
        ),
    ]
    return aligned([line for heading, text in texts for line in _wrapped(heading, text)])


def _wrapped(heading: str, text: str) -> list[tuple[str, str]]:
    lines = textwrap.wrap(text, TEXT_COLUMNS, break_long_words=False, break_on_hyphens=False)
    return [(heading if number == 0 else "", line) for number, line in enumerate(lines)]


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return cells in columns, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
