"""How the values that a request makes by the dozen are declared. No value, no decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class of values that are compared by their fields and never changed.

    What `dataclass(frozen=True, slots=True)` makes is six times as slow to make: it sets each
    field by a call of `object.__setattr__`, and one request has some sixty of them. So here it is
    the type checkers that keep a field from being set, and they look at all of this package and
    its tests.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
