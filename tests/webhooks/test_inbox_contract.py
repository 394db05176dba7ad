"""The contract of the inbox, in both colours, on a real Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from replayfloor.testing.inbox_contract import InboxContract
from replayfloor.testing.inbox_subject import InboxSubject
from webhooks.inboxes import async_subject, blocking_subject


class TestAsyncPostgresInbox(InboxContract):
    """AsyncPostgresInbox."""

    @pytest.fixture
    async def subject(self, inbox_url: str) -> AsyncIterator[InboxSubject]:
        async with async_subject(inbox_url) as subject:
            yield subject


class TestPostgresInbox(InboxContract):
    """PostgresInbox, each call in a thread of its own."""

    @pytest.fixture
    async def subject(self, inbox_url: str) -> AsyncIterator[InboxSubject]:
        async with blocking_subject(inbox_url) as subject:
            yield subject
