"""PayPal's signatures, by a function of the application. What it is asked, and when it is not.

PayPal signs with a key of its own, and answers whether a delivery is one of its own; that call
needs the application's credentials and its id of the hook, so the application makes it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.values import frozen
from replayfloor.server.webhooks.delivery import Delivery, InvalidSignature
from replayfloor.server.webhooks.verify_parts import signature_line

_CERT_NAME: Final = "PayPal-Cert-Url"

_CERT_URL: Final = re.compile(r"https://(?:[a-z0-9-]+\.)*paypal\.com/[A-Za-z0-9._~/-]+")
"""No port, no user, no query and no escapes: what PayPal sends has none, and each of them is a way
to write an address whose host one reader takes for PayPal's and another does not."""


@frozen
class PayPalTransmission:
    """What PayPal's verification asks for, all but the application's id of the hook.

    Attributes:
        transmission_id, transmission_time, cert_url, auth_algo, transmission_sig: the headers of
            these names. `cert_url` is one of PayPal's, by https.
        webhook_event: the body as it was received, which is what is signed. Put it into the request
            as it is: JSON that was read and written again is not what was signed.
    """

    transmission_id: str
    transmission_time: str
    cert_url: str
    auth_algo: str
    transmission_sig: str
    webhook_event: bytes


@dataclass(frozen=True, slots=True, eq=False)
class PayPalVerification:
    """Verifies PayPal's deliveries by asking `verify`, once it is known what to ask.

        def ask_paypal(transmission: PayPalTransmission) -> bool:
            ...  # POST /v1/notifications/verify-webhook-signature
            return answer["verification_status"] == "SUCCESS"

        PayPalVerification(ask_paypal)

    A delivery without one of the headers, or whose certificate is not at PayPal, is refused without
    asking. What `verify` raises passes through: that PayPal cannot be asked is no word about the
    delivery, which is then answered as a failure and delivered again.

    Args:
        verify: returns True or False, and nothing that only counts as one of them ("FAILURE" would
            count as true). It is a plain function and may block: it is called in a thread, or in
            the thread of the request. Give it a time limit below that of the delivery.

    Raises ConfigurationError, also when called if `verify` returns anything else.
    """

    verify: Callable[[PayPalTransmission], bool] = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be called, and what would return a coroutine instead of a bool."""
        if not callable(cast("object", self.verify)) or inspect.iscoroutinefunction(self.verify):
            raise ConfigurationError(
                "PayPalVerification: verify is a plain function (not async) of a "
                "PayPalTransmission that returns a bool"
            )

    def __call__(self, delivery: Delivery) -> None:
        """Return if PayPal says that the delivery is its own; raise InvalidSignature if not."""
        verdict = cast("object", self.verify(_transmission(delivery)))
        if verdict is False:
            raise InvalidSignature(
                "PayPal-Transmission-Sig: not confirmed: compare the id of the hook with PayPal's, "
                "and pass the body as it was received"
            )
        if verdict is not True:
            raise ConfigurationError(
                "PayPalVerification: verify returned "
                f"{type(verdict).__name__}: expected True or False"
            )


def _transmission(delivery: Delivery) -> PayPalTransmission:
    cert_url = signature_line(delivery, _CERT_NAME)
    if not _CERT_URL.fullmatch(cert_url):
        raise InvalidSignature(
            f"{_CERT_NAME}: expected an https address at paypal.com or a subdomain of it: a "
            "certificate from elsewhere says nothing of PayPal"
        )
    return PayPalTransmission(
        transmission_id=signature_line(delivery, "PayPal-Transmission-Id"),
        transmission_time=signature_line(delivery, "PayPal-Transmission-Time"),
        cert_url=cert_url,
        auth_algo=signature_line(delivery, "PayPal-Auth-Algo"),
        transmission_sig=signature_line(delivery, "PayPal-Transmission-Sig"),
        webhook_event=delivery.body,
    )
