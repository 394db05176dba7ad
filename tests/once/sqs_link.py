"""An HTTP server between a consumer and moto's SQS: counts what the consumer asks for, and tells
before a request goes on, so that a test can end the consumer there."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

SKIPPED = {"transfer-encoding", "connection", "content-length", "server", "date"}


class SqsLink(ThreadingHTTPServer):
    """Passes requests on. `before` has what is called ahead of an operation, by its name; the
    request is dropped if that returns False."""

    daemon_threads = True

    def __init__(self, upstream: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.upstream = upstream
        self.before: dict[str, Callable[[], bool]] = {}
        self.asked: Counter[str] = Counter()
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        """Where the consumer finds it."""
        return f"http://127.0.0.1:{self.server_port}"

    def note(self, operation: str) -> bool:
        """Count an operation; say whether it goes on."""
        with self._changed:
            self.asked[operation] += 1
            self._changed.notify_all()
        return self.before.get(operation, lambda: True)()

    def wait_for(self, operation: str, times: int, timeout_s: float = 30.0) -> None:
        """Wait until an operation was asked for so often."""
        with self._changed:
            came = self._changed.wait_for(lambda: self.asked[operation] >= times, timeout_s)
        assert came, f"{operation} was asked for {self.asked[operation]} times"

    @contextmanager
    def serving(self) -> Iterator[SqsLink]:
        """Serve in threads until the end of the block."""
        thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Pass one operation on."""
        link = cast("SqsLink", self.server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        if not link.note(operation):
            self.close_connection = True
            return
        connection = HTTPConnection(*link.upstream)
        try:
            connection.request("POST", self.path, body, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        try:
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in SKIPPED:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # the consumer was killed meanwhile

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
