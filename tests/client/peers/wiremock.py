"""WireMock as a peer: a server of other people's, with faults and with a journal of its own.

It comes from npm as one jar, into a folder of the run's own. The journal is the witness: what it
says it received was received, whatever the client believes.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import httpx
import pytest

from client.clients import NO_TLS

PACKAGE: Final = "wiremock@3.13.2"
INSTALL_S: Final = 240.0
START_S: Final = 90.0
STOP_S: Final = 10.0
ADMIN_S: Final = 30.0
TICK_S: Final = 0.1

MISSING: Final = "WireMock is fetched by npm and runs on java: {} is not on the PATH"

Stub = Mapping[str, object]
"""A part of a stub mapping, as WireMock's own JSON has it."""


@dataclass(frozen=True, slots=True)
class Witnessed:
    """One request as WireMock's journal tells it."""

    key: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class WireMock:
    """A running server."""

    base_url: str
    admin: httpx.Client

    def url(self, path: str = "/charges") -> str:
        """Return the address of a path."""
        return self.base_url + path

    def reset(self) -> None:
        """Forget stubs, scenarios and requests."""
        self._admin("POST", "/reset", None)

    def script(self, *responses: Stub, path: str = "/charges") -> None:
        """Answer the requests for a path with these, in order; the last one repeats."""
        for number, response in enumerate(responses):
            last = number == len(responses) - 1
            state = "Started" if number == 0 else str(number)
            mapping = {
                "scenarioName": path,
                "requiredScenarioState": state,
                "newScenarioState": state if last else str(number + 1),
                "request": {"method": "POST", "urlPath": path},
                "response": response,
            }
            self._admin("POST", "/mappings", mapping)

    def witnessed(self) -> list[Witnessed]:
        """Return the requests that it received, in order."""
        told = self._admin("GET", "/requests", None)
        events = cast("Sequence[Mapping[str, Mapping[str, object]]]", told["requests"])
        requests = [event["request"] for event in events]
        return [_witnessed(each) for each in sorted(requests, key=_logged_at)]

    def _admin(self, method: str, path: str, content: Stub | None) -> Mapping[str, object]:
        response = self.admin.request(method, f"{self.base_url}/__admin{path}", json=content)
        response.raise_for_status()
        return cast("Mapping[str, object]", response.json() if response.content else {})


def _logged_at(request: Mapping[str, object]) -> int:
    return cast("int", request["loggedDate"])


def _witnessed(request: Mapping[str, object]) -> Witnessed:
    headers = cast("Mapping[str, str]", request["headers"])
    keys = [value for name, value in headers.items() if name.lower() == "idempotency-key"]
    encoded = cast("str", request.get("bodyAsBase64") or "")
    return Witnessed(keys[0] if keys else None, base64.b64decode(encoded))


def lacking() -> str | None:
    """Return why WireMock cannot run here; None if it can."""
    missing = [name for name in ("java", "npm") if shutil.which(name) is None]
    return MISSING.format(" and ".join(missing)) if missing else None


def install(folder: Path) -> Path:
    """Fetch WireMock into a folder; return its jar. Skips the test where npm has no registry."""
    environment = os.environ | {"HOME": str(folder)}
    fetched = subprocess.run(
        [
            "npm", "install", "--prefix", str(folder), "--cache", str(folder / "cache"),
            "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier",
            "--fetch-retries=1", "--fetch-timeout=30000", PACKAGE,
        ],
        cwd=folder,
        env=environment,
        check=False,
        timeout=INSTALL_S,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )  # fmt: skip
    if fetched.returncode:
        pytest.skip(f"npm could not fetch {PACKAGE}: {fetched.stderr.strip()[:200]}")
    (jar,) = folder.glob("node_modules/wiremock/build/*.jar")
    return jar


@contextmanager
def running(folder: Path) -> Iterator[WireMock]:
    """Install WireMock into a folder and run it on the loopback."""
    jar = install(folder)
    port = _free_port()
    output = folder / "wiremock.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [
                "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m",
                f"-Djava.io.tmpdir={folder}", f"-Duser.home={folder}",
                "-jar", str(jar), "--bind-address", "127.0.0.1", "--port", str(port),
                "--root-dir", str(folder), "--disable-banner",
            ],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        with httpx.Client(verify=NO_TLS, timeout=ADMIN_S, trust_env=False) as admin:
            yield _when_ready(WireMock(f"http://127.0.0.1:{port}", admin), process, output)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)


def _when_ready(wiremock: WireMock, process: subprocess.Popen[bytes], output: Path) -> WireMock:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            wiremock.reset()
        except (httpx.HTTPError, json.JSONDecodeError):
            time.sleep(TICK_S)
        else:
            return wiremock
    said = re.sub(r"\s+", " ", output.read_text(errors="replace"))[-1000:]
    raise RuntimeError(f"WireMock did not start: {said}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
