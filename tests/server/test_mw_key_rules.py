"""What a key has to look like where the middleware's options say so."""

from __future__ import annotations

import re

import pytest

from replayfloor.core.problem import ProblemKind
from server.apps import LedgerApp
from server.backends import Backend, ProtectOptions
from server.wire import Request, send

pytestmark = pytest.mark.anyio

RULES: list[tuple[ProtectOptions, bytes, bool]] = [
    ({"key_length_min": 8}, b"x" * 7, False),
    ({"key_length_min": 8}, b"x" * 8, True),
    ({"key_length_max": 8}, b"x" * 8, True),
    ({"key_length_max": 8}, b"x" * 9, False),
    ({"key_length_max": 1024}, b"x" * 1024, True),
    ({"key_pattern": "[a-z]+-[0-9]+"}, b"order-17", True),
    ({"key_pattern": "[a-z]+-[0-9]+"}, b"order-17-b", False),
    ({"key_pattern": "[a-z]+-[0-9]+"}, b"an order-17", False),
    ({"key_pattern": re.compile("k", re.IGNORECASE)}, b"K", True),
    ({"key_pattern": "[a-z-]+", "accept_unquoted": True}, b"order_17", False),
]


@pytest.mark.parametrize(("options", "key", "taken"), RULES)
async def test_a_key_that_keeps_the_rules_is_taken_and_another_is_refused(
    sqlite: Backend, options: ProtectOptions, key: bytes, taken: bool
) -> None:
    app = sqlite.protect(LedgerApp(sqlite), **options)

    answer = await send(app, Request(key=b'"%s"' % key))

    refused = (400, ProblemKind.INVALID_KEY, False)
    assert answer.brief == ((201, None, False) if taken else refused)
    assert len(sqlite.ledger.rows()) == int(taken)
    # Neither does a refusal repeat what may be somebody's secret.
    assert taken or key not in answer.body


async def test_a_long_key_is_one_operation_in_every_store(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend), key_length_max=1024)
    key = b'"%s"' % (b"x" * 1024)

    answers = [await send(app, Request(key=key)) for _ in range(2)]
    other = await send(app, Request(key=b'"%sy"' % (b"x" * 1023)))

    assert [each.replayed for each in (*answers, other)] == [False, True, False]
    assert len(backend.ledger.rows()) == 2
