"""The steps of a request over WSGI; see `failpoints`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, cast

from support.failpoints import COUNTED, Stepped, Steps

Environ: TypeAlias = dict[str, object]
StartResponse: TypeAlias = Callable[..., Callable[[bytes], object]]
WSGIApp: TypeAlias = Callable[[Environ, StartResponse], Iterable[bytes]]

COUNTED_VARIABLE = "HTTP_" + COUNTED.decode().upper().replace("-", "_")


class SteppedWSGI:
    """A WSGI application; what it reads and what it answers are steps."""

    def __init__(self, app: WSGIApp, steps: Steps, label: str) -> None:
        """Stand in front of `app`; `label` begins the names of its steps."""
        self._app, self._steps, self._label = app, steps, label

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request; only those that ask for it are counted."""
        if COUNTED_VARIABLE not in environ:
            return self._app(environ, start_response)
        self._steps.begin()
        environ["wsgi.input"] = Stepped(environ["wsgi.input"], self._steps, f"{self._label}.input")

        def counted_start(*arguments: object) -> Callable[[bytes], object]:
            self._steps.reach(f"{self._label}.start_response asked")
            write = start_response(*arguments)
            self._steps.reach(f"{self._label}.start_response answered")
            return write

        return SteppedBody(self._app(environ, counted_start), self._steps, self._label)


class SteppedBody:
    """The body of an answer: each chunk is a step when it is handed over, and so are both ends."""

    def __init__(self, body: Iterable[bytes], steps: Steps, label: str) -> None:
        """Stand in front of `body`."""
        self._body, self._steps, self._label = body, steps, label

    def __iter__(self) -> Iterator[bytes]:
        """Hand the chunks over; what follows one is done after the server has sent it."""
        for chunk in self._body:
            self._steps.reach(f"{self._label}.chunk handed over")
            yield chunk
        self._steps.reach(f"{self._label}.body at its end")

    def close(self) -> None:
        """Close the body."""
        self._steps.reach(f"{self._label}.close asked")
        close = cast("Callable[[], object] | None", getattr(self._body, "close", None))
        if close is not None:
            close()
        self._steps.reach(f"{self._label}.close answered")
