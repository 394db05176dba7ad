"""How a call makes its larger values: as their classes do, in half the time. No value, no decision.

To call a class with keywords, Python first makes a dictionary of them, and another for `__init__`;
to call a function it makes none. And a value that differs from another in some fields is not worth
naming all the others: those are copied. Both are written out here for a class once, when it is
imported, as `dataclass` writes `__init__`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

P = ParamSpec("P")
T = TypeVar("T", bound="DataclassInstance")


def maker(cls: Callable[P, T]) -> Callable[P, T]:
    """Return a function that makes the values of a `frozen` class from what the class takes.

    For up to 15 keywords: Python makes a dictionary of more of them even for a function.
    """
    made = cast("type[T]", cls)
    names: dict[str, object] = {}
    ordered, named = list[str](), list[str]()
    for field in fields(made):
        default = ""
        if field.default is not MISSING:
            default = f"=_default_{field.name}"
            names[f"_default_{field.name}"] = field.default
        (named if field.kw_only else ordered).append(field.name + default)
    taken = [*ordered, "*", *named] if named else ordered
    sets = [f"made.{field.name} = {field.name}" for field in fields(made)]
    return cast("Callable[P, T]", _function(made, names, taken, sets))


def changer(cls: type[T], *changed: str) -> Callable[..., T]:
    """Return a function of a value of a `frozen` class, and of these fields by name: a copy of the
    value in which they are what it was given. All of them have to be given, and at most 15.
    """
    names = [field.name for field in fields(cls)]
    assert set(changed) <= set(names), changed
    sets = [f"made.{name} = {name if name in changed else f'value.{name}'}" for name in names]
    return cast("Callable[..., T]", _function(cls, {}, ["value", "*", *changed], sets))


def _function(
    cls: type[object], names: dict[str, object], taken: list[str], sets: list[str]
) -> object:
    names |= {"_class": cls, "_new": object.__new__}
    body = "\n    ".join(["made = _new(_class)", *sets, "return made"])
    exec(f"def make({', '.join(taken)}):\n    {body}", names)
    return names["make"]
