"""The steps of one request, counted, and a signal that the process sends itself at one of them.

A step is a place where a process can die so that it makes a difference: before an operation is
asked for, after its answer came and before anybody has seen it, and every suspension in between,
when the operation is under way. The wrappers here are put around the stores, the lock, the ASGI or
WSGI application inside and outside of the middleware, and are called by the handlers themselves.
Nothing of the package knows of them.
"""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from typing import cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

COUNTED = b"x-count-steps"
"""The header of the request whose steps are counted: others may come before, to warm the pools."""

AT_STEP = "signal at step "
"""Begins the line of the log that says where."""

BESIDE = frozenset({"receipts.renew", "lock.extend"})
"""What is done in a task or thread of its own while the handler runs."""

SOON_S = 0.0005
"""About half of what an operation of a database takes."""

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Steps:
    """Counts the steps of one request, and ends (or stops) the process at one of them.

    A step is written as "3 receipts.claim asked": its number and its name. The suspensions after it
    are "3.1 receipts.claim asked", "3.2 …": how many there are depends on the moment, so that they
    do not move the numbers of the steps behind them.

    Args:
        environment: `LEDGER_STEP` is a number ("3", "3.1") or a name (the first such step counts);
            `LEDGER_STEP_SIGNAL` is "kill" or "stop".
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Count nothing yet."""
        self.reached: list[str] = []
        self._at = environment.get("LEDGER_STEP", "")
        self._signal = SIGNALS[environment.get("LEDGER_STEP_SIGNAL", "kill")]
        self._counting = False
        self._number, self._name, self._suspensions = 0, "", 0
        # A blocking server has several threads, and a renewal may run beside the handler.
        self._one_at_a_time = threading.Lock()

    def begin(self) -> None:
        """Count from now on."""
        self._counting = True

    def reach(self, name: str) -> None:
        """Be at a step; perhaps never return."""
        if self._counting:
            with self._one_at_a_time:
                self._number, self._name, self._suspensions = self._number + 1, name, 0
                here = self._note(str(self._number), name)
            self._signal_myself(here)

    def pass_by(self, name: str) -> None:
        """Be at a step of a renewal, beside the handler: has a name, and no number.

        Whether there is one depends on how long the handler takes.
        """
        if self._counting and self._at == name:
            with self._one_at_a_time:
                here = self._note("0", name)
            self._signal_myself(here)

    def suspend(self) -> None:
        """Be about to wait, after a step: the question is out and the answer has not been read."""
        if self._counting:
            with self._one_at_a_time:
                self._suspensions += 1
                here = self._note(f"{self._number}.{self._suspensions}", self._name)
            self._signal_myself(here)

    def ask(self) -> None:
        """Ask something now, in a thread that will wait for the answer: die while it does.

        Not an exact place, but one that blocking code has no other way to name: a little later,
        wherever that is.
        """
        if self._counting:
            with self._one_at_a_time:
                self._suspensions = 1
                here = self._note(f"{self._number}.1", self._name)
            if here:
                self._write()
                signal.setitimer(signal.ITIMER_REAL, SOON_S)  # SIGALRM ends the process

    def _note(self, number: str, name: str) -> bool:
        self.reached.append(f"{number} {name}")
        here = self._at == number or (self._at == name and "." not in number)
        if here:
            self._at = ""  # once only: after a SIGSTOP the request goes on
        return here

    def _signal_myself(self, here: bool) -> None:
        if here:
            self._write()
            os.kill(os.getpid(), self._signal)

    def _write(self) -> None:
        # By the kernel, at once: there is no later.
        os.write(2, f"{AT_STEP}{self.reached[-1]}\n".encode())


class Stepped:
    """An object whose methods, in either colour, are two steps each: asked, and answered."""

    def __init__(self, inner: object, steps: Steps, label: str) -> None:
        """Stand in front of `inner`; `label` begins the names of its steps."""
        self._inner, self._steps, self._label = inner, steps, label

    def __getattr__(self, name: str) -> object:
        """Return the attribute of the inner object, with the steps around it if it is a method."""
        value: object = getattr(self._inner, name)
        if name == "connection":
            return Stepped(value, self._steps, "connection")
        if not callable(value):
            return value
        step = f"{self._label}.{name}"
        if inspect.iscoroutinefunction(value):
            return self._asynchronous(step, cast("Callable[..., Awaitable[object]]", value))
        return self._blocking(step, cast("Callable[..., object]", value))

    def _asynchronous(
        self, step: str, method: Callable[..., Awaitable[object]]
    ) -> Callable[..., Awaitable[object]]:
        reach = self._reach(step)

        async def call(*args: object, **options: object) -> object:
            reach(f"{step} asked")
            answer = await method(*args, **options)
            reach(f"{step} answered")
            return self._wrapped(step, answer)

        return call

    def _blocking(self, step: str, method: Callable[..., object]) -> Callable[..., object]:
        reach, beside = self._reach(step), step in BESIDE

        def call(*args: object, **options: object) -> object:
            reach(f"{step} asked")
            if not beside:
                self._steps.ask()
            answer = method(*args, **options)
            reach(f"{step} answered")
            return self._wrapped(step, answer)

        return call

    def _reach(self, step: str) -> Callable[[str], None]:
        return self._steps.pass_by if step in BESIDE else self._steps.reach

    def _wrapped(self, step: str, answer: object) -> object:
        begun = step == "receipts.begin"
        return Stepped(answer, self._steps, "transaction") if begun else answer


class SteppedASGI:
    """An ASGI application whose receives and sends are steps; and its suspensions, from outside."""

    def __init__(self, app: ASGIApp, steps: Steps, label: str) -> None:
        """Stand in front of `app`; the outermost one has the label "server"."""
        self._app, self._steps, self._label = app, steps, label

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection; only requests that ask for it are counted."""
        if not any(name == COUNTED for name, _value in scope.get("headers", ())):
            await self._app(scope, receive, send)
            return
        self._steps.begin()

        async def counted_receive() -> Message:
            self._steps.reach(f"{self._label}.receive asked")
            message = await receive()
            self._steps.reach(f"{self._label}.receive answered")
            return message

        async def counted_send(message: Message) -> None:
            name = f"{self._label}.send {message['type']}"
            self._steps.reach(f"{name} asked")
            await send(message)
            self._steps.reach(f"{name} answered")

        work = self._app(scope, counted_receive, counted_send)
        if self._label == "server":
            await Suspensions(cast("Coroutine[object, object, None]", work), self._steps)
        else:
            await work


class Suspensions:
    """Runs a coroutine as `await` does; each time it gives the event loop control is a step.

    What the coroutine has sent by then is on its way, and the answer has not been read.
    """

    def __init__(self, work: Coroutine[object, object, None], steps: Steps) -> None:
        """Take the coroutine; it runs when this is awaited."""
        self._work, self._steps = work, steps

    def __await__(self) -> Generator[object, object, None]:
        """Pass on what the event loop and the coroutine have for each other."""
        resume: Callable[[], object] = lambda: self._work.send(None)  # noqa: E731
        while True:
            try:
                waited_for = resume()
            except StopIteration:
                return
            self._steps.suspend()
            try:
                answer = yield waited_for
            except BaseException as error:  # noqa: BLE001 - a cancellation is the coroutine's
                resume = _throwing(self._work, error)
            else:
                resume = _sending(self._work, answer)


def _sending(work: Coroutine[object, object, None], value: object) -> Callable[[], object]:
    return lambda: work.send(value)


def _throwing(work: Coroutine[object, object, None], error: BaseException) -> Callable[[], object]:
    return lambda: work.throw(error)
