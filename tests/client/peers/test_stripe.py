"""stripe-python over our transports: one charge and one key, through its retries and ours.

The SDK makes a key for each of its calls and repeats a call that fails, whatever the exception is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import stripe

from client.clients import FakeTime
from client.peers.colours import EVERY, Colour, in_every_colour
from client.peers.stripe_sdk import SDK_CALLS, Shop
from client.peers.stripe_server import RETENTION_S, STILL_RUNNING, Fault, StripeDouble
from client.servers import running
from replayfloor.client import (
    KeyReuseMismatch,
    OutcomePending,
    OutcomeUnknown,
    RetryPolicy,
    SQLiteJournal,
)
from replayfloor.core.journal import ReadHistory

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

ATTEMPTS = 2
POLICY = RetryPolicy(attempts_max=ATTEMPTS, wait_base_s=1, wait_cap_s=4, budget_s=60)
ORDER = "order-42"


@pytest.fixture
def time() -> FakeTime:
    """One clock for the client and the double."""
    return FakeTime()


@pytest.fixture
def double(time: FakeTime) -> Iterator[StripeDouble]:
    """Stripe, on the loopback."""
    with running(StripeDouble(clock=time.clock)) as server:
        yield server


@pytest.fixture
def shop(colour: Colour, double: StripeDouble, time: FakeTime) -> Shop:
    """A shop of one colour."""
    return Shop(colour=colour, double=double, time=time, retry=POLICY)


@pytest.fixture(autouse=True)
def _no_waits_of_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stripe.HTTPClient, "INITIAL_DELAY", 0)


def cause(caught: pytest.ExceptionInfo[stripe.APIConnectionError]) -> BaseException | None:
    """Return what the SDK was told: it wraps every exception."""
    return caught.value.__cause__


@in_every_colour
def test_a_lost_reply_is_one_charge_under_one_key(shop: Shop, double: StripeDouble) -> None:
    double.plan(Fault.LOST_REPLY)

    with shop.open() as till:
        assert till.pay() == "pi_1"

    assert len(double.effects) == 1
    assert len(double.received) == 2
    assert len(set(double.keys())) == 1


@in_every_colour
def test_the_sdks_retries_go_on_with_the_same_key_when_ours_are_used_up(
    shop: Shop, double: StripeDouble
) -> None:
    double.plan(Fault.LOST_REQUEST, Fault.LOST_REPLY, *[Fault.LOST_REPLY] * ATTEMPTS)

    with shop.open() as till:
        assert till.pay() == "pi_1"

    assert len(double.effects) == 1
    assert len(double.received) == 2 * ATTEMPTS + 1
    assert len(set(double.keys())) == 1
    assert len(set(double.bodies())) == 1


@in_every_colour
def test_payments_without_a_name_are_operations_of_their_own(
    shop: Shop, double: StripeDouble
) -> None:
    with shop.open() as till:
        assert [till.pay(), till.pay()] == ["pi_1", "pi_2"]

    assert len(set(double.keys())) == 2


@in_every_colour
def test_the_sdks_new_key_yields_to_the_one_that_the_operation_began_with(
    shop: Shop, double: StripeDouble
) -> None:
    """A process dies after its payment; the next one names the same order, and pays once."""
    double.plan(*[Fault.LOST_REPLY] * ATTEMPTS)
    with shop.open(sdk_retries=0) as till, pytest.raises(stripe.APIConnectionError) as caught:
        till.pay(within=ORDER)
    assert isinstance(cause(caught), OutcomePending)

    with shop.open() as till:
        assert till.pay(within=ORDER) == "pi_1"
        assert till.pay(within=ORDER) == "pi_1"

    assert len(double.effects) == 1
    assert len(set(double.keys())) == 1
    assert len(double.received) == ATTEMPTS + 2


@in_every_colour
def test_a_key_that_is_given_to_the_sdk_continues_its_operation(
    shop: Shop, double: StripeDouble
) -> None:
    double.plan(*[Fault.LOST_REPLY] * ATTEMPTS)
    with shop.open(sdk_retries=0) as till, pytest.raises(stripe.APIConnectionError):
        till.pay(key=ORDER)

    with shop.open() as till:
        assert till.pay(key=ORDER) == "pi_1"

    assert set(double.keys()) == {ORDER}
    assert len(double.effects) == 1


@in_every_colour
def test_a_second_payment_under_one_name_is_refused_and_not_sent(
    shop: Shop, double: StripeDouble
) -> None:
    with shop.open() as till:
        till.pay(within=ORDER)
        with pytest.raises(stripe.APIConnectionError) as caught:
            till.pay(6, within=ORDER)

    assert isinstance(cause(caught), KeyReuseMismatch)
    assert len(double.received) == 1


@in_every_colour
def test_a_key_in_use_is_waited_for_and_the_sdk_sees_only_the_answer(
    shop: Shop, double: StripeDouble
) -> None:
    shop.retry = RetryPolicy(attempts_max=STILL_RUNNING + 2, wait_base_s=1, budget_s=60)
    double.plan(Fault.SLOW)

    with shop.open(sdk_retries=0) as till:
        assert till.pay() == "pi_1"

    assert len(double.effects) == 1
    assert len(double.received) == STILL_RUNNING + 2
    assert all(wait_s >= 1 for wait_s in shop.time.waits_s[1:])


@in_every_colour
def test_what_stripe_asks_to_send_again_is_sent_again(shop: Shop, double: StripeDouble) -> None:
    double.plan(Fault.LOCKED)

    with shop.open(sdk_retries=0) as till:
        assert till.pay() == "pi_1"

    assert len(double.effects) == 1
    assert len(set(double.keys())) == 1


@in_every_colour
def test_a_replayed_500_ends_the_operation_and_the_sdks_loop_sends_nothing(
    shop: Shop, double: StripeDouble
) -> None:
    double.plan(Fault.FAILED)

    with shop.open() as till, pytest.raises(stripe.APIConnectionError) as caught:
        till.pay(within=ORDER)

    assert isinstance(cause(caught), OutcomeUnknown)
    assert len(double.received) == 2  # the failure, and its replay
    assert len(double.effects) == 1


@in_every_colour
def test_a_500_that_shall_not_be_sent_again_is_handed_to_the_caller(
    shop: Shop, double: StripeDouble
) -> None:
    double.plan(Fault.FAILED_FOR_GOOD)

    with shop.open() as till:
        with pytest.raises(stripe.APIError):
            till.pay(within=ORDER)
        assert len(double.received) == 1
        # Asked for again it is a replay, which tells that the key will never tell more.
        with pytest.raises(stripe.APIConnectionError) as caught:
            till.pay(within=ORDER)

    assert isinstance(cause(caught), OutcomeUnknown)
    assert len(double.received) == 2


@in_every_colour
@pytest.mark.parametrize(("key", "within"), [(ORDER, ""), ("", ORDER)], ids=["key", "within"])
def test_past_the_retention_nothing_is_sent_whoever_retries(
    shop: Shop, double: StripeDouble, time: FakeTime, tmp_path: Path, key: str, within: str
) -> None:
    """The double has forgotten the key: one request more would be a second charge."""
    shop.journal = SQLiteJournal(tmp_path / "outbound.db")
    double.plan(then=Fault.LOST_REPLY)
    with shop.open() as till, pytest.raises(stripe.APIConnectionError) as caught:
        till.pay(key=key, within=within)
    assert isinstance(cause(caught), OutcomePending)
    sent = len(double.received)
    double.plan()
    time.pass_time(RETENTION_S["v1"])

    shop.journal = SQLiteJournal(tmp_path / "outbound.db")
    calls = 0
    for _ in range(2):
        with shop.open() as till, pytest.raises(stripe.APIConnectionError) as caught:
            till.pay(key=key, within=within)
        assert isinstance(cause(caught), OutcomeUnknown)
        calls += SDK_CALLS

    assert len(double.received) == sent, f"{calls} calls of the transport"
    assert len(double.effects) == 1


@pytest.mark.parametrize("colour", EVERY[:1], ids=str)
def test_the_double_would_charge_again_past_the_retention(
    shop: Shop, double: StripeDouble, time: FakeTime
) -> None:
    """The counterexample: without the journal's memory the same key is a second charge."""
    with shop.open() as till:
        till.pay(key=ORDER)
    time.pass_time(RETENTION_S["v1"])

    http = stripe.HTTPXClient(allow_sync_methods=True, verify_ssl_certs=False)
    address = f"http://127.0.0.1:{double.port}"
    bare = stripe.StripeClient("sk_test_1", http_client=http, base_addresses={"api": address})
    bare.v1.payment_intents.create({"amount": 5, "currency": "eur"}, {"idempotency_key": ORDER})
    assert http._client is not None
    http._client.close()

    assert double.effects == [ORDER, ORDER]


@in_every_colour
def test_each_of_stripes_apis_has_its_own_retention_and_namespace(
    shop: Shop, double: StripeDouble, time: FakeTime
) -> None:
    double.plan(*[Fault.LOST_REPLY] * ATTEMPTS * 2)
    with shop.open(sdk_retries=0) as till:
        for call in (till.pay, till.subscribe):
            with pytest.raises(stripe.APIConnectionError):
                call(within=ORDER)
    time.pass_time(RETENTION_S["v1"])

    with shop.open() as till:
        with pytest.raises(stripe.APIConnectionError) as caught:
            till.pay(within=ORDER)
        assert isinstance(cause(caught), OutcomeUnknown)
        assert till.subscribe(within=ORDER) == "pi_2"

    assert len(double.effects) == 2
    assert len(double.received) == ATTEMPTS * 2 + 1
    entries = shop.journal.history(ReadHistory())
    spaces = {entry.namespace: entry.retention_s for entry in entries}
    assert spaces == {
        "stripe-v1/acct_1/test": RETENTION_S["v1"],
        "stripe-v2/acct_1/test": RETENTION_S["v2"],
    }


@pytest.mark.parametrize("colour", [each for each in EVERY if each.blocking], ids=str)
def test_reading_takes_no_key_and_no_entry(shop: Shop, double: StripeDouble) -> None:
    with shop.open() as till:
        assert till.look() == "pi_0"

    assert double.received[0].values("idempotency-key") == []
    assert shop.journal.history(ReadHistory()) == ()
