"""What is installed is what is here: the namespace, the wheel, the extras, the public names."""

from __future__ import annotations

import email.parser
import importlib
import importlib.metadata
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.sources import NAMESPACE, ROOT, SOURCE_ROOTS, package_files, packages

SIDES = ("replayfloor.server", "replayfloor.client")
# The public surface of each side, in the order of its `__all__`. A side that exists has to be here:
# a name that is added or taken away is a decision, so it is made in two places.
PUBLIC_NAMES: dict[str, list[str]] = {
    "replayfloor.server": [
        "ActiveClaim",
        "AsyncActiveClaim",
        "AsyncGuard",
        "AsyncLocalLock",
        "AsyncLock",
        "AsyncReceipts",
        "EventKind",
        "Guard",
        "IdempotencyMiddleware",
        "LocalLock",
        "Lock",
        "Receipts",
        "Route",
        "ServerEvent",
        "WSGIIdempotencyMiddleware",
        "idempotent",
    ],
    "replayfloor.client": [
        "AsyncIdempotentTransport",
        "BodyNotReplayable",
        "IdempotentTransport",
        "JournalUnavailable",
        "KeyReuseMismatch",
        "MemoryJournal",
        "OperationClosed",
        "OperationInfo",
        "OutcomePending",
        "OutcomeUndetermined",
        "OutcomeUnknown",
        "PostgresJournal",
        "Profile",
        "RetryPolicy",
        "SQLiteJournal",
        "operation",
        "profile",
        "wrap_client",
    ],
}
PUBLIC_NAMES_MAX = 18
# What else is meant to be imported, from modules of their own.
FURTHER_NAMES: dict[str, list[str]] = {
    "replayfloor.server.once": [
        "AlreadyApplied",
        "AsyncGuard",
        "AsyncMessageClaim",
        "AsyncOnce",
        "Guard",
        "GuardOptions",
        "MessageClaim",
        "MessageOptions",
        "MessageReused",
        "Once",
        "OutcomeNotKnown",
        "PastHorizon",
        "StillInFlight",
    ],
    "replayfloor.server.webhooks": [
        "Delivery",
        "Event",
        "GitHubSignature",
        "HmacSignature",
        "InvalidSignature",
        "NoEventId",
        "PayPalTransmission",
        "PayPalVerification",
        "ShopifySignature",
        "SlackSignature",
        "SourceCounts",
        "StandardWebhooksSignature",
        "StripeSignature",
        "UnidentifiedEvent",
        "Verifier",
        "WebhookKey",
        "WebhookSource",
        "preset",
        "webhook",
    ],
}

# What one side must never install or import for the other's sake.
SERVER_ONLY = ("psycopg", "psycopg_pool", "redis", "starlette")
CLIENT_ONLY = ("httpx", "tenacity")
BUILD_TIMEOUT_S = 120.0
IMPORT_TIMEOUT_S = 60.0


def _python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    # Isolated and from elsewhere: neither the working directory nor PYTHONPATH may help.
    return subprocess.run(
        [sys.executable, "-I", "-c", code, *args],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=IMPORT_TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """The wheel, built with the back end that is installed: no isolation, no network."""
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.Path(path)


def _members(wheel: zipfile.Path) -> set[str]:
    # zipfile.Path adds the folders, which a wheel does not contain.
    return {name for name in wheel.root.namelist() if not name.endswith("/")}


def _requirements(wheel: zipfile.Path) -> list[str]:
    (info,) = (each for each in wheel.iterdir() if each.name.endswith(".dist-info"))
    metadata = email.parser.Parser().parsestr((info / "METADATA").read_text(encoding="utf-8"))
    return metadata.get_all("Requires-Dist") or []


def _closure(requirements: Sequence[str], extras: Iterable[str]) -> set[str]:
    """Return all that pip would install, according to what is installed here."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [(requirements, extra) for extra in ("", *extras)]
    while waiting:
        lines, extra = waiting.pop()
        for need in map(Requirement, lines):
            if need.marker and not need.marker.evaluate({"extra": extra}):
                continue
            name = canonicalize_name(need.name)
            if name == NAMESPACE:
                waiting += [(requirements, each) for each in need.extras]
                continue
            found.add(name)
            for each in {"", *need.extras}:
                if (name, each) not in seen:
                    seen.add((name, each))
                    waiting.append((importlib.metadata.requires(name) or [], each))
    return found


def test_no_source_root_claims_the_namespace() -> None:
    """One `__init__.py` here, and the other two roots can no longer be imported."""
    assert list(ROOT.glob(f"*/{NAMESPACE}/__init__.py")) == []
    assert list(ROOT.glob(f"*/{NAMESPACE}/*.py")) == []


def test_every_package_says_that_it_is_typed() -> None:
    assert [name for name, path in packages().items() if not (path / "py.typed").exists()] == []


def test_the_wheel_contains_the_package_and_nothing_else(wheel: zipfile.Path) -> None:
    """SQL, Lua, data and py.typed too: hatchling takes what is in the folders."""
    expected = {
        path.relative_to(ROOT / root).as_posix()
        for path in package_files()
        for root in SOURCE_ROOTS
        if path.is_relative_to(ROOT / root)
    }
    got = {name for name in _members(wheel) if ".dist-info/" not in name}

    assert got == expected


def test_the_wheel_carries_the_licence_and_the_command(wheel: zipfile.Path) -> None:
    (info,) = (each for each in wheel.iterdir() if each.name.endswith(".dist-info"))
    commands = (info / "entry_points.txt").read_text(encoding="utf-8")

    assert (info / "licenses" / "LICENSE").is_file()
    assert "replayfloor = replayfloor.cli:main" in commands
    assert "server = replayfloor.server.cli:app" in commands
    assert "client = replayfloor.client.cli:app" in commands
    assert "conform = replayfloor.conform.cli:app" in commands
    assert "retention = replayfloor.retention.cli:app" in commands


@pytest.mark.parametrize("name", sorted(packages()))
def test_the_installation_imports_every_root(name: str) -> None:
    """The wrong back end or option imports one of three roots, and says nothing."""
    done = _python(f"import {name}; print({name}.__file__)")

    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent.name == name.rpartition(".")[2]


def test_the_base_installs_one_library(wheel: zipfile.Path) -> None:
    assert _closure(_requirements(wheel), []) <= {"http-sf", "typing-extensions"}


@pytest.mark.parametrize(
    ("extra", "needed", "forbidden"),
    [
        ("client", CLIENT_ONLY, SERVER_ONLY),
        ("httpx2", ("httpx2", "tenacity"), (*SERVER_ONLY, "httpx")),
        ("journal-postgres", ("psycopg", "psycopg_pool"), ("redis", "starlette", *CLIENT_ONLY)),
        ("server", SERVER_ONLY, CLIENT_ONLY),
        ("cli", ("typer", "rich"), SERVER_ONLY + CLIENT_ONLY),
        ("conform", ("typer", "rich", "httpx"), (*SERVER_ONLY, "tenacity")),
        ("otel", ("opentelemetry-api",), SERVER_ONLY + CLIENT_ONLY),
        ("webhooks", ("cryptography", *SERVER_ONLY), CLIENT_ONLY),
    ],
)
def test_an_extra_installs_its_own_and_nothing_of_the_other_side(
    wheel: zipfile.Path, extra: str, needed: Sequence[str], forbidden: Sequence[str]
) -> None:
    found = _closure(_requirements(wheel), [extra])

    assert {canonicalize_name(name) for name in needed} <= found
    assert {canonicalize_name(name) for name in forbidden} & found == set()


def test_all_is_all_of_them(wheel: zipfile.Path) -> None:
    parts = ["server", "sqlalchemy", "django", "client", "httpx2"]
    parts += ["webhooks", "journal-postgres", "sqs", "cli", "otel"]
    each = _closure(_requirements(wheel), parts)

    assert _closure(_requirements(wheel), ["all"]) == each


@pytest.mark.parametrize(("side", "blocked"), [(SIDES[0], CLIENT_ONLY), (SIDES[1], SERVER_ONLY)])
def test_a_side_imports_without_the_libraries_of_the_other(
    side: str, blocked: Sequence[str]
) -> None:
    _skip_unless_there(side)
    code = f"import sys; sys.modules.update(dict.fromkeys(sys.argv[1:])); import {side}"
    done = _python(code, *blocked)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("side", SIDES)
def test_the_public_names_are_these(side: str) -> None:
    _skip_unless_there(side)
    names: list[str] = list(importlib.import_module(side).__all__)

    assert names == PUBLIC_NAMES.get(side), "write the names into PUBLIC_NAMES"
    assert len(names) <= PUBLIC_NAMES_MAX
    assert all(hasattr(importlib.import_module(side), name) for name in names)


@pytest.mark.parametrize("module", FURTHER_NAMES)
def test_the_further_names_are_these(module: str) -> None:
    found = importlib.import_module(module)

    assert list(found.__all__) == FURTHER_NAMES[module]
    assert all(hasattr(found, name) for name in found.__all__)


def _skip_unless_there(package: str) -> None:
    if package not in packages():
        pytest.skip(f"{package} does not exist yet")
