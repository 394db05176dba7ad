"""Every example is started as its head says, and charges once however often it is asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from replayfloor.server.stores.migrate import migrate
from support.services.server import free_port
from support.sources import ROOT

START_S = 30.0
STOP_S = 15.0
KEY = '"order-1"'
AT_ONCE = 8


@contextmanager
def serving(command: list[str], environment: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Run a server in a folder of its own until the end of the block; give its address."""
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
        yield url
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


def post(url: str, path: str, body: object, key: str | None = KEY) -> httpx.Response:
    with client() as sender:
        headers = {} if key is None else {"Idempotency-Key": key}
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


def charges(url: str, payment: str) -> int:
    with client() as reader:
        return int(reader.get(f"{url}/payments/{payment}").raise_for_status().json()["charges"])


def check_charges_once(url: str, path: str, body: object, payment: str, asked: str) -> None:
    """Ask with one key, many times, at once and after; the provider's ledger has one row."""
    answers = at_once(lambda: post(url, path, body))
    first = [each for each in answers if each.status_code == 201]
    assert first, [each.text for each in answers]
    assert {each.status_code for each in answers} <= {201, 409}

    repeated = post(url, path, body)
    assert repeated.status_code == 201
    assert repeated.headers["Idempotent-Replayed"] == "true"
    assert repeated.content == first[0].content
    assert charges(asked, payment) == 1
    assert post(url, path, body, key=None).status_code == 400
    assert charges(asked, payment) == 1


PAYMENT = {"id": "p1", "amount_minor": 4200, "currency": "EUR"}


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """RECEIPTS and LOCK of an example."""
    if request.param == "sqlite":
        return {"RECEIPTS": f"sqlite:///{tmp_path}/shop.db", "LOCK": "local"}
    url: str = request.getfixturevalue("postgres_url")
    migrate(url)
    return {"RECEIPTS": url, "LOCK": request.getfixturevalue("redis_url")}


def test_payments_fastapi(stores: dict[str, str], tmp_path: Path) -> None:
    with serving(uvicorn("payments_fastapi"), stores, tmp_path) as url:
        check_charges_once(url, "/payments", PAYMENT, "p1", asked=url)


def test_payments_flask_charges_its_provider_once(stores: dict[str, str], tmp_path: Path) -> None:
    with ExitStack() as stack:
        ledger = {"RECEIPTS": f"sqlite:///{tmp_path}/provider.db"}
        provider = stack.enter_context(serving(uvicorn("payments_fastapi"), ledger, tmp_path))
        environment = {**stores, "PROVIDER": provider}
        shop = stack.enter_context(serving(gunicorn("payments_flask:app"), environment, tmp_path))

        check_charges_once(shop, "/orders", PAYMENT, "p1", asked=provider)


def test_payments_flask_goes_on_after_its_provider_was_away(tmp_path: Path) -> None:
    provider_port = free_port()
    provider = f"http://127.0.0.1:{provider_port}"
    environment = {"PROVIDER": provider, "RECEIPTS": f"sqlite:///{tmp_path}/shop.db"}
    ledger = {"RECEIPTS": f"sqlite:///{tmp_path}/provider.db"}
    command = [part.replace("{port}", str(provider_port)) for part in uvicorn("payments_fastapi")]
    with serving(gunicorn("payments_flask:app"), environment, tmp_path) as shop:
        assert post(shop, "/orders", PAYMENT).status_code == 503

        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=tmp_path, env={**os.environ, **ledger}
        )
        try:
            wait_for(provider, process, tmp_path / "none.log")
            assert post(shop, "/orders", PAYMENT).status_code == 201
            assert charges(provider, "p1") == 1
        finally:
            process.terminate()
            process.wait(STOP_S)


def test_payments_django_on_sqlite(tmp_path: Path) -> None:
    environment = {"DATABASE": str(tmp_path / "payments.db")}
    with serving(gunicorn("payments_django:application"), environment, tmp_path) as url:
        check_charges_once(url, "/payments", PAYMENT, "p1", asked=url)


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
    with serving(gunicorn("payments_django:application"), environment, tmp_path) as url:
        check_charges_once(url, "/payments", PAYMENT, "p1", asked=url)


def test_payments_sqlalchemy(postgres_url: str, redis_url: str, tmp_path: Path) -> None:
    migrate(postgres_url)
    database = postgres_url.replace("postgresql://", "postgresql+psycopg://", 1)
    environment = {"DATABASE": database, "LOCK": redis_url}
    with serving(uvicorn("payments_sqlalchemy"), environment, tmp_path) as url:
        check_charges_once(url, "/payments", PAYMENT, "p1", asked=url)

        batch = [{"id": "b1", "amount_minor": 1}, {"id": "b2", "amount_minor": 2}]
        answers = [post(url, "/batches", batch, key='"batch-1"') for _ in range(2)]
        assert [each.status_code for each in answers] == [201, 201]
        assert answers[1].headers["Idempotent-Replayed"] == "true"
        assert (charges(url, "b1"), charges(url, "b2")) == (1, 1)
        with psycopg.connect(postgres_url) as reader:
            rows = reader.execute("select count(*) from replayfloor.claims").fetchone()
        assert rows == (0,)
