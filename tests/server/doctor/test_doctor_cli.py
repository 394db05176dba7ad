"""`replayfloor doctor`: exit codes for monitoring, JSON of a stable shape, and no secrets."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import cast

import pytest

from replayfloor.server.doctor.findings import Finding, Level, accept, exit_code, ok
from replayfloor.server.doctor.report import Section, report_json, report_lines
from replayfloor.server.doctor.wanted import Wanted
from replayfloor.server.stores.postgres_options import HANDLER_CONNECTIONS, POOL_CONNECTIONS
from server.cli_databases import Done, opened, run
from server.doctor.examined import CRITICAL, NOTE, OK, WARNING, Patient
from support.services import Redis

POLICY = """\
[inbound.hooks]
client_retry_budget = "72h"
safety_margin = "12h"
"""
NOWHERE = "postgresql://me:very-secret@127.0.0.1:1/x"


@pytest.fixture
def policy(tmp_path: Path) -> str:
    """The address of a policy of 84 hours."""
    file = tmp_path / "replayfloor.toml"
    file.write_text(POLICY, encoding="utf-8")
    return f"{file}:hooks"


def _document(done: Done) -> dict[str, object]:
    found: dict[str, object] = json.loads(done.text)
    return found


def test_a_healthy_deployment_ends_with_0(patient: Patient, redis_url: str, policy: str) -> None:
    done = run("doctor", "--postgres", patient.url, "--redis", redis_url, "--policy", policy,
               "--workers", "2", "--pool", "5", "--rate", "20")  # fmt: skip

    assert done.code == 0, done.text
    assert "exit status 0" in done.lines[-1]
    assert {line for line in done.lines if line and not line.startswith(" ")} >= {
        f"policy  {policy}"
    }


def test_a_warning_ends_with_1_and_what_is_critical_with_2(patient: Patient) -> None:
    arguments = ("doctor", "--postgres", patient.url)
    assert run(*arguments).code == 0
    patient.run("update replayfloor.maintenance set succeeded_at = now() - interval '26 hours'")
    assert run(*arguments).code == 1
    patient.run("drop index replayfloor.claims_id")

    done = run(*arguments)

    assert done.code == 2
    # The worst comes first, with what to do.
    assert done.lines[1].startswith("  CRITICAL  postgres.claims_index: ")
    assert done.lines[2].startswith("            why: ")
    assert done.lines[3].startswith("            do:  create unique index")


def test_a_lost_redis_ends_with_1_and_a_lost_postgres_with_2() -> None:
    assert run("doctor", "--redis", "redis://:very-secret@127.0.0.1:1/0").code == 1
    assert run("doctor", "--postgres", NOWHERE).code == 2


@pytest.mark.parametrize("as_json", [True, False])
def test_no_password_is_ever_shown(*, as_json: bool) -> None:
    more = ("--json",) if as_json else ()
    done = run("doctor", "--postgres", NOWHERE, "--redis", "redis://u:very-secret@127.0.0.1:1/0",
               *more)  # fmt: skip

    assert "very-secret" not in done.text + done.err
    assert "127.0.0.1" in done.text


def test_a_check_that_is_accepted_does_not_alarm(patient: Patient) -> None:
    patient.run("update replayfloor.maintenance set succeeded_at = now() - interval '26 hours'")

    done = run("doctor", "--postgres", patient.url, "--accept", "postgres.maintenance")

    assert done.code == 0
    (line,) = (each for each in done.lines if "postgres.maintenance" in each)
    assert line.startswith("  note")
    assert line.endswith("(accepted)")


def test_a_check_that_does_not_exist_cannot_be_accepted_in_silence(patient: Patient) -> None:
    done = run("doctor", "--postgres", patient.url, "--accept", "postgres.everything")

    assert "there is no such check" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--policy", "x", "--older-than", "2 fortnights"),
        ("--redis", "redis://h", "--rate", "0"),
        ("--redis", "redis://h", "--workers", "0"),
    ],
)
def test_a_command_that_cannot_be_carried_out_ends_with_2(arguments: tuple[str, ...]) -> None:
    done = run("doctor", *arguments)

    assert done.code == 2
    assert done.err
    assert done.text == ""


def test_the_document_has_the_shape_that_is_documented(
    patient: Patient, own_redis: Redis, policy: str, tmp_path: Path
) -> None:
    missing = str(tmp_path / "nowhere.db")
    done = run("doctor", "--json", "--postgres", patient.url, "--redis", own_redis.url,
               "--policy", policy, "--sqlite", missing)  # fmt: skip
    document = _document(done)

    assert list(document) == [
        "format", "checked_at", "worst", "exit_code", "counts", "targets", "findings",
    ]  # fmt: skip
    assert document["format"] == 1
    assert datetime.fromisoformat(str(document["checked_at"])).tzinfo is not None
    assert (document["worst"], document["exit_code"], done.code) == ("warning", 1, 1)
    targets = cast("dict[str, str]", document["targets"])
    assert list(targets) == ["postgres", "redis", "sqlite", "policy"]
    findings = cast("list[dict[str, object]]", document["findings"])
    counts = cast("dict[str, int]", document["counts"])
    assert list(counts) == ["ok", "note", "warning", "critical"]
    assert sum(counts.values()) == len(findings)
    for each in findings:
        assert list(each) == [
            "check", "level", "where", "seen", "accepted", "found", "why", "do", "data",
        ]  # fmt: skip
        assert re.fullmatch(r"(postgres|redis|sqlite|policy)\.[a-z_]+", str(each["check"]))
        assert each["level"] in counts
        assert isinstance(each["seen"], bool)
        assert isinstance(each["data"], dict)
        assert each["found"]
        if each["level"] in ("warning", "critical"):
            assert each["why"]
            assert each["do"]


def test_every_check_that_the_documentation_names_exists_and_the_other_way_round() -> None:
    root = Path(__file__).parents[3]
    text = (root / "docs/operating.md").read_text(encoding="utf-8")
    section = text.partition("## Is the deployment as it should be?")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`((?:postgres|redis|sqlite|policy)\.[a-z_]+)`", section))
    package = root / "server_mw/replayfloor/server/doctor"
    sources = "".join(file.read_text(encoding="utf-8") for file in package.glob("check_*.py"))
    written = set(re.findall(r'"((?:postgres|redis|sqlite|policy)\.[a-z_]+)"', sources))

    assert documented == written


def test_a_file_is_named_by_its_path_or_by_its_url(tmp_path: Path) -> None:
    file = tmp_path / "receipts.db"
    with opened(f"sqlite:///{file}") as made:
        made.finished()

    for name in (str(file), f"sqlite:///{file}"):
        done = run("doctor", "--sqlite", name, "--json", "--accept", "sqlite.filesystem")
        (found,) = (
            each
            for each in cast("list[dict[str, object]]", _document(done)["findings"])
            if each["check"] == "sqlite.readable"
        )
        assert (found["level"], cast("dict[str, int]", found["data"])["receipts"]) == ("ok", 1)


def test_the_pools_are_as_large_as_those_of_the_store() -> None:
    assert Wanted().pool == POOL_CONNECTIONS == HANDLER_CONNECTIONS


def test_without_the_drivers_a_file_can_be_looked_at_and_the_rest_says_what_lacks() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = sys.modules['redis'] = None\n"
        "from replayfloor.cli import main; main()"
    )

    def ended(*arguments: str) -> tuple[int, str]:
        argv = [sys.executable, "-c", code, "doctor", *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    assert ended("--sqlite", "nowhere.db")[0] == 1
    for arguments in (("--postgres", NOWHERE), ("--redis", "redis://127.0.0.1:1")):
        code_, text = ended(*arguments)
        assert code_ == 2
        assert "replayfloor[server]" in text
        assert "Traceback" not in text


# -- findings -------------------------------------------------------------------------------------


def _finding(level: Level, check: str = "postgres.x") -> Finding:
    return Finding(check, level, "found")


@pytest.mark.parametrize(
    ("levels", "code"),
    [([], 0), ([OK], 0), ([OK, NOTE], 0), ([NOTE, WARNING], 1), ([CRITICAL, WARNING], 2)],
)
def test_the_worst_finding_decides_the_exit_code(levels: list[Level], code: int) -> None:
    assert exit_code([_finding(level) for level in levels]) == code


def test_acceptance_lowers_only_what_is_named() -> None:
    findings = [_finding(CRITICAL, "redis.a"), _finding(CRITICAL, "redis.b"), ok("redis.c", "well")]

    lowered = accept(findings, {"redis.a", "redis.c"})

    assert [(each.level, each.accepted) for each in lowered] == [
        (NOTE, True),
        (CRITICAL, False),
        (OK, False),
    ]


def test_a_server_of_several_is_named_in_both_forms() -> None:
    finding = Finding("redis.memory", WARNING, "full", "why", "do", where="h:1")
    section = Section("redis", "h:1, h:2", (finding,))

    document = report_json([section], datetime.fromisoformat("2026-11-30T00:00:00+00:00"))

    assert cast("list[dict[str, object]]", document["findings"])[0]["where"] == "h:1"
    assert "  WARNING   redis.memory (h:1): full" in list(report_lines([section]))
