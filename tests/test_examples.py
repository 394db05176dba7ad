"""Every example is started as its head says, and charges once however often it is asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from replayfloor.server.stores.migrate import migrate
from server.wsgi_server import Environ, StartResponse
from support.services.server import free_port
from support.sources import ROOT
from support.tcp_proxy import tcp_proxy

START_S = 30.0
STOP_S = 15.0
AT_ONCE = 8
LEASE_S = 1.0


@dataclass(frozen=True)
class Server:
    """An example that is served."""

    url: str
    process: subprocess.Popen[bytes]

    def workers(self) -> list[int]:
        """Return the processes that it has started."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in children.split()]


@contextmanager
def serving(command: list[str], environment: Mapping[str, str], folder: Path) -> Iterator[Server]:
    """Run a server in a folder of its own until the end of the block."""
    port = free_port()
    log = folder / f"server-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *[part.format(port=port) for part in command]],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url, process, log)
        yield Server(url, process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers anything."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with client() as reader:
                reader.get(f"{url}/payments/none")
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"the example did not start:\n{log.read_text(errors='replace')}")


def client() -> httpx.Client:
    return httpx.Client(trust_env=False, verify=False, timeout=20.0)


def uvicorn(module: str) -> list[str]:
    app_dir = str(ROOT / "examples")
    return ["uvicorn", "--app-dir", app_dir, "--port", "{port}", f"{module}:app"]


def gunicorn(target: str) -> list[str]:
    options = ["--threads", "8", "--no-control-socket", "--bind", "127.0.0.1:{port}"]
    return ["gunicorn", *options, "--pythonpath", str(ROOT / "examples"), target]


def payment(name: str) -> dict[str, object]:
    return {"id": name, "amount_minor": 4200, "currency": "EUR"}


def post(url: str, path: str, body: object, key: str | None) -> httpx.Response:
    with client() as sender:
        headers = {} if key is None else {"Idempotency-Key": f'"{key}"'}
        return sender.post(f"{url}{path}", json=body, headers=headers)


def at_once(send: Callable[[], httpx.Response]) -> list[httpx.Response]:
    """Send the same request from several threads."""
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: answers.append(send())) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def charges(url: str, name: str) -> int:
    with client() as reader:
        return int(reader.get(f"{url}/payments/{name}").raise_for_status().json()["charges"])


def check_charges_once(url: str, path: str, name: str, asked: str) -> None:
    """Ask with one key, many times, at once and after; the provider's ledger has one row."""
    answers = at_once(lambda: post(url, path, payment(name), name))
    first = [each for each in answers if each.status_code == 201]
    assert first, [each.text for each in answers]
    assert {each.status_code for each in answers} <= {201, 409}

    repeated = post(url, path, payment(name), name)
    assert repeated.status_code == 201
    assert repeated.headers["Idempotent-Replayed"] == "true"
    assert repeated.content == first[0].content
    assert charges(asked, name) == 1
    assert post(url, path, payment(name), None).status_code == 400
    assert charges(asked, name) == 1


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the provider of the shops: the API on FastAPI, with SQLite."""
    folder = tmp_path_factory.mktemp("provider")
    ledger = {"RECEIPTS": f"sqlite:///{folder}/provider.db"}
    with serving(uvicorn("payments_fastapi"), ledger, folder) as server:
        yield server.url


@contextmanager
def shop(provider: str, folder: Path, stores: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Serve the Flask shop that charges at a provider."""
    environment = stores or {"RECEIPTS": f"sqlite:///{folder}/shop.db"}
    more = {"PROVIDER": provider, "LEASE_S": str(LEASE_S), "RETRY_BUDGET_S": "1"}
    with serving(gunicorn("payments_flask:app"), {**environment, **more}, folder) as server:
        yield server


def postgres_stores(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return RECEIPTS and LOCK of an example on Postgres and Redis."""
    url: str = request.getfixturevalue("postgres_url")
    migrate(url)
    return {"RECEIPTS": url, "LOCK": request.getfixturevalue("redis_url")}


def test_payments_fastapi_on_sqlite(provider: str) -> None:
    check_charges_once(provider, "/payments", "f1", asked=provider)


def test_payments_fastapi_on_postgres(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    stores = postgres_stores(request)
    with serving(uvicorn("payments_fastapi"), stores, tmp_path) as server:
        check_charges_once(server.url, "/payments", "f1", asked=server.url)


def test_payments_flask_charges_its_provider_once(
    request: pytest.FixtureRequest, provider: str, tmp_path: Path
) -> None:
    with shop(provider, tmp_path, postgres_stores(request)) as server:
        check_charges_once(server.url, "/orders", "p1", asked=provider)


def test_payments_flask_goes_on_after_its_provider_was_away(provider: str, tmp_path: Path) -> None:
    host, _, port = provider.rpartition(":")
    with tcp_proxy(int(port)) as link, shop(f"{host}:{link.port}", tmp_path) as server:
        check_charges_once(server.url, "/orders", "p2", asked=provider)
        link.cut()
        down = post(server.url, "/orders", payment("p3"), "p3")
        link.heal()

        assert (down.status_code, down.headers["Retry-After"]) == (503, "5")
        assert charges(provider, "p3") == 0
        assert post(server.url, "/orders", payment("p3"), "p3").status_code == 201
        assert charges(provider, "p3") == 1


@dataclass
class Relay:
    """Stands before a provider, and calls `last_moment` when a charge is made and not yet told."""

    provider: str
    last_moment: Callable[[], None]
    keys: list[str] = field(default_factory=list)

    def __call__(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        """Pass a charge on."""
        key, size = str(environ["HTTP_IDEMPOTENCY_KEY"]), int(str(environ["CONTENT_LENGTH"]))
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        body = cast("IO[bytes]", environ["wsgi.input"]).read(size)
        with client() as sender:
            url = f"{self.provider}{environ['PATH_INFO']}"
            charged = sender.post(url, content=body, headers=headers)
        self.keys.append(key)
        if len(self.keys) == 1:
            self.last_moment()
        start_response(f"{charged.status_code} Passed On", [("Content-Type", "application/json")])
        return [charged.content]

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve in a thread, and give the address."""
        with make_server("127.0.0.1", 0, self, handler_class=Quiet) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


class Quiet(WSGIRequestHandler):
    """A request that is not logged."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_payments_flask_charges_once_if_it_is_killed_before_it_knows(
    provider: str, tmp_path: Path
) -> None:
    """The retry runs the handler again, and the provider recognises the derived key."""
    shops: list[Server] = []

    def kill_the_workers() -> None:
        for worker in shops[0].workers():
            os.kill(worker, signal.SIGKILL)

    relay = Relay(provider, kill_the_workers)
    with relay.serving() as address, shop(address, tmp_path) as server:
        shops.append(server)
        with pytest.raises(httpx.TransportError):
            post(server.url, "/orders", payment("p4"), "p4")
        assert charges(provider, "p4") == 1

        answer = until_settled(server.url, payment("p4"), "p4")

    assert answer.status_code == 201
    assert "Idempotent-Replayed" not in answer.headers
    assert len(relay.keys) == 2
    assert len(set(relay.keys)) == 1
    assert charges(provider, "p4") == 1


def until_settled(url: str, body: object, key: str) -> httpx.Response:
    """Ask again as a sender does: until the leases of the dead worker have run out, for the order
    and for the charge, and another worker is there."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            answer = post(url, "/orders", body, key)
        except httpx.TransportError:
            pass
        else:
            if answer.status_code not in (409, 503):
                return answer
        time.sleep(0.1)
    raise AssertionError("not settled")


def test_payments_django_on_sqlite(tmp_path: Path) -> None:
    environment = {"DATABASE": str(tmp_path / "payments.db")}
    with serving(gunicorn("payments_django:application"), environment, tmp_path) as server:
        check_charges_once(server.url, "/payments", "d1", asked=server.url)


def test_payments_django_on_postgres(postgres_url: str, redis_url: str, tmp_path: Path) -> None:
    migrate(postgres_url)
    parts = conninfo_to_dict(postgres_url)
    environment = {
        "DATABASE": str(parts["dbname"]),
        "PGHOST": str(parts["host"]),
        "PGPORT": str(parts.get("port", "")),
        "PGUSER": str(parts.get("user", "")),
        "PGPASSWORD": str(parts.get("password", "")),
        "LOCK": redis_url,
    }
    with serving(gunicorn("payments_django:application"), environment, tmp_path) as server:
        check_charges_once(server.url, "/payments", "d1", asked=server.url)


def test_payments_sqlalchemy(postgres_url: str, redis_url: str, tmp_path: Path) -> None:
    migrate(postgres_url)
    database = postgres_url.replace("postgresql://", "postgresql+psycopg://", 1)
    environment = {"DATABASE": database, "LOCK": redis_url}
    with serving(uvicorn("payments_sqlalchemy"), environment, tmp_path) as server:
        check_charges_once(server.url, "/payments", "s1", asked=server.url)

        batch = [{"id": "b1", "amount_minor": 1}, {"id": "b2", "amount_minor": 2}]
        answers = at_once(lambda: post(server.url, "/batches", batch, "batch-1"))
        answers.append(post(server.url, "/batches", batch, "batch-1"))
        assert {each.status_code for each in answers} <= {201, 409}
        assert answers[-1].headers["Idempotent-Replayed"] == "true"
        assert (charges(server.url, "b1"), charges(server.url, "b2")) == (1, 1)
        with psycopg.connect(postgres_url) as reader:
            rows = reader.execute("select count(*) from replayfloor.claims").fetchone()
        assert rows == (0,)
