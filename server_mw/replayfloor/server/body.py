"""A request's body: received once, kept for the application, and known by its fingerprint.

A small body stays in memory, a larger one goes into a file of its own; the fingerprint is the same
either way. Both shells feed what they receive: nothing here waits for a client.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from typing import IO, Final, cast

from replayfloor.core.fingerprint import Fingerprint, fingerprint
from replayfloor.server.body_digest import (
    CHUNK_BYTES,
    ArrivingBody,
    body_digest,
    file_chunks,
)
from replayfloor.server.body_rules import DEFAULT_BODY_RULE, BodyRule
from replayfloor.server.body_target import RequestHead

SPOOL_BYTES: Final = 1024 * 1024
"""Bytes of one body that are held in memory: Starlette's own limit for an uploaded file."""


NO_FINGERPRINT: Final = Fingerprint(b"")
"""Of a body that says nothing of the key."""


class ReadBody:
    """A complete body and the fingerprint of its request; whoever has it closes it.

    Attributes:
        fingerprint: of the whole request.
        size: in bytes.
        data: the body, if it is in memory; None if it is in a file.
    """

    __slots__ = ("_file", "data", "fingerprint", "size")

    def __init__(
        self, fingerprint: Fingerprint, size: int, data: bytes | None, file: IO[bytes] | None
    ) -> None:
        """Take the body over, in one of its two forms."""
        self.fingerprint, self.size, self.data, self._file = fingerprint, size, data, file

    def chunks(self) -> Iterator[bytes]:
        """Return the body from its beginning, in pieces of at most CHUNK_BYTES."""
        return file_chunks(self.as_file()) if self.data is None else _slices(self.data)

    def as_file(self) -> IO[bytes]:
        """Return the body as a seekable file at its beginning; `close` closes it."""
        if self._file is None:
            return io.BytesIO(self.data or b"")
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Give the file back, if there is one. Repeating it does no harm."""
        if self._file is not None:
            self._file.close()


class BodyReader:
    """Takes a body as it arrives; one that is given up before `finish` must be closed.

    A shell that does not block may leave `feed` and `finish` to a thread once `on_disk` is True.
    """

    __slots__ = ("_arriving", "_data", "_file", "_head", "_rule", "_spool_bytes", "size")

    def __init__(
        self,
        head: RequestHead,
        rule: BodyRule = DEFAULT_BODY_RULE,
        *,
        spool_bytes: int = SPOOL_BYTES,
    ) -> None:
        """Belong to one request. `spool_bytes` decides over memory and nothing else."""
        self._head, self._rule, self._spool_bytes = head, rule, spool_bytes
        self._data: bytes | bytearray = b""
        self._file: IO[bytes] | None = None
        self._arriving: ArrivingBody | None = None
        self.size = 0

    @property
    def on_disk(self) -> bool:
        """Whether the body has outgrown the memory."""
        return self._file is not None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes. Raises OSError if they cannot be written; the reader is closed."""
        self.size += len(chunk)
        if self.size > self._spool_bytes:
            self._spool(chunk)
        elif not self._data:
            self._data = chunk
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            self._data += chunk

    def finish(self) -> ReadBody:
        """Return the body as complete; the reader is closed then, also if this raises.

        Raises what the rule's `fingerprint=` function raises, and UsageError if it returns no
        bytes; OSError if the file cannot be read back.
        """
        try:
            data = bytes(self._data) if self._file is None else None
            read = ReadBody(self._fingerprint(data), self.size, data, self._file)
            self._file = None
            return read
        finally:
            self.close()

    def close(self) -> None:
        """Drop the body. Repeating it does no harm; feeding more to a file then fails."""
        if self._file is not None:
            self._file.close()

    def _spool(self, chunk: bytes) -> None:
        try:
            if self._file is None or self._arriving is None:
                file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` is its end
                self._file = cast("IO[bytes]", file)
                self._arriving = ArrivingBody(self._head, self._rule)
                before, self._data = bytes(self._data), b""
                self._file.write(before)
                self._arriving.update(before)
            self._file.write(chunk)
            self._arriving.update(chunk)
        except BaseException:
            self.close()
            raise

    def _fingerprint(self, data: bytes | None) -> Fingerprint:
        if self._file is not None and self._arriving is not None:
            digest = self._arriving.digest(self._file, self.size)
        else:
            digest = body_digest(self._head, self._rule, data or b"")
        return _of_request(self._head, digest)


def whole_body(head: RequestHead, rule: BodyRule, data: bytes) -> ReadBody:
    """Return the body of a request that has come in one piece; raises what `finish` raises.

    What a BodyReader returns of it, without what a reader needs for more pieces.
    """
    return ReadBody(_of_request(head, body_digest(head, rule, data)), len(data), data, None)


def read_before(data: bytes) -> ReadBody:
    """Return a body that is handed on, and was not what the key was made of."""
    return ReadBody(NO_FINGERPRINT, len(data), data, None)


def _of_request(head: RequestHead, digest: bytes) -> Fingerprint:
    return fingerprint(
        method=head.method,
        path=head.path,
        query=head.query,
        content_type=head.content_type,
        body=digest,
    )


def _slices(data: bytes) -> Iterator[bytes]:
    return (data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES))
