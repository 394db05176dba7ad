"""One schedule of a pair under way: a client, a network and a server, and what can happen next.

The client goes on, dies and starts again, or gives up waiting; a request is lost, arrives, arrives
and stays on its way, at any time; an answer is lost, or arrives. Requests that arrived are served
as in `server_course`; who serves one may die. Time passes when the client waits, and then leases
are renewed; or everything stands still until a moment that matters, and they are not. Receipts that
have expired are dropped. All of it by one real time, which every clock shows in its own way.

Assumed is what the server's margin is there for: whoever serves a request takes no longer than
SLACK_MS from its arrival to the claim, and from there, or from the end of the handler, to the
release. The handler itself may take any time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self, TypeAlias

from replayfloor.client.effects import Send, Sleep
from replayfloor.core.claims import Commit, Finish
from replayfloor.core.message import Response
from replayfloor.server.effects import Execute
from replayfloor.testing import pair_steps as steps
from replayfloor.testing.explore_states import Move
from replayfloor.testing.pair_client import PATIENCE_MS, START_MS, Client, Departure
from replayfloor.testing.pair_promises import (
    Notes,
    check,
)
from replayfloor.testing.pair_served import LEASE_MS, SLACK_MS, Served
from replayfloor.testing.world import World

if TYPE_CHECKING:
    from replayfloor.testing.pair_scenario import PairScenario

SLOW = (Execute, Finish, Commit)
"""Effects that may take any time to come to: the handler's, and what ends it."""

_Act: TypeAlias = Callable[["PairCourse"], object]
_Option: TypeAlias = tuple[str, str, _Act]
"""A label, the fault that it uses up (or none), and what it does."""


class PairCourse:
    """See the module. `requests` are on their way, `answers` on their way back."""

    def __init__(self, scenario: PairScenario) -> None:
        """Begin the first call."""
        self.scenario = scenario
        self.world = World()
        self.world.now_ms = START_MS
        self.client: Client = scenario.client(scenario.ahead_ms, scenario.first_place)
        self.left = dict(scenario.faults.allowed())
        self.leaps = list(scenario.leaps_ms)
        self.requests: list[Departure] = []
        self.served: list[Served] = []
        self.answers: list[tuple[int, Response]] = []
        self.arrivals = 0
        self.notes = Notes()

    def copy(self) -> Self:
        """Return an equal course that goes on independently."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.world, other.client = self.world.copy(), self.client.copy()
        other.left, other.leaps = self.left.copy(), self.leaps.copy()
        other.requests, other.answers = self.requests.copy(), self.answers.copy()
        other.notes = self.notes.copy()
        other.served = [each.copy() for each in self.served]
        for served in other.served:
            served.world = other.world
        return other

    def key(self) -> tuple[Hashable, ...]:
        """Return what the future depends on."""
        return (
            self.world.key(), self.client.key(), self.notes.key(),
            *[each.key() for each in self.served],
            (
                tuple(self.left.values()), tuple(self.leaps), self.arrivals,
                tuple(each.attempt for each in self.requests), tuple(self.answers),
            ),
        )  # fmt: skip

    def check(self) -> None:
        """Raise Violation if a promise was broken."""
        check(self)

    @property
    def now_ms(self) -> int:
        """The time that has really passed."""
        return self.client.now_ms

    # -- what can happen --------------------------------------------------------------------------

    def moves(self) -> Sequence[Move]:
        """Return what can happen next; nothing once the call is over and nothing is on its way."""
        options = [*self._client(), *self._served()]
        if self._goes_alone():
            options = options[:1]
        elif options or self.requests:
            options += [*self._network(), *self._faults()]
        return [
            Move(label, partial(_act, fault=fault, act=act))
            for label, fault, act in options
            if not fault or self.left.get(fault)
        ]

    def _goes_alone(self) -> bool:
        """Whether what the client does next is seen by nobody, so that its order is no matter."""
        effect = self.client.effect
        inside = effect is not None and not isinstance(effect, Send | Sleep)
        return inside and not self.left["client_crashes"] and not self.leaps

    def _client(self) -> Iterator[_Option]:
        client, name = self.client, f"call {self.client.calls}"
        match client.effect:
            case None:
                return
            case Sleep():
                wakes_ms = client.wakes_ms or 0
                if self._may_pass(wakes_ms):
                    yield f"{name} has waited", "", partial(steps.wake, wakes_ms)
            case Send() if (attempt := client.awaits) is not None:
                yield from self._waiting(name, attempt)
            case Send():
                yield f"{name} sends attempt {client.attempts + 1}", "", steps.let_leave
                yield f"{name} is refused a connection", "refusals", steps.refuse
            case effect:
                yield f"{name}: {type(effect).__name__}", "", steps.write
        yield f"{name} dies", "client_crashes", steps.restart

    def _waiting(self, name: str, attempt: int) -> Iterator[_Option]:
        for at, (number, _response) in enumerate(self.answers):
            if number == attempt:
                yield f"{name} is answered", "", partial(steps.deliver, at)
                yield f"the answer to {name} is lost", "losses", partial(steps.lose_answer, at)
        on_its_way = (
            any(each.attempt == attempt for each in self.requests)
            or any(each.attempt == attempt for each in self.served)
            or any(number == attempt for number, _response in self.answers)
        )
        if self._may_pass(self.now_ms + PATIENCE_MS):
            yield f"{name} gives up waiting", "timeouts" if on_its_way else "", steps.give_up

    def _network(self) -> Iterator[_Option]:
        for at, request in enumerate(self.requests):
            what = f"the request of attempt {request.attempt}"
            yield f"{what} arrives", "", partial(steps.arrive, at, False)
            yield f"{what} arrives, and will again", "duplicates", partial(steps.arrive, at, True)
            yield f"{what} is lost", "losses", partial(steps.lose_request, at)

    def _served(self) -> Iterator[_Option]:
        for at, served in enumerate(self.served):
            name, what = served.ticket.name, type(served.waiting_for).__name__
            yield f"{name}: {what}", "", partial(steps.go_on_serving, at)
            yield f"{name} dies before {what}", "server_crashes", partial(steps.die, at)
            if not isinstance(served.waiting_for, Execute):
                lost, failed = (partial(steps.fail, at, performed) for performed in (True, False))
                yield f"{name} loses the answer of {what}", "lost_answers", lost
                yield f"{name} cannot reach {what}", "failed_calls", failed

    def _faults(self) -> Iterator[_Option]:
        yield "the lock forgets", "lock_losses", lambda course: course.world.lose_locks()
        if self.leaps and self._may_pass(self.leaps[0]):
            yield f"everything stands still until {self.leaps[0]} ms", "", steps.leap
        lease_ends_ms = self.now_ms + LEASE_MS + 1
        if self.served and self._may_pass(lease_ends_ms):
            yield "a lease runs out", "expiries", partial(steps.stand_still, lease_ends_ms)
        if self.world.has_expired(self.scenario.retention_ms):
            yield "what has expired is dropped", "", steps.drop

    def _may_pass(self, until_ms: int) -> bool:
        return all(
            isinstance(each.waiting_for, SLOW) or until_ms - each.since_ms <= SLACK_MS
            for each in self.served
        )

    def pass_until(self, moment_ms: int) -> None:
        """Let time pass, on every clock."""
        moment_ms = max(moment_ms, self.now_ms)
        self.world.now_ms = START_MS + moment_ms
        self.client.now_ms = moment_ms
        self.leaps = [each for each in self.leaps if each > moment_ms]


def _act(course: PairCourse, fault: str, act: _Act) -> object:
    if fault:
        course.left[fault] -= 1
    return act(course)
