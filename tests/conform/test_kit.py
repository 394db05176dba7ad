"""What the kit itself promises: where it sends, where it ends, what it prints."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from typer.testing import CliRunner

from conform.faulty import FaultyServer
from conform.serving import COUNT, asking, served
from conform.shop import make_shop, target
from replayfloor.conform import CHECKS, Verdict, cli, run_checks, select
from replayfloor.conform import shell as shell_module
from replayfloor.conform.cli import app as command
from replayfloor.conform.effects import Count, Exchange, Seen, Sending
from replayfloor.conform.facts import Facts, Fate, Pair, executions, fate
from replayfloor.conform.shell import Limits, Shell
from replayfloor.conform.target import Kind, Operation, other_body
from replayfloor.core.errors import UsageError
from support.services.server import free_port
from support.sources import ROOT

MARK = ((b"idempotent-replayed", b"true"),)


@pytest.fixture(scope="module")
def server() -> FaultyServer:
    return FaultyServer(make_shop())


@pytest.fixture(scope="module")
def address(server: FaultyServer) -> Iterator[str]:
    with served(server) as url:
        yield url


def run(*arguments: str) -> tuple[int, str, str]:
    cli.out.width = 200  # COLUMNS is read when the module is, which may have been long ago
    done = CliRunner().invoke(command, list(arguments))
    return done.exit_code, done.stdout, done.stderr


# -- how it ends -------------------------------------------------------------------------------


def test_a_run_in_which_nothing_fails_ends_with_0(address: str) -> None:
    code, out, _ = run(address, "--only", "H-2,S-3")

    assert code == 0
    assert "pass" in out
    assert "not applicable" in out
    assert "no second principal is given" in out


def test_a_run_in_which_a_check_fails_ends_with_1(server: FaultyServer, address: str) -> None:
    server.faults = frozenset({"no-body"})
    try:
        code, out, _ = run(address, "--only", "H-2")
    finally:
        server.faults = frozenset()

    assert code == 1
    assert "another payload gets the first answer" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "Z-1"], "no check has the id Z-1"),
        (["--path", "fast=/x"], "--path is NAME=/path"),
        (["--header", "nonsense"], "a header is"),
        (["--count-url", "http://elsewhere.example/count"], "on the server that is asked"),
        (["--path", "/no-such-path"], "a first request is answered 404"),
        (["--count-url", "/payments"], "the count is answered 405"),
        (["--count-url", "/count#/nothing"], "the count cannot be read"),
    ],
)
def test_what_cannot_be_run_ends_with_2_and_says_why(
    address: str, arguments: list[str], said: str
) -> None:
    code, _, err = run(address, *arguments)

    assert code == 2
    assert said in err


def test_a_server_that_is_away_ends_with_2() -> None:
    code, _, err = run(f"http://127.0.0.1:{free_port()}/payments")

    assert code == 2
    assert "cannot be reached" in err


def test_what_a_time_limit_leaves_out_is_shown_as_not_run(address: str) -> None:
    limits = Limits(run_s=0.5)
    with Shell(address, count_url=COUNT, limits=limits) as shell:
        report = run_checks(target(), CHECKS, shell)

    assert report.ids(Verdict.NOT_RUN)
    assert report.ids(Verdict.PASS)
    assert report.exit_code == 2


# -- where it sends ----------------------------------------------------------------------------


def test_a_redirect_is_not_followed(address: str) -> None:
    asked: list[str] = []

    async def away(request: Request) -> Response:
        asked.append(request.url.path)
        return RedirectResponse("/elsewhere", 307)

    async def elsewhere(request: Request) -> Response:
        asked.append(request.url.path)
        return PlainTextResponse("no")

    app = Starlette(
        routes=[
            Route("/payments", away, methods=["POST"]),
            Route("/elsewhere", elsewhere, methods=["POST"]),
        ]
    )
    with served(app) as url, Shell(url) as shell:
        (seen,) = _sent(shell, _post("/payments"))

    assert seen.status == 307
    assert asked == ["/payments"]


@pytest.mark.parametrize("path", ["http://elsewhere.example/", "//elsewhere.example/payments"])
def test_no_path_leads_to_another_server(address: str, path: str) -> None:
    with asking(address) as shell, pytest.raises(UsageError):
        shell(Exchange((_post(path),)))


def test_a_count_on_another_server_is_refused_before_anything_is_sent(address: str) -> None:
    with pytest.raises(UsageError, match="on the server that is asked"):
        Shell(address, count_url="http://elsewhere.example/count")


def test_a_proxy_of_the_environment_is_not_used(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("NO_PROXY", "")

    with asking(address) as shell:
        assert isinstance(shell(Count("x")), int)


def _post(path: str) -> Sending:
    return Sending("POST", path, (), b"{}")


# -- what it is limited by ---------------------------------------------------------------------


def test_no_more_of_an_answer_is_read_than_a_limit(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_module, "ANSWER_BYTES_MAX", 10)

    with asking(address) as shell:
        (seen,) = _sent(shell, Operation(target(), "large").sending(path="/large"))

    assert seen.status == 0
    assert "more than 10 bytes" in seen.failure


def test_no_more_requests_are_sent_than_a_limit(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_module, "REQUESTS_MAX", 20)

    with asking(address) as shell:
        report = run_checks(target(), CHECKS, shell)

    assert report.ids(Verdict.PASS)
    assert report.exit_code == 2
    assert report.results[-1].outcome.seen == "more than 20 requests"


def test_an_answer_that_does_not_come_is_given_up(address: str) -> None:
    with Shell(address, limits=Limits(answer_s=0.1)) as shell:
        (seen,) = _sent(shell, Operation(target(), "slow").sending(path="/slow"))

    assert seen.failure == "no answer in time"


def test_what_a_server_says_cannot_steer_a_terminal() -> None:
    async def hostile(_: Request) -> Response:
        return Response("\x1b]0;title\x07", 400)

    with served(Starlette(routes=[Route("/payments", hostile, methods=["POST"])])) as url:
        _, _, err = run(url)

    assert "title" in err
    assert "\x1b" not in err
    assert "\x07" not in err


def _sent(shell: Shell, sending: Sending) -> tuple[Seen, ...]:
    return cast("tuple[Seen, ...]", shell(Exchange((sending,))))


# -- what it concludes -------------------------------------------------------------------------

ONE, OTHER = Seen(201, body=b"1"), Seen(201, body=b"2")
MARKED = Seen(201, MARK, b"1")
NOTHING, TELLING, MARKS = Facts(False, False), Facts(True, False), Facts(False, True)


@pytest.mark.parametrize(
    ("facts", "second", "executed", "became"),
    [
        (NOTHING, ONE, 2, Fate.EXECUTED),
        (NOTHING, MARKED, 2, Fate.EXECUTED),  # a mark does not outweigh a count
        (NOTHING, ONE, 1, Fate.REPLAYED),
        (NOTHING, OTHER, 1, Fate.ALTERED),
        (NOTHING, ONE, None, Fate.UNKNOWN),
        (TELLING, ONE, None, Fate.REPLAYED),
        (TELLING, OTHER, None, Fate.EXECUTED),
        (MARKS, ONE, None, Fate.EXECUTED),
        (MARKS, MARKED, None, Fate.REPLAYED),
        (NOTHING, Seen(409), None, Fate.REFUSED),
        (NOTHING, Seen(0, failure="lost"), None, Fate.BROKEN),
    ],
)
def test_only_what_was_seen_is_concluded(
    facts: Facts, second: Seen, executed: int | None, became: Fate
) -> None:
    assert fate(facts, Pair(ONE, second, executed)) is became


@pytest.mark.parametrize(
    ("facts", "answers", "ran"),
    [
        (NOTHING, [ONE, OTHER], 2),
        (NOTHING, [ONE, ONE], None),
        (TELLING, [ONE, ONE], 1),
        (MARKS, [ONE, MARKED], 1),
        (MARKS, [ONE, ONE], 2),
        (TELLING, [Seen(409)], 0),
    ],
)
def test_executions_are_counted_from_answers_where_these_tell(
    facts: Facts, answers: list[Seen], ran: int | None
) -> None:
    assert executions(facts, answers) == ran


@pytest.mark.parametrize(
    ("body", "other"),
    [
        (b'{"id": "{id}", "n": 1}', b'{"id": "{id}", "n": 2}'),
        (b'{"id": "{id}", "t": "a"}', b'{"id": "{id}", "t": "a-other"}'),
        (b'{"ok": true}', b'{"ok": true, "conform_other": true}'),
        (b"text", b"text other"),
    ],
)
def test_another_payload_is_made_of_the_first(body: bytes, other: bytes) -> None:
    assert other_body(body) == other


# -- what it prints ----------------------------------------------------------------------------


def test_a_program_and_a_build_read_the_same(address: str, tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"

    _, out, _ = run(address, "--only", "H-5,S-3,A19", "--json", "--junit", str(file))

    results = {each["id"]: each for each in json.loads(out)["results"]}
    suite = ET.fromstring(file.read_text())
    assert {name: each["verdict"] for name, each in results.items()} == {
        "A19": "not applicable",
        "H-5": "pass",
        "S-3": "not applicable",
    }
    assert suite.attrib["tests"] == "3"
    assert suite.attrib["skipped"] == "2"
    assert results["H-5"]["level"] == "MUST"


def test_ids_choose_checks_and_rules_choose_all_that_look_at_them() -> None:
    assert [check.id for check in select(["H-2"])] == ["H-2", "H-1b"]
    assert {check.id for check in select(["B-33"])} == {"SF-6", "U7-7", "K-5", "A2"}
    assert select([]) == CHECKS


def test_the_documentation_has_every_check() -> None:
    text = (ROOT / "docs" / "conform.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]

    for check in CHECKS:
        also = f" ({', '.join(check.rules)})" if check.rules else ""
        assert f"| {check.id}{also} | {check.title} | {check.level} |" in rows


def test_every_id_is_one_of_our_conformance_page_or_of_its_rules() -> None:
    text = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")

    ids = {name for check in CHECKS for name in (check.id, *check.rules)}

    assert {name for name in ids if f"| {name} |" not in text} == set()


def test_the_documentation_has_every_option_and_every_kind_of_path() -> None:
    text = (ROOT / "docs" / "conform.md").read_text(encoding="utf-8")
    _, usage, _ = run("--help")

    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", usage)) - {"--help"}
    assert options
    assert {option for option in options if option not in text} == set()
    assert {kind for kind in Kind if f"`{kind}`" not in text} == set()
