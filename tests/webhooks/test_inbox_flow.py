"""What becomes of an event in the inbox: the decisions, without a database or an application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from replayfloor.core.claims import Begin, Fence, Rollback
from replayfloor.core.drivers import run
from replayfloor.core.effects import Effect
from replayfloor.core.errors import ReceiptCorrupt, StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.effects import Emit, Pause
from replayfloor.server.events import EventKind
from replayfloor.server.policy import Effects
from replayfloor.server.webhooks.inbox.apply import (
    APPLIED,
    DEAD,
    NOT_COMMITTED,
    OUTCOME_UNKNOWN,
    PUT_OFF,
    STORE_TRIES,
    WORKERS_DIED,
    Limits,
    apply,
)
from replayfloor.server.webhooks.inbox.backoff import ATTEMPTS_MAX, FIRST_S, LONGEST_S, pause_ms
from replayfloor.server.webhooks.inbox.effects import (
    Bury,
    CommitDone,
    CutOff,
    Done,
    Draw,
    Go,
    Hand,
    Handed,
    Handling,
    Idle,
    Later,
    Prepare,
    Rest,
    Take,
)
from replayfloor.server.webhooks.inbox.flow import work
from replayfloor.server.webhooks.inbox.values import Taken
from replayfloor.testing.inbox_subject import REQUEST

LIMITS = Limits(lease_ms=30_000, poll_ms=1000, attempts_max=3, first_s=10.0, longest_s=60.0)
ID, FENCE = ReceiptId(b"i" * 16), Fence(b"f" * 16)
TAKEN = Taken(
    id=ID,
    fence=FENCE,
    namespace="default",
    source="shop",
    endpoint="/hooks/shop",
    event_id="evt_1",
    subject=None,
    ordered=False,
    occurred_ms=None,
    age_ms=None,
    received_ms=0,
    past_horizon=False,
    attempts=1,
    taken_over=False,
    stored=b"",
    sealed=False,
)
DOWN = StoreUnavailable("down")
ALL = list(Effects)
ATOMIC, EXTERNAL, REPEATABLE = Effects.ATOMIC, Effects.EXTERNAL, Effects.REPEATABLE

Answer = object


@dataclass
class World:
    """Answers effects as a script says, by their type; an exception is raised. The last answer of
    a type stays."""

    effects: Effects = ATOMIC
    script: dict[type, list[Answer]] = field(default_factory=dict)
    seen: list[Effect[object]] = field(default_factory=list)

    def perform(self, effect: Effect[object]) -> object:
        self.seen.append(effect)
        answers = self.script.get(type(effect))
        if answers is None:
            return self._default(effect)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _default(self, effect: Effect[object]) -> object:
        match effect:
            case Prepare(taken):
                return Handling(taken.item(REQUEST), self.effects)
            case Hand():
                return Handed(204)
            case Draw():
                return 0.5
            case Done() | CommitDone() | Later() | Bury():
                return True
            case _:
                return None

    @property
    def steps(self) -> list[type]:
        """Which effects were asked for; not those that only tell."""
        return [type(each) for each in self.seen if not isinstance(each, Emit | Draw | Rest)]

    @property
    def told(self) -> list[EventKind]:
        return [each.event.kind for each in self.seen if isinstance(each, Emit)]

    def only(self, kind: type) -> Effect[object]:
        (found,) = [each for each in self.seen if isinstance(each, kind)]
        return found


def applied(taken: Taken = TAKEN, effects: Effects = ATOMIC, **script: object) -> World:
    """Apply an event in a world; `script` is by the name of the effect's type."""
    kinds: dict[str, type] = {
        each.__name__: each for each in (Begin, Bury, CommitDone, Done, Hand, Later, Prepare)
    }
    world = World(effects)
    for name, answer in script.items():
        world.script[kinds[name]] = answer if isinstance(answer, list) else [answer]
    run(apply(taken, LIMITS), world.perform)
    return world


@pytest.mark.parametrize("status", [200, 202, 299])
def test_a_success_of_an_atomic_handler_is_committed_with_the_removal(status: int) -> None:
    world = applied(Hand=Handed(status))

    assert world.steps == [Prepare, Begin, Hand, CommitDone]
    assert world.told == [APPLIED]


@pytest.mark.parametrize("effects", [EXTERNAL, REPEATABLE])
def test_a_success_of_another_handler_is_followed_by_the_removal(effects: Effects) -> None:
    world = applied(effects=effects)

    assert world.steps == [Prepare, Hand, Done]
    assert world.told == [APPLIED]


@pytest.mark.parametrize("effects", ALL)
@pytest.mark.parametrize("answer", [Handed(500), Handed(302), Handed(410), ValueError("secret")])
def test_a_failure_is_put_off_whatever_the_effects(effects: Effects, answer: Answer) -> None:
    world = applied(effects=effects, Hand=answer)
    error = f"status {answer.status}" if isinstance(answer, Handed) else "ValueError"

    undone = [Begin, Hand, Rollback] if effects is ATOMIC else [Hand]
    assert world.steps == [Prepare, *undone, Later]
    assert world.only(Later) == Later(ID, FENCE, 5000, error)
    assert world.told == [PUT_OFF]


def test_nothing_that_an_exception_says_is_kept() -> None:
    world = applied(Hand=ValueError("4242 4242 4242 4242"))

    assert "4242" not in str(world.seen)


@pytest.mark.parametrize("effects", ALL)
def test_after_the_last_attempt_an_event_is_dead(effects: Effects) -> None:
    world = applied(replace(TAKEN, attempts=3), effects, Hand=Handed(500))

    assert world.only(Bury) == Bury(ID, FENCE, "status 500")
    assert world.told == [DEAD]


@pytest.mark.parametrize("effects", ALL)
def test_an_event_that_kills_its_workers_is_dead_before_it_kills_another(effects: Effects) -> None:
    world = applied(replace(TAKEN, attempts=4, taken_over=True), effects)
    why = OUTCOME_UNKNOWN if effects is EXTERNAL else WORKERS_DIED

    assert world.steps == [Prepare, Bury]
    assert world.only(Bury) == Bury(ID, FENCE, why)


def test_an_external_event_whose_worker_died_is_not_run_again() -> None:
    world = applied(replace(TAKEN, attempts=2, taken_over=True), EXTERNAL)

    assert world.steps == [Prepare, Bury]
    assert world.only(Bury) == Bury(ID, FENCE, OUTCOME_UNKNOWN)
    assert world.told == [DEAD]


@pytest.mark.parametrize("effects", [ATOMIC, REPEATABLE])
def test_another_event_whose_worker_died_is_run_again(effects: Effects) -> None:
    world = applied(replace(TAKEN, attempts=2, taken_over=True), effects)

    assert Hand in world.steps
    assert world.told == [EventKind.TAKEN_OVER, APPLIED]


@pytest.mark.parametrize(
    ("effects", "then"), [(ATOMIC, Later), (REPEATABLE, Later), (EXTERNAL, Bury)]
)
def test_an_event_that_was_cut_off_is_given_back_unless_nobody_knows_what_was_done(
    effects: Effects, then: type
) -> None:
    world = applied(effects=effects, Hand=CutOff())

    assert world.steps[-1] is then
    if then is Later:
        assert world.only(Later) == Later(ID, FENCE, 0, counts=False)
    else:
        assert world.only(Bury) == Bury(ID, FENCE, OUTCOME_UNKNOWN)


def test_a_lost_lease_is_told_and_nothing_else_is_done() -> None:
    for world in (applied(CommitDone=False), applied(Hand=Handed(500), Later=False)):
        assert world.told == [EventKind.LEASE_LOST]


def test_a_transaction_that_cannot_be_opened_is_no_attempt() -> None:
    world = applied(Begin=DOWN)

    assert world.steps == [Prepare, Begin, Later]
    assert not world.only(Later).counts  # type: ignore[attr-defined]


def test_whether_a_lost_commit_was_made_is_left_to_the_event_itself() -> None:
    world = applied(CommitDone=DOWN)

    assert world.steps == [Prepare, Begin, Hand, CommitDone]
    assert world.told == [EventKind.STORE_UNAVAILABLE]


def test_a_commit_that_fails_by_the_handlers_fault_is_a_failed_attempt() -> None:
    world = applied(CommitDone=KeyError("deferred constraint"))

    assert world.only(Later) == Later(ID, FENCE, 5000, "status 204 after KeyError")


@pytest.mark.parametrize("effects", [EXTERNAL, REPEATABLE])
def test_a_removal_that_is_not_answered_is_asked_for_again(effects: Effects) -> None:
    world = applied(effects=effects, Done=[DOWN, DOWN, True])

    assert world.steps == [Prepare, Hand, Done, Pause, Done, Pause, Done]
    assert world.told == [EventKind.STORE_UNAVAILABLE, APPLIED]


def test_a_removal_whose_answer_was_lost_is_not_taken_for_a_lost_lease() -> None:
    world = applied(effects=EXTERNAL, Done=[DOWN, False])

    assert world.told == [EventKind.STORE_UNAVAILABLE]


def test_a_database_that_stays_away_ends_the_attempts_to_settle() -> None:
    world = applied(effects=EXTERNAL, Done=DOWN)

    assert world.steps.count(Done) == STORE_TRIES
    assert world.steps[-1] is Done


def test_an_event_that_the_handler_removed_itself_is_applied_if_it_is_gone() -> None:
    gone = applied(effects=EXTERNAL, Hand=Handed(200, recorded=True), Later=False)
    there = applied(effects=EXTERNAL, Hand=Handed(200, recorded=True))

    assert gone.told == [APPLIED]
    assert Done not in gone.steps
    assert there.only(Later) == Later(ID, FENCE, 5000, NOT_COMMITTED)


@pytest.mark.parametrize(
    ("answer", "error"), [(ReceiptCorrupt("no"), "ReceiptCorrupt"), (None, "no route")]
)
def test_an_event_that_cannot_be_handed_over_is_put_off_and_not_lost(
    answer: Answer, error: str
) -> None:
    world = applied(Prepare=answer)

    assert world.steps == [Prepare, Later]
    assert error in str(world.only(Later))


# -- the loop --------------------------------------------------------------------------------------


def worked(script: dict[type, list[Answer]], rounds: int) -> World:
    """Work for some rounds."""
    go: list[Answer] = [each < rounds for each in range(rounds + 1)]
    world = World(script={Go: go, **script})
    run(work(LIMITS), world.perform)
    return world


def test_an_empty_inbox_is_looked_into_less_and_less_often() -> None:
    world = worked({Take: [None], Idle: [False]}, 8)

    pauses = [each.pause_ms for each in world.seen if isinstance(each, Idle)]
    assert pauses == [50, 100, 200, 400, 800, 1000, 1000, 1000]


def test_after_an_event_or_a_call_it_is_looked_into_soon_again() -> None:
    world = worked({Take: [None, None, TAKEN, None], Idle: [False, False, True, False]}, 6)

    pauses = [each.pause_ms for each in world.seen if isinstance(each, Idle)]
    assert pauses == [50, 100, 50, 50, 100]


def test_a_take_whose_answer_was_lost_is_asked_for_again_and_told_of_once() -> None:
    world = worked({Take: [DOWN, DOWN, None]}, 3)

    takes = [each.again for each in world.seen if isinstance(each, Take)]
    assert takes == [False, True, True]
    assert world.told == [EventKind.STORE_UNAVAILABLE]


# -- the pauses ------------------------------------------------------------------------------------


def test_pauses_double_up_to_the_longest_and_are_cut_at_random() -> None:
    def at(chance: float) -> Callable[[int], int]:
        return lambda attempts: pause_ms(attempts, chance, 10.0, 60.0)

    assert [at(1.0)(n) for n in (1, 2, 3, 4, 5, 2000)] == [10_000, 20_000, 40_000, *[60_000] * 3]
    assert [at(0.5)(n) for n in (1, 2, 3, 4)] == [5_000, 10_000, 20_000, 30_000]
    assert at(0.0)(7) == 0


def test_the_attempts_last_over_a_night_and_end_within_two_days() -> None:
    upper_s = sum(pause_ms(n, 1.0, FIRST_S, LONGEST_S) for n in range(1, ATTEMPTS_MAX)) / 1000

    assert upper_s <= 2 * 86_400
    assert upper_s / 2 >= 20 * 3600
