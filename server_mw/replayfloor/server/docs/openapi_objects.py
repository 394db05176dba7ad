"""The objects of OpenAPI that a protected operation gets: parameter, responses, headers, schema.

They are the same in OpenAPI 3.0 and 3.1. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from replayfloor.core.problem import MEDIA_TYPE, TYPE_PREFIX, Problem, ProblemKind
from replayfloor.server.docs import facts
from replayfloor.server.docs.keys import (
    key_example,
    key_rules,
    key_schema,
    pattern_text,
    uniqueness,
)
from replayfloor.server.docs.openapi_json import Object
from replayfloor.server.docs.operations import Applies
from replayfloor.server.docs.problems import example, explain, kinds, retry_after
from replayfloor.server.policy import Disposition, Options, disposition
from replayfloor.server.settings import Settings

PROBLEM_SCHEMA: Final = "IdempotencyProblem"
"""Name of the schema in `components`; long enough not to be an application's own."""

PROBLEM_REF: Final = f"#/components/schemas/{PROBLEM_SCHEMA}"

EXTENSION: Final = "x-idempotency"


def problem_schema() -> Object:
    """Return the schema of every refusal."""
    uri: Object = {"type": "string", "format": "uri"}
    text: Object = {"type": "string"}
    whole: Object = {"type": "integer", "minimum": 1}
    types = [TYPE_PREFIX + kind.value for kind in ProblemKind]
    described = {
        "type": {**uri, "enum": types, "description": "What was refused; branch on this."},
        "title": {**text, "description": "The same for every occurrence."},
        "status": {"type": "integer", "description": "The status of the answer."},
        "detail": {**text, "description": "What happened this time, for people."},
        "documentation": {**uri, "description": "A page about it; the Link header names it too."},
        "retry_after": {**whole, "description": "Seconds, as in Retry-After."},
        "differs": {**text, "description": "Which parts are not those of the first request."},
        "original_status": {"type": "integer", "description": "Of the answer that was not kept."},
        "location": {**text, "description": "The Location of the answer that was not kept."},
        "retention": {**whole, "description": "For how many seconds receipts are kept."},
    }
    return {
        "title": "A refusal because of the Idempotency-Key (RFC 9457)",
        "type": "object",
        "properties": described,
        "required": ["type", "title", "status", "detail", "documentation"],
    }


def key_parameter(applied: Sequence[Applies], owner: str | None) -> Object:
    """Return the parameter for the key; required if every path of the operation requires it."""
    protected = _protected(applied)
    shown: Object = {
        "name": facts.KEY_FIELD,
        "in": "header",
        "required": all(each.options and each.options.required for each in applied),
        "description": _key_description(applied, owner),
        "schema": key_schema(protected[0]),
    }
    value = key_example(protected[0])
    return shown if value is None else {**shown, "example": value}


def refusals(applied: Sequence[Applies], settings: Settings) -> dict[str, Object]:
    """Return the responses by status, one for all refusals that have it."""
    every = _protected(applied)
    met = [kind for kind in ProblemKind if any(kind in kinds(options) for options in every)]
    by_status: dict[int, list[ProblemKind]] = {}
    for kind in met:
        by_status.setdefault(Problem(kind, "").status, []).append(kind)
    return {str(status): _refusal(of, every, settings) for status, of in by_status.items()}


def _refusal(met: Sequence[ProblemKind], every: Sequence[Options], settings: Settings) -> Object:
    examples: Object = {}
    lines: list[str] = []
    waits: list[str] = []
    for kind in met:
        options = next(options for options in every if kind in kinds(options))
        told = explain(kind, settings)
        lines.append(f"- `{kind.value}`: {told.meaning} {told.advice}")
        problem = example(kind, options)
        body = problem.to_response(options.documentation).body
        examples[kind.value] = {"summary": problem.title, "value": json.loads(body)}
        wait = retry_after(kind, [options for options in every if kind in kinds(options)])
        if wait:
            waits.append(f"`{kind.value}`: {wait}")
    only: Object = {"enum": [TYPE_PREFIX + kind.value for kind in met]}
    schema: Object = {"allOf": [{"$ref": PROBLEM_REF}, {"properties": {"type": only}}]}
    headers: Object = {"Link": _header('The page about it, with `rel="describedby"`.', "string")}
    if waits:
        text = f"After how many seconds to repeat the request. {'; '.join(waits)}."
        headers["Retry-After"] = _header(text, "integer")
    return {
        "description": "\n".join(["Refused because of the Idempotency-Key:", "", *lines]),
        "headers": headers,
        "content": {MEDIA_TYPE: {"schema": schema, "examples": examples}},
    }


def answer_headers(status: str, applied: Sequence[Applies], settings: Settings) -> Object:
    """Return the headers that the middleware may add to an answer with this status.

    `status` is as OpenAPI spells it: "201", "4XX" or "default".
    """
    every = _protected(applied)
    headers: Object = {}
    if any(_replayed(status, options) for options in every):
        text = "`true` if this is the stored answer to a repeated request; nothing was executed."
        headers[facts.REPLAYED_FIELD] = _header(text, "string", "true")
    lifetime = facts.lifetime(settings)
    if lifetime is not None:
        text = "For how many seconds receipts are kept; if the request had a key."
        headers[facts.LIFETIME_FIELD] = _header(text, "integer", int(lifetime))
    if any(options.executes_openly for options in every):
        text = (
            "`true` if the request was executed without protection, because receipts could not be "
            "reached. Repeated, it may be executed again."
        )
        headers[facts.UNPROTECTED_FIELD] = _header(text, "string", "true")
    return headers


def _replayed(status: str, options: Options) -> bool:
    """Say whether a stored answer can have the status."""
    if not status.isdecimal():
        return True
    failed = ProblemKind.HANDLER_FAILED
    if failed in kinds(options) and int(status) == Problem(failed, "").status:
        return True
    return not options.sensitive and disposition(int(status), options) is Disposition.STORE


def _header(description: str, type_: str, value: object = None) -> Object:
    shown: Object = {"description": description, "schema": {"type": type_}}
    return shown if value is None else {**shown, "example": value}


# -- the policy ----------------------------------------------------------------------------------


def extension(applied: Sequence[Applies], settings: Settings) -> Object:
    """Return the policy of an operation for programs: the value of `x-idempotency`."""
    *special, general = applied
    shown = _policy(general.options, settings)
    if special:
        shown["paths"] = {each.only: _policy(each.options, settings) for each in special}
    return shown


def _policy(options: Options | None, settings: Settings) -> Object:
    if options is None:
        return {"protected": False}
    rules, sorted_out = options.key_rules, facts.statuses(options)
    key: Object = {
        "length_min": rules.length_min,
        "length_max": rules.length_max,
        "unquoted": rules.accept_unquoted,
        "uuid7": options.require_uuid7,
    }
    if rules.pattern is not None:
        key["pattern"] = pattern_text(rules.pattern)
    shown: Object = {
        "protected": True,
        "required": options.required,
        "effects": options.effects.value,
        "orphan": "taken-over" if options.takes_over else "outcome-unknown",
        "fingerprint": _fingerprint(options),
        "answers_kept": not options.sensitive,
        "stored": list(sorted_out.stored),
        "freed": list(sorted_out.freed),
        "raised": "stored" if sorted_out.raised is Disposition.STORE else "freed",
        "body_bytes_max": settings.body_bytes_max,
        "key": key,
    }
    if options.retention_ms is not None:
        whole, rest = divmod(options.retention_ms, 1000)
        shown["retention_s"] = options.retention_ms / 1000 if rest else whole
        shown["retention"] = facts.iso_duration(options.retention_ms)
    return shown


def _fingerprint(options: Options) -> Object:
    rule = options.body_rule
    if rule.function is not None:
        return {"body": "function"}
    if rule.exclude:
        return {"body": "meaning", "exclude": list(facts.pointers(rule))}
    return {"body": "meaning" if rule.counts else "off"}


def _key_description(applied: Sequence[Applies], owner: str | None) -> str:
    *special, general = applied
    options = _protected(applied)[0]
    parts = [
        "Sent again with the same key, the request is answered with the answer to the first one "
        f"instead of being executed again. {uniqueness(owner)}",
        " ".join(key_rules(options)),
        facts.expiry(options),
        *(
            f"Paths that match {facts.code(each.only)}: {_promise(each.options)}"
            for each in special
        ),
        f"All other paths: {_promise(general.options)}" if special else _promise(general.options),
    ]
    return "\n\n".join(parts)


def _promise(options: Options | None) -> str:
    """Say what differs between routes."""
    if options is None:
        return "the key is ignored."
    sorted_out = facts.statuses(options)
    sentences = [
        "a key is required."
        if options.required
        else "without a key, a request is executed each time it is sent.",
        f"A repeated request is the same if it has the same {facts.compared(options.body_rule)}.",
        f"If a request dies before it is answered, {facts.orphan(options.effects)}.",
        f"Answers with a status of {', '.join(sorted_out.stored) or 'none'} are stored; "
        f"{', '.join(sorted_out.freed) or 'none'} free the key.",
        f"A failure without an answer {sorted_out.raised_words}.",
    ]
    if options.sensitive:
        sentences.append(f"Answers are {facts.NOT_KEPT}.")
    if options.wait_ms:
        sentences.append(facts.waiting(options.wait_ms))
    first, *others = sentences
    return " ".join([first[0].upper() + first[1:], *others])


def _protected(applied: Sequence[Applies]) -> list[Options]:
    """Return the options of an operation, of which there is one at least."""
    return [each.options for each in reversed(applied) if each.options is not None]
