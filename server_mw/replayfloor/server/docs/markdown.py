"""The idempotency specification of an API as Markdown, for its readers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replayfloor.core.key import DRAFT_REVISION
from replayfloor.core.problem import MEDIA_TYPE, Problem, ProblemKind
from replayfloor.server.docs import facts
from replayfloor.server.docs.facts import Statuses, code, statuses
from replayfloor.server.docs.keys import key_example, key_rules, uniqueness
from replayfloor.server.docs.operations import Endpoint, Row, rows
from replayfloor.server.docs.problems import explain, kinds, retry_after
from replayfloor.server.policy import Options
from replayfloor.server.settings import Settings

CORS_ALLOW = (facts.KEY_FIELD,)
CORS_EXPOSE = (
    facts.REPLAYED_FIELD,
    facts.LIFETIME_FIELD,
    "Retry-After",
    "Link",
    facts.UNPROTECTED_FIELD,
)


def markdown(
    settings: Settings,
    endpoints: Iterable[Endpoint] = (),
    *,
    owner: str | None = None,
    level: int = 2,
) -> str:
    """Return the specification as one section of a document.

    Args:
        settings: the middleware's, `IdempotencyMiddleware.settings`.
        endpoints: the operations of the application, as far as they are known.
        owner: what `principal` tells apart, in a word, such as "account".
        level: of the first heading, from 1; the headings below it have one more.
    """
    title = "#" * level + " Idempotent requests"
    # A sender of webhooks makes no key, and reads no description of this API.
    listed = [row for row in rows(settings, endpoints) if row.options.webhook is None]
    page = _Page(settings, listed, owner)
    if not page.rows:
        return f"{title}\n\nNo operation of this API takes an `{facts.KEY_FIELD}`.\n"
    sections = [
        ("Operations", page.operations()),
        ("The header", page.header()),
        ("Repeating a request", page.repeating()),
        ("Refusals", page.refusals()),
        ("What is stored", page.stored()),
        ("Expiry", facts.expiry(page.defaults)),
        ("Replays", page.replays()),
        ("Browsers", page.browsers()),
    ]
    blocks = [title, page.introduction()]
    for heading, text in sections:
        blocks += ["#" * (level + 1) + f" {heading}", text]
    return "\n\n".join(blocks) + "\n"


@dataclass(frozen=True, slots=True)
class _Page:
    """The sections, each as a block of text."""

    settings: Settings
    rows: Sequence[Row]
    owner: str | None

    @property
    def defaults(self) -> Options:
        """The options; retention and key rules are the same for every route."""
        return self.settings.routes.defaults

    def introduction(self) -> str:
        return (
            f"These operations take an `{facts.KEY_FIELD}` header ({DRAFT_REVISION}). A request "
            "that is repeated with the same key is not executed again: it is answered with the "
            "answer to the first one, or told why it cannot be."
        )

    def operations(self) -> str:
        policies = self._policies()
        lines = [
            (
                "every method" if row.methods == "*" else row.methods,
                _path(row),
                "required" if row.options.required else "optional",
                facts.orphan(row.options.effects),
                facts.compared(row.options.body_rule),
                _answer(row.options),
                str(policies.index(statuses(row.options)) + 1),
            )
            for row in self.rows
        ]
        heads = (
            "Method",
            "Path",
            "Key",
            "If a request dies before it is answered",
            "What has to be the same in a repeated request",
            "Answer",
            "Statuses",
        )
        note = "The first line that fits a request counts. Statuses: see What is stored."
        return f"{table(heads, lines)}\n\n{note}"

    def header(self) -> str:
        example = key_example(self.defaults)
        block = f"```http\n{facts.KEY_FIELD}: {example}\n```\n\n" if example else ""
        lines = [*key_rules(self.defaults), uniqueness(self.owner)]
        if not all(row.options.required for row in self.rows):
            lines.append(
                "Where the key is optional, a request without one is executed each time it is sent."
            )
        return block + bullets(lines)

    def repeating(self) -> str:
        lines = [
            "Make the key, and note it together with the request, before you send it first.",
            "If there is no answer, or one of 408, 425, 429 or 5xx, repeat the request unchanged "
            "and with the same key: after `Retry-After` if the answer has it, and less and less "
            f"often. An answer with `{facts.REPLAYED_FIELD}: true` is final: it stays the same.",
            "Repeat what is refused with 409 `in-flight` in the same way.",
            "Correct what is refused with 400 (but for `key-expired`), 413 or 422. A corrected "
            "request is another request and needs a new key.",
            "Use a new key for the same operation only if you know that it was not carried out.",
        ]
        wait_ms = max(row.options.wait_ms for row in self.rows)
        if wait_ms:
            lines.append(facts.waiting(wait_ms))
        if self.defaults.retention_ms is not None:
            latest = facts.words(self.defaults.retention_ms)
            lines.append(f"Stop when {latest} have passed since you first sent the request.")
        return numbered(lines)

    def refusals(self) -> str:
        lines = [
            (
                code(problem.type),
                problem.title,
                str(problem.status),
                explain(kind, self.settings).meaning,
                explain(kind, self.settings).advice,
                self._retry_after(kind),
            )
            for kind in self._kinds()
            for problem in [Problem(kind, "")]
        ]
        heads = ("`type`", "Title", "Status", "Meaning", "What to do", "`Retry-After`")
        text = (
            f"A refusal is a problem detail (RFC 9457) with the content type `{MEDIA_TYPE}`. "
            "Branch on its `type`; `detail` is for people. `documentation` and the `Link` header "
            "lead to a page about it, and `retry_after` repeats `Retry-After`, in seconds."
        )
        return f"{text}\n\n{table(heads, lines)}"

    def stored(self) -> str:
        lines = [
            (
                str(number),
                ", ".join(policy.stored) or "none",
                ", ".join(policy.freed) or "none",
                policy.raised_words,
            )
            for number, policy in enumerate(self._policies(), start=1)
        ]
        heads = ("Statuses", "Stored", "Free the key", "A failure without an answer")
        text = (
            "An answer with a status that is stored is the answer to every repeated request. One "
            "with a status that frees the key says that the operation was not carried out, or may "
            "be carried out again: the request is executed when it is repeated."
        )
        return f"{text}\n\n{table(heads, lines)}"

    def replays(self) -> str:
        lines = [
            f"`{facts.REPLAYED_FIELD}: true` is on every answer that is a stored one. It has the "
            "status, the headers and the body of the first answer, but for cookies, challenges and "
            "what belongs to one message, such as `Date`."
        ]
        lifetime = facts.lifetime(self.settings)
        if lifetime is not None:
            lines.append(
                f"`{facts.LIFETIME_FIELD}: {lifetime}` is on the answers to requests with a key: "
                "for how many seconds receipts are kept."
            )
        if self._executes_openly:
            lines.append(
                f"`{facts.UNPROTECTED_FIELD}: true` is on an answer whose request was executed "
                "without protection, because receipts could not be reached. Repeated, it may be "
                "executed again."
            )
        return bullets(lines)

    def browsers(self) -> str:
        expose = [name for name in CORS_EXPOSE if self._sends(name)]
        return (
            "A page of another origin can use the key if the API answers with\n\n"
            f"```http\nAccess-Control-Allow-Headers: {', '.join(CORS_ALLOW)}\n"
            f"Access-Control-Expose-Headers: {', '.join(expose)}\n```"
        )

    # -- what several sections need -----------------------------------------------------------

    @property
    def _executes_openly(self) -> bool:
        return any(row.options.executes_openly for row in self.rows)

    def _policies(self) -> list[Statuses]:
        return list(dict.fromkeys(statuses(row.options) for row in self.rows))

    def _kinds(self) -> list[ProblemKind]:
        found = {kind for row in self.rows for kind in kinds(row.options)}
        return [kind for kind in ProblemKind if kind in found]

    def _retry_after(self, kind: ProblemKind) -> str:
        every = [row.options for row in self.rows if kind in kinds(row.options)]
        return retry_after(kind, every) or "none"

    def _sends(self, name: str) -> bool:
        if name == facts.LIFETIME_FIELD:
            return facts.lifetime(self.settings) is not None
        if name == facts.UNPROTECTED_FIELD:
            return self._executes_openly
        return True


def _path(row: Row) -> str:
    path = code(row.path) if row.path else "every other path"
    return f"{path}, of {code(row.within)}" if row.within else path


def _answer(options: Options) -> str:
    return facts.NOT_KEPT if options.sensitive else "kept"


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table; a bar inside a cell is escaped, also in code, as GitHub's dialect wants."""
    every = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in every)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def bullets(lines: Iterable[str]) -> str:
    """Return a list."""
    return "\n".join(f"- {line}" for line in lines)


def numbered(lines: Iterable[str]) -> str:
    """Return a numbered list."""
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))
