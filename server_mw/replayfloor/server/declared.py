"""What a middleware declares of its retention, and what is said if the database disagrees. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import InboundPolicy, RetentionTooShort
from replayfloor.retention.canonical import digest_of
from replayfloor.retention.durations import in_words
from replayfloor.server.stores.policies import Declaration, Declared, NotedPolicy, PolicyState

DIGITS: Final = 12
"""Of a digest, for people: enough to tell two apart, and to find one with grep."""

NONE: Final = "none"
"""In a difference: the figure is not there on that side."""


def declaration_of(
    namespace: str,
    retention_s: float | None,
    policy: InboundPolicy | None,
    *,
    accept_shorter: bool,
) -> Declaration | None:
    """Return what is declared; None if receipts are kept for ever, which forgets nobody's key.

    A retention that is longer than the policy's is declared as that policy with the longer one.
    """
    if retention_s is None:
        return None
    if policy is None:
        length = timedelta(seconds=retention_s) / timedelta(microseconds=1)
        text = f"a retention without a policy\n= retention {_seconds(round(length))}\n"
    else:
        if policy.retention_s != retention_s:
            policy = policy.with_terms(retention=retention_s)
        text = policy.text
    return Declaration(namespace, digest_of(text), retention_s, text, accept_shorter)


def _seconds(us: int) -> str:
    whole, rest = divmod(us, 1_000_000)
    return f"{whole}.{rest:06d} s" if rest else f"{whole} s"


def refuse_shorter(declaration: Declaration, declared: Declared) -> None:
    """Raise RetentionTooShort if the declaration was refused; it says both lengths and why."""
    before = declared.before
    if declared.state is not PolicyState.REFUSED or before is None:
        return
    raise RetentionTooShort(
        f"namespace {declaration.namespace!r}: {_both(declaration, before)}. Keys are in use that "
        "were promised the longer one, and a repetition of them would be executed again",
        advice="keep receipts for as long as before, or accept the shorter retention: once, with "
        "`replayfloor retention accept URL --policy FILE --accept-shorter`, or with the option "
        "accept_shorter=True",
    )


def change_in_words(declaration: Declaration, declared: Declared) -> str | None:
    """Say what a declaration has changed; None if it changed nothing."""
    if declared.before is None or not declared.is_new:
        return None
    accepted = "; accepted" if declared.state is PolicyState.SHORTENED else ""
    return f"namespace {declaration.namespace!r}: {_both(declaration, declared.before)}{accepted}"


def _both(declaration: Declaration, before: NotedPolicy) -> str:
    since = before.noted_at.strftime("%Y-%m-%d %H:%M:%SZ")
    differences = difference(before.text, declaration.text)
    return (
        f"receipts were kept for {in_words(before.retention_s)} (policy "
        f"{before.digest[:DIGITS]}, since {since}) and are to be kept for "
        f"{in_words(declaration.retention_s)} (policy {declaration.digest[:DIGITS]}): "
        f"{'; '.join(differences)}"
    )


def difference(before: str, after: str) -> list[str]:
    """Return in words what differs between two texts of policies, a figure each."""
    old, new = _figures(before), _figures(after)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return [f"{name} {old.get(name, NONE)} -> {new.get(name, NONE)}" for name in names]


def _figures(text: str) -> Mapping[str, str]:
    """Return the lines of a text as figures by name.

    A line is a length with a name in front, or what the text is about. One that cannot be read,
    of another release perhaps, is shown as it is.
    """
    figures: dict[str, str] = {}
    kind, *lines = text.splitlines() or [""]
    if not kind.startswith("replayfloor policy"):
        figures["policy"] = NONE
    for line in lines:
        name, value = _figure(line)
        figures[name] = f"{figures[name]}, {value}" if name in figures else value
    return figures


def _figure(line: str) -> tuple[str, str]:
    if line.startswith("= "):
        name, _, length = line[2:].partition(" ")
        return name.replace("_", " "), _length(length)
    try:
        if line.startswith("inbound "):
            return "policy", str(json.loads(line.removeprefix("inbound ")))
        owner, end = json.JSONDecoder().raw_decode(line)
    except ValueError:
        return line, ""
    term, _, length = line[end:].strip().partition(" ")
    words = term.replace("_", " ")
    return (f"{owner}: {words}" if owner else words), _length(length)


def _length(text: str) -> str:
    try:
        return in_words(float(text.removesuffix(" s")))
    except (ValueError, ConfigurationError):
        return text
