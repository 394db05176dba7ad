"""A transport that is given the plan of its repetitions, and refuses one that goes too far."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from client.clients import NO_TLS, POLICY
from client.loopback import Loopback
from replayfloor.client import IdempotentTransport, Profile
from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import InboundPolicy, OutboundPolicy, PlanTooLong, Provider, Sender

DAY_S = 86_400.0
SHOP = Profile(name="shop", retention_s=DAY_S)


def _plan(manual_rerun: str) -> OutboundPolicy:
    shop = Provider("shop", key_retention="24h")
    return OutboundPolicy("orders", provider=shop, retry_budget="2min", manual_rerun=manual_rerun)


def _transport(
    profile: Profile | tuple[Profile, ...] | None, policy: object, budget_s: float = 60.0
) -> IdempotentTransport:
    return IdempotentTransport(
        httpx.HTTPTransport(verify=NO_TLS),
        profile=profile,
        journal="memory:",
        policy=policy,  # type: ignore[arg-type]
        retry=replace(POLICY, budget_s=budget_s),
    )


def test_a_plan_that_fits_is_taken(loopback: Loopback) -> None:
    with httpx.Client(transport=_transport(SHOP, _plan("20h"))) as client:
        assert client.post(loopback.url()).status_code == 201


def test_a_plan_that_goes_beyond_the_providers_memory_is_refused_at_the_start() -> None:
    with pytest.raises(PlanTooLong, match="executed a second time"):
        _transport(SHOP, _plan("24h"))


def test_the_shortest_memory_of_several_profiles_counts() -> None:
    short = Profile(name="other", retention_s=3 * 3600.0, paths=("/other",))
    with pytest.raises(PlanTooLong):
        _transport((SHOP, short), _plan("20h"))


def test_the_budget_that_the_transport_really_has_counts() -> None:
    _transport(SHOP, _plan("23h"), budget_s=60.0)
    with pytest.raises(PlanTooLong):
        _transport(SHOP, _plan("23h"), budget_s=3600.0)


def test_how_long_receipts_are_kept_is_no_plan_of_a_client() -> None:
    inbound = InboundPolicy("hooks", senders=(Sender("shop", automatic_retry="72h"),))
    with pytest.raises(ConfigurationError, match="OutboundPolicy"):
        _transport(SHOP, inbound)


def test_without_a_profile_no_plan_can_be_kept() -> None:
    with pytest.raises(ConfigurationError, match="without a profile"):
        _transport(None, _plan("20h"))
