"""A key keeps the form in which it was first sent: a changed profile sends nothing."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from client.clients import PROFILE, Setup, info, named
from client.loopback import DROP, OK, Loopback
from replayfloor.client import KeyReuseMismatch, OutcomePending, Profile
from replayfloor.client.journal import MemoryJournal, SQLiteJournal
from replayfloor.client.key_place import with_place
from replayfloor.core.fingerprint import differing_parts, fingerprint
from replayfloor.core.journal import BeginOperation, Begun

BARE = replace(PROFILE, quoted=False)
FOUR_LOST = (DROP,) * 4


def _lost(loopback: Loopback, setup: Setup) -> None:
    loopback.script(*FOUR_LOST)
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url(), content=b"{}", extensions=named("1"))


@pytest.mark.parametrize(
    ("begun", "changed"),
    [
        (PROFILE, BARE),
        (BARE, PROFILE),
        (PROFILE, replace(PROFILE, header="X-Request-Id")),
        (BARE, replace(BARE, body_field="key")),
    ],
    ids=["quotes dropped", "quotes added", "another header", "into the body"],
)
def test_a_changed_form_of_the_key_is_refused_and_nothing_is_sent(
    begun: Profile, changed: Profile, loopback: Loopback, tmp_path: Path
) -> None:
    with closing(SQLiteJournal(tmp_path / "outbound.db")) as journal:
        _lost(loopback, Setup(profile=begun, journal=journal))
        sent = len(loopback.received)
        with (
            Setup(profile=changed, journal=journal).client() as client,
            pytest.raises(KeyReuseMismatch, match="in another form"),
        ):
            client.post(
                loopback.url(),
                content=b"{}",
                extensions=named("1"),
            )

    assert len(loopback.received) == sent


def test_the_same_profile_goes_on(loopback: Loopback) -> None:
    setup = Setup(profile=BARE)
    _lost(loopback, setup)
    loopback.script(OK)

    with setup.client() as client:
        answer = client.post(loopback.url(), content=b"{}", extensions=named("1"))

    assert info(answer).resumed
    assert len(set(loopback.keys())) == 1


def test_the_letter_case_of_the_header_is_no_other_form(loopback: Loopback) -> None:
    setup = Setup()
    _lost(loopback, setup)
    loopback.script(OK)

    with replace(setup, profile=replace(PROFILE, header="idempotency-KEY")).client() as client:
        answer = client.post(loopback.url(), content=b"{}", extensions=named("1"))

    assert info(answer).resumed


class Before(MemoryJournal):
    """It was written by a release that kept the fingerprint of the request alone."""

    def begin(self, effect: BeginOperation) -> Begun:
        entry = replace(effect.entry, fingerprint=with_place(effect.entry.fingerprint, BARE))
        return super().begin(replace(effect, entry=entry))


def test_an_operation_of_an_earlier_release_goes_on(loopback: Loopback) -> None:
    # Mixed in twice, the form is gone.
    journal = Before()
    setup = Setup(profile=BARE, journal=journal)
    _lost(loopback, setup)
    (standing,) = journal.pending()
    plain = fingerprint(method="POST", path=b"/charges", query=b"", content_type=b"", body=b"{}")
    assert standing.fingerprint == plain
    loopback.script(OK)

    with setup.client() as client:
        answer = client.post(loopback.url(), content=b"{}", extensions=named("1"))

    assert info(answer).resumed


@pytest.mark.parametrize("form", [PROFILE, BARE, replace(PROFILE, body_field="key")])
def test_the_form_is_told_from_every_part_of_the_request(form: Profile) -> None:
    plain = fingerprint(method="POST", path=b"/", query=b"", content_type=b"", body=b"")

    assert with_place(plain, form) != plain
    assert differing_parts(with_place(plain, form), plain) == ()
