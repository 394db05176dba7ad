"""What a file of the catalogue says, as values: entries, each the making of a profile."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from typing import Final

from replayfloor.client.catalogue.figures import read_facts, read_source, values_of
from replayfloor.client.catalogue.reading import Table
from replayfloor.client.catalogue.retentions import FIGURE, read_retention
from replayfloor.client.profile_answers import ANY_STATUS, ERROR_STATUSES, AnswerRules, Sign
from replayfloor.client.profile_facts import UNKNOWN, Source
from replayfloor.client.profile_keys import KeyForm, key_pattern
from replayfloor.client.profiles import Profile
from replayfloor.core.errors import ConfigurationError
from replayfloor.core.key import KEY_LENGTH_MAX, KeyRules

_PLACEHOLDER_S: Final = 1.0
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One profile of the catalogue, without what the caller has to add.

    `retention_s` is None if no source states it, and then `reason` says so. `agreed_max_s` is the
    longest that a provider grants by agreement: None for nothing, infinity for anything.
    """

    base: Profile
    title: str
    retention_s: float | None
    reason: str
    agreed_max_s: float | None


def read_entries(text: str, where: str) -> dict[str, Entry]:
    """Return the entries of a file by name; raises ConfigurationError."""
    try:
        file = Table(tomllib.loads(text), where)
    except tomllib.TOMLDecodeError as error:
        raise Table({}, where).error(str(error)) from error
    sources = {name: read_source(table) for name, table in file.table("sources").tables()}
    common = file.table("common")
    profiles = file.table("profiles").tables()
    file.end()
    entries: dict[str, Entry] = {}
    for name, own in profiles:
        table = own.over(common)
        try:
            entries[name] = _entry(name, table, sources)
        except ConfigurationError as error:
            # What a profile refuses by itself does not say in which file it is.
            message = str(error)
            raise error if message.startswith(where) else table.error(message) from error
    return entries


def _entry(name: str, table: Table, sources: dict[str, Source]) -> Entry:
    if not _NAME.fullmatch(name):
        raise table.error("a name is made of a-z, 0-9 and -")
    title = table.text("title")
    retention = read_retention(table)
    length = _length(table)
    body_field = table.text("body_field", "")
    base = Profile(
        name=name,
        # Replaced before anybody sees the profile.
        retention_s=_PLACEHOLDER_S if retention.seconds is None else retention.seconds,
        body_field=body_field,
        header="Idempotency-Key" if body_field else table.text("header"),
        quoted=table.take("quoted", bool, default=False),
        methods=table.texts("methods"),
        key_rules=_key_rules(table),
        key_form=_key_form(table),
        hosts=() if table.unknown("hosts") else table.texts("hosts"),
        paths=table.texts("paths", ()),
        answers=_answers(table),
        learns_lifetime=table.take("learns_lifetime", bool, default=False),
        sends_first_sent=table.take("sends_first_sent", bool, default=False),
    )
    values = values_of(base)
    values[FIGURE] = retention.shown
    values["key_length"] = length
    facts = read_facts(table, values, retention.sources | sources, read=retention.fact)
    table.end()
    return Entry(
        base=replace(base, facts=facts),
        title=title,
        retention_s=retention.seconds,
        reason=retention.reason,
        agreed_max_s=retention.agreed_max_s,
    )


def _key_form(table: Table) -> KeyForm:
    name = table.text("key_form", KeyForm.UUID7.value)
    try:
        return KeyForm(name)
    except ValueError as error:
        raise table.error(f"{name!r} is not a form of keys") from error


def _length(table: Table) -> str:
    """Return the limits as the source states them, which may be beyond our own."""
    least, most = table.get("key_length_min"), table.get("key_length_max")
    if most == UNKNOWN:
        return f"at least {least} characters" if least else UNKNOWN
    return f"{least or 1} to {most} characters"


def _key_rules(table: Table) -> KeyRules:
    """Return the rules of a key. A provider's limit beyond our own is cut to ours."""
    unknown = table.unknown("key_length_max")
    pattern = table.text("key_pattern", "")
    return KeyRules(
        length_min=table.take("key_length_min", int, 1),
        length_max=min(
            KEY_LENGTH_MAX if unknown else table.take("key_length_max", int), KEY_LENGTH_MAX
        ),
        pattern=key_pattern(pattern) if pattern else None,
    )


def _answers(table: Table) -> AnswerRules:
    return AnswerRules(
        in_flight=_signs(table, "in_flight"),
        mismatch=_signs(table, "mismatch"),
        executed=_signs(table, "executed", ()),
        not_executed=_signs(table, "not_executed", ()),
        codes_at=table.texts("codes_at", ()),
        # Where no source speaks of a mark, none is believed.
        replayed_by=() if table.unknown("replayed_by") else table.texts("replayed_by"),
        replayed_final=table.statuses("replayed_final", ANY_STATUS),
        burnt=table.statuses("burnt", frozenset()),
        should_retry=table.text("should_retry", ""),
        hint_required=table.take("hint_required", bool, default=False),
    )


def _signs(table: Table, name: str, default: tuple[Sign, ...] | None = None) -> tuple[Sign, ...]:
    if table.unknown(name):
        return ()
    if not table.has(name) and default is not None:
        return default
    return tuple(_sign(each) for each in table.each_table(name))


def _sign(table: Table) -> Sign:
    statuses = table.statuses("statuses", ERROR_STATUSES)
    sign = Sign(statuses=statuses, codes=frozenset(table.texts("codes", ())))
    table.end()
    return sign
