"""The exceptions: who is to blame, and what is known of the operation."""

from __future__ import annotations

import pytest

from replayfloor.core import errors


@pytest.mark.parametrize("name", ["InvalidKey", "ConfigurationError", "UsageError"])
def test_what_the_caller_did_wrong_is_a_value_error_too(name: str) -> None:
    kind = getattr(errors, name)

    assert issubclass(kind, errors.UsageError)
    assert issubclass(kind, ValueError)


@pytest.mark.parametrize(
    "name", ["SchemaMissing", "StoreUnavailable", "ReceiptCorrupt", "ClaimLost"]
)
def test_what_others_did_is_no_value_error(name: str) -> None:
    kind = getattr(errors, name)

    assert issubclass(kind, errors.IdempotencyError)
    assert not issubclass(kind, ValueError)


def test_an_unavailable_store_is_unsure_unless_it_says_otherwise() -> None:
    assert errors.StoreUnavailable("cut").performed is None
    assert errors.StoreUnavailable("no connection", performed=False).performed is False
