"""PayPal's deliveries: what is asked, what is refused unasked, and whose failure is whose."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.webhooks.delivery import InvalidSignature
from replayfloor.server.webhooks.verify import PayPalTransmission, PayPalVerification
from webhooks.signing import Headers, delivery, paypal

BODY = b'{"id":"WH-1", "amount":1.10}'


class Asked:
    """What stands for the application's call to PayPal: it notes what it is asked."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.seen: list[PayPalTransmission] = []

    def __call__(self, transmission: PayPalTransmission) -> bool:
        self.seen.append(transmission)
        return self.answer  # type: ignore[return-value]


def with_header(name: bytes, *values: bytes) -> Headers:
    """Return PayPal's headers with these lines of one of them."""
    kept = tuple(pair for pair in paypal() if pair[0] != name)
    return (*kept, *((name, value) for value in values))


def refused(headers: Headers, says: str) -> None:
    """Expect a refusal without a question."""
    asked = Asked(True)
    with pytest.raises(InvalidSignature, match=says):
        PayPalVerification(asked)(delivery(headers, BODY))
    assert asked.seen == []


def test_paypal_is_asked_with_all_that_it_sent_and_the_body_as_received() -> None:
    asked = Asked(True)

    PayPalVerification(asked)(delivery(paypal(), BODY))

    sent = {name: value.decode() for name, value in paypal()}
    assert asked.seen == [
        PayPalTransmission(
            transmission_id=sent[b"paypal-transmission-id"],
            transmission_time=sent[b"paypal-transmission-time"],
            cert_url=sent[b"paypal-cert-url"],
            auth_algo=sent[b"paypal-auth-algo"],
            transmission_sig=sent[b"paypal-transmission-sig"],
            webhook_event=BODY,
        )
    ]


def test_what_paypal_does_not_confirm_is_refused() -> None:
    with pytest.raises(InvalidSignature, match="not confirmed"):
        PayPalVerification(Asked(False))(delivery(paypal(), BODY))


@pytest.mark.parametrize("answer", ["FAILURE", "SUCCESS", 1, 0, None, "", {"ok": True}], ids=repr)
def test_an_answer_that_is_no_bool_is_a_mistake_and_no_verdict(answer: object) -> None:
    """The text "FAILURE" counts as true."""
    with pytest.raises(ConfigurationError, match=f"returned {type(answer).__name__}"):
        PayPalVerification(Asked(answer))(delivery(paypal(), BODY))


@pytest.mark.parametrize("error", [TimeoutError("no answer"), KeyError("x"), RuntimeError()])
def test_what_the_applications_call_raises_passes_through(error: Exception) -> None:
    def broken(_: PayPalTransmission) -> bool:
        raise error

    with pytest.raises(type(error)) as told:
        PayPalVerification(broken)(delivery(paypal(), BODY))
    assert told.value is error


@pytest.mark.parametrize("name", [name for name, _ in paypal()], ids=bytes.decode)
def test_without_one_of_the_headers_paypal_is_not_asked(name: bytes) -> None:
    refused(with_header(name), "no header")
    refused(with_header(name, b""), "empty")
    refused(with_header(name, b"a", b"b"), "2 times")
    refused(with_header(name, b"\xff"), "visible ASCII")


@pytest.mark.parametrize(
    "url",
    [
        "https://paypal.com/certs/1",
        "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594",
        "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-1",
        "https://www.paypalobjects.paypal.com/x~y_z.pem",
    ],
)
def test_a_certificate_at_paypal_is_passed_on(url: str) -> None:
    asked = Asked(True)

    PayPalVerification(asked)(delivery(with_header(b"paypal-cert-url", url.encode()), BODY))

    assert [each.cert_url for each in asked.seen] == [url]


@pytest.mark.parametrize(
    "url",
    [
        "http://api.paypal.com/c",
        "HTTPS://api.paypal.com/c",
        "//api.paypal.com/c",
        "https:api.paypal.com/c",
        "https://evilpaypal.com/c",
        "https://paypal.com.evil.example/c",
        "https://evil.example/paypal.com/c",
        "https://evil.example/https://api.paypal.com/c",
        "https://evil.example#.paypal.com/c",
        "https://evil.example?.paypal.com/c",
        "https://evil.example\\.paypal.com/c",
        "https://evil.example/.paypal.com/c",
        "https://paypal.com@evil.example/c",
        "https://user@api.paypal.com/c",
        "https://user:pw@api.paypal.com/c",
        "https://api.paypal.com:8443/c",
        "https://api.paypal.com:443/c",
        "https://api.paypal.com./c",
        "https://api.paypal.com",
        "https://api.paypal.com/",
        "https://api.paypal.com/c?to=https://evil.example",
        "https://api.paypal.com/c#x",
        "https://api.paypal.com/%2e%2e/c",
        "https://api.paypal.com/c d",
        "https://api.paypal.com\t/c",
        "https://.paypal.com/c",
        "https://api..paypal.com/c",
        "https://PAYPAL.com/c",
        "https://paypal.community/c",
        "https://paypalXcom/c",
        "file:///c",
        "javascript:https://api.paypal.com/c",
    ],
)
def test_a_certificate_elsewhere_is_refused_without_asking(url: str) -> None:
    refused(with_header(b"paypal-cert-url", url.encode()), "PayPal-Cert-Url")


@given(pairs=st.lists(st.tuples(st.sampled_from(paypal()), st.binary(max_size=40)), max_size=7))
@settings(max_examples=40, deadline=None)
def test_garbage_is_refused_without_asking(
    pairs: list[tuple[tuple[bytes, bytes], bytes]],
) -> None:
    refused(tuple((pair[0], junk) for pair, junk in pairs), "PayPal-")


async def _later(_: PayPalTransmission) -> bool:
    return True


@pytest.mark.parametrize(
    "verify", [_later, None, True, "verify"], ids=["async", "None", "True", "a text"]
)
def test_what_could_not_answer_is_refused_at_construction(
    verify: Callable[[PayPalTransmission], bool],
) -> None:
    with pytest.raises(ConfigurationError, match="plain function"):
        PayPalVerification(verify)


def test_the_function_is_not_shown() -> None:
    """It may be a partial function that holds the application's credentials."""
    assert repr(PayPalVerification(Asked(True))) == "PayPalVerification()"
