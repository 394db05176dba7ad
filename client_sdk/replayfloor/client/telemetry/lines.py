"""The sink that appends each event to a file, as a line of JSON. How it is read is not here."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from replayfloor.client.events import Event
from replayfloor.client.telemetry.calls import Calls
from replayfloor.client.telemetry.fields import plain_fields
from replayfloor.core.errors import ConfigurationError

VERSION: Final = 1
"""Of the format. It grows when a field changes its meaning or goes, not when one is added."""

CALL_ID_BYTES: Final = 8
"""Random; of ten million calls in one file, two have the same id with a probability of 3e-6."""

_MODE: Final = 0o666
"""Reduced by the umask: it holds no secret, and whoever collects it is often another user."""


class JSONLines:
    """Appends one JSON object per event to a file, which several processes may share.

    A line is ASCII, ends with a newline, and is appended by one write on O_APPEND: on a local file
    system lines never mix. The file is opened for each line, so that it may be renamed or removed
    at any time, and a fork needs no care. A line survives the death of the process, and not that
    of the machine.

    Format, version 1. Every line has:

    - `v`: 1.
    - `event`: the name of the event's class (`replayfloor.client.events`).
    - `call`: 16 random hex digits, the same for every event of one call of a transport; null if
      the sink was not entered around the call.
    - `at_ns`: wall clock, ns since 1970 (UTC).
    - `provider`, `namespace`, `operation_id`, `method`, `origin`: text, as in the journal.
    - `attempt`: counts from 1; `elapsed_s`: seconds since the first attempt; over all restarts.
    - `retention_s`: the provider's, in seconds; null if it is not known.
    - `outcome`: what is known so far: NOT_SENT, REJECTED, IN_FLIGHT, UNKNOWN or DEFINITIVE.
    - `resumed`: whether an earlier call began the operation.
    - `status`: of the answer at hand, or null.

    And besides, by event:

    - AttemptEnded: `evidence` (text), `took_s` (seconds), `maybe_sent`, `in_flight`, `replayed`.
    - WaitStarted: `wait_s` (seconds), `reason` (a value of WaitReason).
    - DeadlineFence: `begun`. ClockWentBack: `behind_s` (seconds). JournalFailed: `evidence`.
    - OperationEnded: `ending` (a value of Ending).

    A reader ignores events and fields that it does not know, and counts lines that are not JSON: a
    full disk may cut a line off, and the next one that this process writes begins a new line.

    Args:
        path: of the file, which is made if it is not there; its folder is not. Raises
            ConfigurationError if it cannot be opened.

    Raises OSError if a line could not be written whole; the transport logs it and goes on.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._calls = Calls[str]()
        self._torn = False
        try:
            os.close(self._open())
        except OSError as error:
            raise ConfigurationError(f"{self._path!r} cannot be appended to: {error}") from error

    def __call__(self, event: Event) -> None:
        """Append a line."""
        entry = {"v": VERSION, "event": type(event).__name__, "call": self._calls.current()}
        line = json.dumps(entry | plain_fields(event), separators=(",", ":"), allow_nan=False)
        self._append(f"{line}\n".encode("ascii"))

    def scope(self, provider: str, method: str) -> AbstractContextManager[None]:
        """Give the events of one call their common `call`."""
        return self._scope()

    @contextmanager
    def _scope(self) -> Generator[None]:
        with self._calls.entered(secrets.token_hex(CALL_ID_BYTES)):
            yield

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        return os.open(self._path, flags, _MODE)

    def _append(self, line: bytes) -> None:
        # Opened each time, a file that was renamed is never written to again, and there is no
        # descriptor that a fork or another thread could share.
        descriptor = self._open()
        try:
            whole = b"\n" + line if self._torn else line
            written = os.write(descriptor, whole)
        finally:
            os.close(descriptor)
        self._torn = written < len(whole)
        if self._torn:
            raise OSError(f"only {written} of {len(whole)} bytes were written to {self._path!r}")
