"""The decorator itself: what it accepts, what it keeps of a function, and when it lets it run."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import copy_context
from dataclasses import fields
from typing import cast

import pytest
from starlette.concurrency import run_in_threadpool

from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.server.decorator import IdempotentOptions, Lookup, idempotent, mounted
from replayfloor.server.decorator_mark import is_decorated, overrides_of
from replayfloor.server.routes import Overrides

UNSERVED = "no middleware serves this call.*__wrapped__"
UNFOUND = "did not find it behind this request"


@idempotent(required=True)
def pay(amount: int, *, currency: str = "EUR") -> str:
    """Pay."""
    return f"{amount} {currency}"


@idempotent(required=True)
async def pay_async(amount: int) -> str:
    """Pay, and wait."""
    return f"{amount}"


def found(overrides: Overrides | None) -> Lookup:
    """Return the lookup of a request whose endpoint was looked for."""
    lookup = Lookup(lambda: overrides)
    lookup()
    return lookup


def test_a_decorated_endpoint_without_a_middleware_does_not_run() -> None:
    with pytest.raises(UsageError, match=f"^pay is decorated.*{UNSERVED}"):
        pay(1)


@pytest.mark.anyio
async def test_an_asynchronous_one_does_not_run_either() -> None:
    with pytest.raises(UsageError, match=f"^pay_async is decorated.*{UNSERVED}"):
        await pay_async(1)


@pytest.mark.anyio
async def test_within_a_middleware_it_runs_with_its_arguments_and_its_result() -> None:
    with mounted():
        assert pay(1, currency="USD") == "1 USD"
        assert await pay_async(2) == "2"


def test_the_function_itself_stays_callable_for_its_unit_test() -> None:
    undecorated = cast("Callable[[int], str]", pay.__wrapped__)  # type: ignore[attr-defined]

    assert undecorated(1) == "1 EUR"


@pytest.mark.anyio
async def test_after_the_request_it_does_not_run_not_even_in_a_task_that_outlives_it() -> None:
    over = asyncio.Event()

    async def left_behind() -> str:
        assert pay(1) == "1 EUR"
        over_soon.set()
        await over.wait()
        return pay(1)

    over_soon = asyncio.Event()
    with mounted():
        task = asyncio.create_task(left_behind())
        await over_soon.wait()
    over.set()

    with pytest.raises(UsageError, match=UNSERVED):
        await task
    with pytest.raises(UsageError, match=UNSERVED):
        pay(1)


def test_after_an_exception_it_does_not_run_any_more() -> None:
    with pytest.raises(ZeroDivisionError), mounted():
        raise ZeroDivisionError
    with pytest.raises(UsageError, match=UNSERVED):
        pay(1)


@pytest.mark.anyio
async def test_the_request_reaches_the_threads_that_frameworks_use() -> None:
    answers: list[str] = []
    with mounted():
        context = copy_context()
        answers.append(await run_in_threadpool(pay, 1))
        answers.append(await asyncio.to_thread(pay, 2))
        thread = threading.Thread(target=lambda: answers.append(context.run(pay, 3)))
        thread.start()
        thread.join()

    assert answers == ["1 EUR", "2 EUR", "3 EUR"]


def test_a_request_inside_another_ends_alone() -> None:
    with mounted(found(None)):
        with mounted():
            assert pay(1) == "1 EUR"
        with pytest.raises(UsageError, match=UNFOUND):
            pay(1)


def test_it_runs_if_its_own_options_are_those_that_were_found() -> None:
    with mounted(found(Overrides(required=True))):
        assert pay(1) == "1 EUR"


@pytest.mark.parametrize("other", [None, Overrides(), Overrides(required=False)])
def test_it_does_not_run_where_other_options_were_found(other: Overrides | None) -> None:
    with mounted(found(other)), pytest.raises(UsageError, match=f"^pay is decorated.*{UNFOUND}"):
        pay(1)


def test_it_runs_where_a_route_of_the_middleware_decided_so_that_nobody_looked() -> None:
    with mounted(Lookup(lambda: None)):
        assert pay(1) == "1 EUR"


def test_it_runs_for_a_safe_method_which_has_no_options() -> None:
    lookup = Lookup(None)

    assert lookup() is None
    with mounted(lookup):
        assert pay(1) == "1 EUR"


def test_a_lookup_asks_once() -> None:
    asked: list[int] = []
    lookup = Lookup(lambda: asked.append(1))

    assert (lookup(), lookup(), asked) == (None, None, [1])


def test_what_frameworks_read_of_a_function_is_kept() -> None:
    assert (pay.__name__, pay.__doc__, pay.__module__) == ("pay", "Pay.", __name__)
    assert inspect.iscoroutinefunction(pay_async)
    assert not inspect.iscoroutinefunction(pay)
    # This module's annotations are strings; the decorator's module does not know their names.
    signature = inspect.signature(pay)
    assert list(signature.parameters) == ["amount", "currency"]
    assert signature.parameters["amount"].annotation is int
    assert signature.return_annotation is str


def test_an_annotation_that_cannot_be_resolved_stays_as_it_is_written() -> None:
    def endpoint(body: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Take a type that only a type checker imports."""

    decorated = idempotent(endpoint)  # pyright: ignore[reportUnknownVariableType]

    assert inspect.signature(decorated).parameters["body"].annotation == "Nowhere"


def test_attributes_of_other_decorators_are_kept_in_either_order() -> None:
    def exempt(function: Callable[[], None]) -> Callable[[], None]:
        @functools.wraps(function)
        def wrapped() -> None:
            function()

        wrapped.csrf_exempt = True  # type: ignore[attr-defined]
        return wrapped

    def endpoint() -> None:
        """Do nothing."""

    outside = idempotent(required=True)(exempt(endpoint))
    inside = exempt(idempotent(required=True)(endpoint))

    for decorated in (outside, inside):
        assert vars(decorated)["csrf_exempt"] is True
        assert overrides_of(decorated, "POST") == Overrides(required=True)


def test_without_parentheses_every_option_is_the_middlewares() -> None:
    @idempotent
    def endpoint() -> None:
        """Do nothing."""

    assert overrides_of(endpoint, "POST") == Overrides()


def test_the_options_are_those_of_a_route() -> None:
    options: IdempotentOptions = {
        "required": True,
        "effects": "repeatable",
        "ambiguous": "release",
        "store": [403],
        "free": {409},
        "sensitive": True,
        "after_expiry": "execute",
        "lease_s": 5.0,
        "wait_for_s": 1.0,
        "fingerprint": "body",
        "exclude": ["/sent_at"],
    }

    assert set(options) == set(IdempotentOptions.__annotations__)
    assert set(options) == {each.name for each in fields(Overrides)}
    assert overrides_of(idempotent(**options)(lambda: None), "POST") == Overrides(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"effects": "exactly-once"}, "effects='exactly-once'"),
        ({"lease_s": 0}, "lease_s must be"),
        ({"free": [200]}, "a second time"),
        ({"exclude": ["sent_at"]}, "no JSON pointer"),
        ({"methods": ["PUT"]}, "unknown option methods; there are after_expiry, "),
    ],
)
def test_options_that_cannot_be_honoured_are_refused_at_the_decoration(
    options: IdempotentOptions, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        idempotent(**options)


class Resource:
    """A class-based view, as far as they are the same."""

    def dispatch(self) -> str:
        """Serve any method."""
        return "dispatched"

    def post(self) -> str:
        """Serve POST."""
        return "posted"


def test_a_decorated_class_is_guarded_for_all_its_methods() -> None:
    @idempotent(required=True)
    class Decorated(Resource):
        """Nothing else."""

    assert isinstance(Decorated, type)
    assert [overrides_of(Decorated, method) for method in ("POST", "PUT")] == [
        Overrides(required=True)
    ] * 2
    with pytest.raises(UsageError, match=r"Decorated is decorated"):
        Decorated().dispatch()
    with mounted():
        assert Decorated().dispatch() == "dispatched"
    assert Resource().dispatch() == "dispatched"
    assert not is_decorated(Resource)


def test_a_decorated_method_of_a_class_is_guarded_alone() -> None:
    class Decorated(Resource):
        """POST only."""

        post = idempotent(required=True)(Resource.post)

    assert overrides_of(Decorated, "POST") == Overrides(required=True)
    assert overrides_of(Decorated, "PUT") is None
    assert Decorated().dispatch() == "dispatched"
    with pytest.raises(UsageError, match=UNSERVED):
        Decorated().post()


def test_a_second_decoration_is_refused() -> None:
    def endpoint() -> None:
        """Do nothing."""

    class Method(Resource):
        """Decorated once already."""

        post = idempotent(Resource.post)

    for twice in (
        idempotent(required=True)(endpoint),
        functools.partial(idempotent(endpoint)),
        functools.wraps(idempotent(endpoint))(lambda: None),
        idempotent(required=True)(functools.partial(endpoint)),
        Method,
    ):
        with pytest.raises(ConfigurationError, match="already"):
            idempotent(required=True)(twice)


def test_what_is_no_endpoint_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'required' is no function"):
        idempotent("required")  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match=r"class int has no method dispatch or"):
        idempotent(int)


@pytest.mark.anyio
async def test_partials_and_instances_are_decorated_as_the_function_that_they_call() -> None:
    class Instance:
        """A callable object."""

        async def __call__(self, amount: int) -> int:
            """Pay."""
            return amount

    async def endpoint(currency: str, amount: int) -> int:
        return amount

    for decorated in (idempotent(functools.partial(endpoint, "EUR")), idempotent(Instance())):
        assert inspect.iscoroutinefunction(decorated)
        asynchronous = cast("Callable[..., Awaitable[int]]", decorated)
        with pytest.raises(UsageError, match=UNSERVED):
            await asynchronous(amount=1)
        with mounted():
            assert await asynchronous(amount=1) == 1


@pytest.mark.anyio
async def test_a_generator_is_guarded_when_it_is_made() -> None:
    @idempotent
    async def stream() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(UsageError, match=UNSERVED):
        stream()
    with mounted():
        assert [each async for each in stream()] == [1]
