"""The Markdown page, read as a reader's program reads it, and the description for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from markdown_it import MarkdownIt
from markdown_it.token import Token

from replayfloor.core.problem import TYPE_PREFIX, Problem, ProblemKind
from replayfloor.server.docs import Endpoint, describe, facts, markdown
from replayfloor.server.docs.describe import COLUMNS, EVERY_OTHER_PATH
from replayfloor.server.docs.operations import rows, unreachable
from replayfloor.server.docs.problems import OF_DELIVERIES, explain, kinds
from replayfloor.server.routes import Overrides, Route
from replayfloor.server.settings import Settings
from server.docs_settings import every_settings, settings_of, some_examples

FEW = some_examples(15)

EVERYTHING = settings_of(required=True, retention=35 * 86_400)
"""Settings under which every refusal can occur."""


class Page:
    """A page as a tree: headings in order, and the tables as lists of cells."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = MarkdownIt("commonmark").enable("table").parse(text)
        self.headings = self._headings()
        self.tables = self._tables()

    def _headings(self) -> list[tuple[str, str]]:
        return [
            (token.tag, self.tokens[at + 1].content)
            for at, token in enumerate(self.tokens)
            if token.type == "heading_open"
        ]

    def _tables(self) -> list[list[list[Token]]]:
        tables: list[list[list[Token]]] = []
        for at, token in enumerate(self.tokens):
            if token.type == "table_open":
                tables.append([])
            elif token.type == "tr_open":
                tables[-1].append([])
            elif token.type in ("th_open", "td_open"):
                tables[-1][-1].append(self.tokens[at + 1])
        return tables

    def section(self, title: str) -> str:
        """Return the text under a heading."""
        return re.split(r"\n#+ ", self.text.split(f" {title}\n")[1])[0]


def codes(cell: Token) -> list[str]:
    """Return the inline code of a cell or a paragraph."""
    return [each.content for each in cell.children or () if each.type == "code_inline"]


def contents(line: Sequence[Token]) -> list[str]:
    """Return the cells as they are shown."""
    return ["".join(each.content for each in cell.children or ()) for cell in line]


# -- the page ------------------------------------------------------------------------------------


@FEW
@given(every_settings())
def test_whatever_the_options_the_page_is_well_formed_and_complete(drawn: Settings) -> None:
    protected = rows(drawn)
    page = Page(markdown(drawn))
    if not protected:
        assert "No operation" in page.text
        return
    operations, refusals, stored = page.tables

    assert len(operations) == 1 + len(protected)
    for row, line in zip(protected, operations[1:], strict=True):
        assert len(line) == len(operations[0])
        assert codes(line[1])[:1] == ([row.path] if row.path else [])
        assert contents(line)[2] == ("required" if row.options.required else "optional")
        assert contents(line)[5].startswith("not kept" if row.options.sensitive else "kept")
        policy = stored[int(contents(line)[-1])]
        said = facts.statuses(row.options)
        assert contents(policy)[1:] == [
            ", ".join(said.stored) or "none",
            ", ".join(said.freed) or "none",
            said.raised_words,
        ]
    occurring = {kind for row in protected for kind in kinds(row.options)}
    types = [codes(line[0])[0] for line in refusals[1:]]
    assert types == [Problem(kind, "").type for kind in ProblemKind if kind in occurring]
    assert all(len(line) == len(refusals[0]) for line in refusals)
    retention_ms = drawn.routes.defaults.retention_ms
    if retention_ms is not None:
        assert f"{facts.seconds(retention_ms)} s" in page.section("Expiry")


def test_the_types_that_are_documented_are_the_problems_that_there_are() -> None:
    lines = Page(markdown(EVERYTHING)).tables[1][1:]
    documented = {codes(line[0])[0]: contents(line)[1:5] for line in lines}

    keyed = set(ProblemKind) - OF_DELIVERIES
    assert documented.keys() == {TYPE_PREFIX + kind.value for kind in keyed}
    for kind in keyed:
        problem, told = Problem(kind, ""), explain(kind, EVERYTHING)
        texts = [text.replace("`", "") for text in (told.meaning, told.advice)]
        assert documented[problem.type] == [problem.title, str(problem.status), *texts]


def test_the_headings_are_in_order_and_below_the_one_that_is_asked_for() -> None:
    assert [tag for tag, _ in Page(markdown(EVERYTHING)).headings] == ["h2", *["h3"] * 8]
    assert [tag for tag, _ in Page(markdown(EVERYTHING, level=1)).headings][:2] == ["h1", "h2"]


def test_retry_after_is_in_the_table_where_it_is_sent() -> None:
    lines = Page(markdown(EVERYTHING)).tables[1][1:]
    waits = {codes(line[0])[0].removeprefix(TYPE_PREFIX): contents(line)[5] for line in lines}

    assert {kind for kind, text in waits.items() if text != "none"} == {
        "in-flight",
        "outcome-unknown",
        "store-unavailable",
    }
    assert waits["outcome-unknown"] == "1 minute"


def test_a_browser_is_allowed_what_it_needs() -> None:
    text = Page(markdown(EVERYTHING)).section("Browsers")

    assert "Access-Control-Allow-Headers: Idempotency-Key\n" in text
    assert (
        "Access-Control-Expose-Headers: Idempotent-Replayed, Idempotency-Key-Lifetime, "
        "Retry-After, Link\n" in text
    )
    assert "Lifetime" not in markdown(settings_of())
    assert "Idempotency-Unprotected" in Page(markdown(settings_of(on_outage="execute"))).section(
        "Browsers"
    )


def test_how_long_a_repeated_request_may_have_to_wait_is_said() -> None:
    routes = [Route("POST", "/pay", wait_for_s=5)]

    assert "have to wait for 5 seconds" in markdown(settings_of(routes=routes, wait_for_s=1))
    assert "have to wait" not in markdown(settings_of())


def test_the_example_is_shown_as_it_is_sent() -> None:
    assert 'Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"\n' in markdown(EVERYTHING)


def test_bars_and_backticks_of_the_users_do_not_break_the_page() -> None:
    drawn = settings_of(
        routes=[Route("POST", "/a|b/`c`/{x}", exclude=["/d|e"])], key_pattern="a|`b"
    )
    page = Page(markdown(drawn))
    line = page.tables[0][1]

    assert codes(line[1]) == ["/a|b/`c`/{x}"]
    assert "/d|e" in codes(line[4])
    assert len(line) == len(page.tables[0][0])
    code = [each for token in page.tokens for each in codes(token)]
    assert "a|`b" in code


def test_operations_of_the_application_are_listed_with_their_decorators() -> None:
    endpoints = [
        Endpoint("POST", "/refunds", Overrides(required=True, effects="repeatable")),
        Endpoint("GET", "/refunds"),
        Endpoint("POST", "/pay/{id}"),
    ]
    drawn = settings_of(methods=[], routes=[Route("POST", "/pay/{id:int}")])
    lines = Page(markdown(drawn, endpoints, owner="account")).tables[0][1:]

    assert [(contents(line)[0], codes(line[1]), contents(line)[2]) for line in lines] == [
        ("POST", ["/refunds"], "required"),
        ("POST", ["/pay/{id:int}", "/pay/{id}"], "optional"),
    ]
    assert "same key of another account" in markdown(drawn, endpoints, owner="account")


# -- the description -----------------------------------------------------------------------------


@FEW
@given(every_settings())
def test_whatever_the_options_the_description_has_a_line_for_each_protected_route(
    drawn: Settings,
) -> None:
    text = describe(drawn)
    protected = rows(drawn)
    if not protected:
        assert "No request is protected" in text
        return
    head, *lines = text.split("\n\n")[1].splitlines()
    starts = [head.index(column) for column in COLUMNS]

    assert len(lines) == len(protected)
    for row, line in zip(protected, lines, strict=True):
        cells = [
            line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)
        ]
        said = facts.statuses(row.options)
        assert cells[:4] == [
            row.methods,
            row.path or EVERY_OTHER_PATH,
            "required" if row.options.required else "optional",
            row.options.effects.value,
        ]
        assert cells[4] == ("taken over" if row.options.takes_over else "outcome-unknown")
        times = (row.options.lease_ms, row.options.wait_ms)
        assert cells[5:7] == [f"{facts.seconds(ms)} s" for ms in times]
        assert cells[7] == ("executed" if row.options.executes_openly else "refused")
        assert cells[8] == ("not kept" if row.options.sensitive else "kept")
        table = text.split(f"STATUSES {cells[11]} ")[1].split("\n\n")[0]
        assert f"stored        {', '.join(said.stored) or 'none'}\n" in table
        assert f"free the key  {', '.join(said.freed) or 'none'}\n" in table
        assert said.raised_words in table


def test_the_description_says_how_a_body_counts() -> None:
    def fingerprint(**options: object) -> str:
        line = describe(settings_of(retention=60, **options)).splitlines()[3]
        return line.split("  kept")[1].partition("1 minute")[0].strip()

    assert fingerprint() == "body"
    assert fingerprint(fingerprint="off") == "without body"
    assert fingerprint(exclude=["/sent_at"]) == "body without /sent_at"
    assert fingerprint(fingerprint=test_the_description_says_how_a_body_counts).startswith("by te")


def test_a_route_that_no_request_reaches_is_named() -> None:
    drawn = settings_of(routes=[Route("*", "/a/{x}"), Route("POST", "/a/b")])

    assert len(unreachable(drawn)) == 1
    assert "Never reached, an earlier route has all its requests: POST /a/b" in describe(drawn)
    assert "Never" not in describe(settings_of())


def test_the_limits_and_the_namespace_are_said() -> None:
    text = describe(settings_of(namespace="shop", body_bytes_max=1000, response_headers_max=7))

    assert 'namespace "shop"' in text
    assert "at most 1000 bytes" in text
    assert "1048576 bytes (1 MiB) and 7 header lines" in text


@pytest.mark.parametrize("line", describe(settings_of(key_pattern="[a-z]+")).splitlines())
def test_no_line_ends_in_spaces(line: str) -> None:
    assert line == line.rstrip()
