"""Running the commands, and journals with what a crash left: real processes, killed in mid-send."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from client.clients import NO_TLS, named
from client.loopback import DROP, OK, Loopback, Reply
from replayfloor.client import IdempotentTransport, OutcomePending, Profile, RetryPolicy
from replayfloor.client.cli import app
from replayfloor.client.clock import system_clock
from replayfloor.client.journal import Journal, open_journal
from replayfloor.core.journal import JournalEntry, OperationState, ReadOperation

PATIENCE_S = 30.0
LEASE_S = 0.3
"""Of the processes that are killed: the next attempt has to wait for it."""

DAY_S = 86_400.0
SHOP = Profile(name="shop", retention_s=DAY_S)
BODY = b'{"amount": 4200}'
TYPE = "application/json"
PATH = "/charges"
SLOW = Reply(delay_s=PATIENCE_S)

_names = iter(range(1000))

PAY = """
import json, sys, time
import httpx
from replayfloor.client import IdempotentTransport, Profile, RetryPolicy
given = json.loads(sys.argv[1])
transport = IdempotentTransport(
    profile=Profile(name="shop", retention_s=86_400.0),
    journal=given["journal"],
    retry=RetryPolicy(lease_s=given["lease_s"]),
    clock=lambda: time.time_ns() - int(given["age_s"] * 1e9),
)
with httpx.Client(transport=transport, timeout=60) as client:
    client.post(
        given["url"],
        content=given["body"].encode(),
        headers={"Content-Type": given["type"]},
        extensions={"idempotency": {"operation_id": given["id"]}},
    )
"""


@dataclass(frozen=True)
class Done:
    """What a command did: its exit code, and its whole output."""

    code: int
    text: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines on stdout."""
        return self.text.splitlines()

    @property
    def objects(self) -> list[dict[str, object]]:
        """The objects of JSON on stdout, one a line."""
        return [json.loads(line) for line in self.lines]

    @property
    def object(self) -> dict[str, object]:
        """The one object of JSON on stdout."""
        (found,) = self.objects
        return found


def run(*arguments: str, stdin: str | bytes | None = None) -> Done:
    """Run a command of the group in this process; what it raises by mistake is raised here."""
    done = CliRunner().invoke(app, ["client", *arguments], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


@dataclass
class Place:
    """A journal, by its URL: no process holds it open."""

    url: str

    @contextmanager
    def opened(self) -> Iterator[Journal]:
        """Open it for as long as the block lasts."""
        journal = open_journal(self.url)
        try:
            yield journal
        finally:
            journal.close()

    def entry(self, operation_id: str, namespace: str = "shop") -> JournalEntry:
        """Return an entry that is there."""
        with self.opened() as journal:
            found = journal.read(ReadOperation(namespace, operation_id))
        assert found is not None
        return found

    def state(self, operation_id: str, namespace: str = "shop") -> OperationState:
        """Return the state of an operation."""
        return self.entry(operation_id, namespace).state

    @contextmanager
    def client(
        self,
        profile: Profile | None = SHOP,
        *,
        age_s: float = 0.0,
        attempts: int = 1,
        lease_s: float = LEASE_S,
    ) -> Iterator[httpx.Client]:
        """A client over the transport, in this process, whose clock is `age_s` behind."""
        transport = IdempotentTransport(
            httpx.HTTPTransport(verify=NO_TLS),
            profile=profile,
            journal=self.url,
            retry=RetryPolicy(attempts_max=attempts, lease_s=lease_s),
            clock=lambda: system_clock().wall_ns - int(age_s * 1e9),
            sleep=lambda _: None,
        )
        with httpx.Client(transport=transport, timeout=PATIENCE_S) as client:
            yield client


def pay(client: httpx.Client, url: str, operation_id: str, body: bytes = BODY) -> httpx.Response:
    """Make the request of these tests."""
    return client.post(
        url, content=body, headers={"Content-Type": TYPE}, extensions=named(operation_id)
    )


def lose_answer(
    place: Place,
    loopback: Loopback,
    operation_id: str,
    *,
    profile: Profile | None = SHOP,
    age_s: float = 0.0,
    body: bytes = BODY,
) -> None:
    """Leave an open operation whose only attempt was received, and not answered."""
    loopback.script(DROP)
    with place.client(profile, age_s=age_s) as client, pytest.raises(OutcomePending):
        pay(client, loopback.url(), operation_id, body)
    loopback.received.clear()
    loopback.counts.clear()
    loopback.script(OK)


def finish(place: Place, loopback: Loopback, operation_id: str, *, age_s: float = 0.0) -> None:
    """Leave an operation that was answered."""
    with place.client(age_s=age_s) as client:
        assert pay(client, loopback.url(), operation_id).status_code == 201
    loopback.received.clear()


def start_and_kill(
    place: Place,
    loopback: Loopback,
    operation_id: str,
    *,
    age_s: float = 0.0,
    lease_s: float = LEASE_S,
) -> str:
    """Kill a process in the middle of its send; return the key that had arrived by then."""
    loopback.script(SLOW)
    given = {
        "journal": place.url,
        "url": loopback.url(),
        "id": operation_id,
        "body": BODY.decode(),
        "type": TYPE,
        "age_s": age_s,
        "lease_s": lease_s,
    }
    process = subprocess.Popen([sys.executable, "-c", PAY, json.dumps(given)])
    try:
        give_up_at = time.monotonic() + PATIENCE_S
        while not loopback.received:
            assert process.poll() is None, "it ended before it sent anything"
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
    finally:
        process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    (key,) = loopback.keys()
    loopback.received.clear()
    loopback.counts.clear()
    loopback.script(OK)
    return key


def body_file(folder: Path, body: bytes = BODY) -> str:
    """Return the path of a file with a body."""
    path = folder / "body.json"
    path.write_bytes(body)
    return str(path)


def shop_options(folder: Path, body: bytes = BODY) -> tuple[str, ...]:
    """Return the options that make the request of these tests again."""
    return ("--body", body_file(folder, body), "--content-type", TYPE, "--quoted")


def write_module(folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: str) -> str:
    """Write a module with a profile `SHOP` into the current folder; return its name."""
    name = f"shops_{next(_names)}"
    text = f"from replayfloor.client import Profile\nSHOP = Profile({arguments})\n"
    (folder / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def resume(place: Place, *options: str, stdin: bytes | None = None) -> Done:
    """Resume the operation of these tests."""
    return run("resume", place.url, "invoice-1", *options, stdin=stdin)
