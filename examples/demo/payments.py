"""Reads a file of payments, one JSON object a line, and says which line is wrong and why."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from settings import PAYMENTS_MAX

ID_LENGTH_MAX = 100
AMOUNT_MAX = 10**15
"""Within what every JSON parser keeps exact, and a bigint column holds."""
TEXT_LENGTH_MAX = 1000


class PaymentsInvalid(Exception):
    """The file cannot be used; the message names the line."""


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment; `amount_minor` is in the smallest unit of the currency."""

    id: str
    amount_minor: int
    currency: str
    customer: str = ""
    description: str = ""
    method: str = ""

    def as_json(self) -> dict[str, object]:
        """Return the body of the request."""
        return asdict(self)


def load_payments(path: Path) -> list[Payment]:
    """Return the payments of a file in its order. Raises PaymentsInvalid."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PaymentsInvalid(f"{path} cannot be read: {error}") from error
    payments: dict[str, Payment] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            payment = _parse(line)
            if payment.id in payments:
                raise ValueError(f"the id {payment.id!r} was used before")
        except ValueError as error:
            raise PaymentsInvalid(f"{path}, line {number}: {error}") from error
        payments[payment.id] = payment
    if not payments:
        raise PaymentsInvalid(f"{path} holds no payment")
    if len(payments) > PAYMENTS_MAX:
        raise PaymentsInvalid(f"{path} holds {len(payments)} payments; at most {PAYMENTS_MAX}")
    return list(payments.values())


def _parse(line: str) -> Payment:
    try:
        content: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError("each line has to be a JSON object")
    currency = _text(content, "currency", 3)
    if not (len(currency) == 3 and currency.isascii() and currency.isupper()):
        raise ValueError('"currency" has to be a code of three capital letters, such as "EUR"')
    amount = content.get("amount_minor")
    if type(amount) is not int or not 0 < amount <= AMOUNT_MAX:
        raise ValueError(
            '"amount_minor" has to be a positive whole number of the smallest unit, '
            f"it is {json.dumps(amount)}"
        )
    return Payment(
        id=_id(content),
        amount_minor=amount,
        currency=currency,
        customer=_text(content, "customer", TEXT_LENGTH_MAX, default=""),
        description=_text(content, "description", TEXT_LENGTH_MAX, default=""),
        method=_text(content, "method", TEXT_LENGTH_MAX, default=""),
    )


def _id(content: dict[str, object]) -> str:
    value = _text(content, "id", ID_LENGTH_MAX)
    if not (value.isascii() and value.isprintable() and value.strip()):
        raise ValueError('"id" has to be printable ASCII, such as "inv-2026-00117"')
    return value


def _text(
    content: dict[str, object], name: str, length_max: int, *, default: str | None = None
) -> str:
    value = content.get(name, default)
    if value is None and name not in content:
        raise ValueError(f'"{name}" is missing')
    if not isinstance(value, str) or len(value) > length_max:
        raise ValueError(f'"{name}" has to be a string of at most {length_max} characters')
    return value
