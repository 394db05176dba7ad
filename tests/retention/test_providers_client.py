"""The client's profiles have their retention from the catalogue, and agree with it in the rest."""

from __future__ import annotations

import math
import tomllib
from importlib.resources import files

import pytest

from client.shipped import any_profile
from replayfloor.client.catalogue import catalogue, profile
from replayfloor.client.catalogue.entries import read_entries
from replayfloor.core.errors import ConfigurationError
from replayfloor.retention.providers import get_provider
from replayfloor.retention.providers_terms import rely_on
from replayfloor.retention.terms import UNKNOWN

OURS = "replayfloor"
PROFILES = [name for name in catalogue() if name != OURS]


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_has_the_retention_of_its_row(name: str) -> None:
    row = get_provider(name, direction="outbound")
    figure, fact = row.figure("retention"), any_profile(name).fact("retention")

    assert fact is not None
    shared = [(source.at, source.read_on, source.says) for source in figure.sources]
    # The first source of a given retention is the caller.
    assert [(source.at, source.read_on, source.says) for source in fact.sources][1:] == shared
    published_s = rely_on(row).seconds
    if published_s is None:
        with pytest.raises(ConfigurationError):
            profile(name)
    else:
        assert profile(name).retention_s == published_s


def test_no_profile_states_a_retention_of_its_own() -> None:
    folder = files("replayfloor.client.catalogue")
    for file in folder.iterdir():
        if not file.name.endswith(".toml") or file.name == f"{OURS}.toml":
            continue
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        for table in (content.get("common", {}), *content["profiles"].values()):
            assert not [name for name in table if name.startswith("retention")]
            assert "retention" not in table.get("figures", {})


def test_a_profile_with_a_row_may_not_state_one() -> None:
    text = """
[profiles.provider]
row = "stripe-v1"
title = "Provider"
header = "Idempotency-Key"
methods = ["POST"]
hosts = ["provider.example"]
from = ["sdk"]
confidence = "documented"
retention = "PT48H"
retention_kind = "fixed"
key_length_max = 64
in_flight = "unknown"
mismatch = "unknown"
replayed_by = "unknown"
"""
    with pytest.raises(ConfigurationError, match="unknown fields: retention, retention_kind"):
        read_entries(text, "file")
    with pytest.raises(ConfigurationError, match="no provider 'stripe-v3'"):
        read_entries(text.replace('row = "stripe-v1"', 'row = "stripe-v3"'), "file")

    only = text.replace('retention = "PT48H"\nretention_kind = "fixed"\n', "")
    assert read_entries(only, "file")["provider"].retention_s == 86_400.0
    # A third party's word is nothing to send by.
    hearsay = only.replace("stripe-v1", "shopify").replace('from = ["sdk"]', 'from = ["page"]')
    assert read_entries(hearsay, "file")["provider"].retention_s is None


@pytest.mark.parametrize("name", PROFILES)
def test_what_both_know_of_a_request_is_the_same(name: str) -> None:
    row, made = get_provider(name, direction="outbound"), any_profile(name)

    key = (
        f"member {made.body_field} of the JSON body" if made.body_field else f"header {made.header}"
    )
    assert row.figure("key").value == key
    assert row.figure("methods").values == made.methods
    assert row.figure("hosts").values == (made.hosts or (UNKNOWN,))
    length = made.fact("key_length")
    assert length is not None
    assert row.figure("key_length").value == length.value


@pytest.mark.parametrize("name", [name for name in PROFILES if name != "razorpay-refunds"])
def test_the_paths_of_a_profile_are_those_of_its_row(name: str) -> None:
    row, made = get_provider(name, direction="outbound"), any_profile(name)

    assert row.figure("paths").values == (made.paths or (UNKNOWN,))


def test_an_agreement_with_the_provider_is_taken_from_the_row() -> None:
    assert get_provider("paypal-orders").figure("retention").agreed_max == "PT72H"
    assert profile("paypal-orders", retention_s=72 * 3600.0).retention_s == 72 * 3600.0
    with pytest.raises(ConfigurationError, match="executed a second time"):
        profile("paypal-orders", retention_s=math.nextafter(72 * 3600.0, math.inf))
