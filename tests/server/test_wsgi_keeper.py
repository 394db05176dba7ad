"""The moment at which a handler ends just as its first renewal becomes due."""

from __future__ import annotations

import threading

from replayfloor.server.keeper import Alarm, LeaseKeeper

FAR_S = 60.0
SOON_S = 0.2


def test_a_renewal_that_becomes_due_as_its_handler_ends_does_not_begin() -> None:
    renewed = threading.Event()
    keeper = LeaseKeeper(Alarm(), FAR_S, lambda _stopped: renewed.set(), lambda: None)
    keeper.stop()
    keeper.begin()

    assert not renewed.wait(SOON_S)


def test_a_renewal_that_has_begun_is_told_of_the_end() -> None:
    told = threading.Event()

    def renew(stopped: threading.Event) -> None:
        assert stopped.wait(FAR_S)
        told.set()

    keeper = LeaseKeeper(Alarm(), FAR_S, renew, lambda: None)
    keeper.begin()
    keeper.stop()

    assert told.wait(FAR_S)
