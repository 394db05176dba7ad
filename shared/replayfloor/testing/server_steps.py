"""What each move does to a server's course; when it may be made is in `server_course`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayfloor.core.claims import Acquire, Release
from replayfloor.testing.server_process import LEASE_MS

if TYPE_CHECKING:
    from replayfloor.testing.server_course import ServerCourse


def step(at: int, course: ServerCourse) -> object:
    """Perform the next effect of a process, or put a release off."""
    process = course.processes[at]
    effect = process.waiting_for
    if course.scenario.background and isinstance(effect, Release):
        course.unreleased.append((at, effect))
        process.go(process.place.send(True))
        return "later"
    return process.step()


def fail(at: int, performed: bool, course: ServerCourse) -> None:  # noqa: FBT001 - one of two
    """Fail the next effect of a process, `performed` or not."""
    process = course.processes[at]
    process.fail(performed=performed)
    # A second failure, or one in the cleanup, can leave a claim that nobody can end.
    if process.failures > 1 or process.cancelled:
        course.lost.add(process.ticket.id)


def cancel(at: int, performed: bool, course: ServerCourse) -> None:  # noqa: FBT001 - one of two
    """Cancel a process at its next effect, `performed` or not."""
    process = course.processes[at]
    process.cancel(performed=performed)
    if process.stopped or process.failures:
        course.lost.add(process.ticket.id)


def renew(at: int, course: ServerCourse) -> object:
    """Perform the next effect of a process's renewal."""
    process = course.processes[at]
    assert process.renewer is not None
    effect = process.renewer.effect
    assert effect is not None
    answer = process.perform(effect)
    process.renewer = course.scenario.after_events(process.renewer.send(answer))
    return answer


def read_stale(at: int, course: ServerCourse) -> object:
    """Answer an acquire with what a replica of the lock still knows."""
    process = course.processes[at]
    effect = process.waiting_for
    assert isinstance(effect, Acquire)
    answer = course.world.acquire_from_replica(effect)
    process.go(process.place.send(answer))
    return answer


def release_now(number: int, course: ServerCourse) -> object:
    """Perform a release that was put off."""
    at, release = course.unreleased.pop(number)
    return course.processes[at].perform(release)


def drop(number: int, course: ServerCourse) -> None:
    """Lose a release that was put off."""
    at, _release = course.unreleased.pop(number)
    course.processes[at].failures += 1


def batch(found: list[int], course: ServerCourse) -> object:
    """Perform the effects of several processes at one moment."""
    return course.batch(found)


def fail_batch(found: list[int], performed: bool, course: ServerCourse) -> None:  # noqa: FBT001
    """Fail the effects of several processes at one moment, `performed` or not."""
    for at in found:
        fail(at, performed, course)


def die(worker: str, course: ServerCourse) -> None:
    """Let a worker die with all of its processes and of what it has put off."""
    for process in course.processes:
        if process.ticket.worker == worker and process.running:
            if course.world.is_mine(process.ticket.id, process.ticket.fence):
                course.lost.add(process.ticket.id)
            process.die()
    course.unreleased = [
        each for each in course.unreleased if course.processes[each[0]].ticket.worker != worker
    ]


def lease_runs_out(course: ServerCourse) -> None:
    """Let a lease's time pass without a renewal."""
    course.world.now_ms += LEASE_MS + 1
    note_late(course)


def set_clock(by_ms: int, course: ServerCourse) -> None:
    """Set the server's clock."""
    course.world.now_ms += by_ms
    note_late(course)


def note_late(course: ServerCourse) -> None:
    """Note whose lease may have run out while it was at work."""
    for process in course.processes:
        ticket = process.ticket
        if process.running and course.world.is_mine(ticket.id, ticket.fence):
            course.late.add(ticket.id)
