"""Which requests are protected, and with which options."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.key import KeyRules
from replayfloor.server.body_rules import BodyRule
from replayfloor.server.policy import Ambiguous, Effects, Options
from replayfloor.server.routes import Route, RouteTable

DEFAULTS = Options(lease_ms=5, wait_ms=6, cache_ms=7, key_rules=KeyRules(accept_unquoted=True))


def _find(routes: list[Route], method: str, path: str) -> Options | None:
    return RouteTable(routes, ("POST", "PATCH"), DEFAULTS).find(method, path)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/pay", "/pay", True),
        ("/pay", "/pay/", False),
        ("/pay", "/payments", False),
        ("/pay", "/x/pay", False),
        ("/pay/{id}", "/pay/1", True),
        ("/pay/{id}", "/pay/", False),
        ("/pay/{id}", "/pay/1/refund", False),
        ("/pay/{id}/refund", "/pay/a b/refund", True),
        ("/pay/{id:int}", "/pay/1", True),
        ("/pay/{id:int}", "/pay/x", False),
        ("/files/{rest:path}", "/files/a/b/c", True),
        ("/a.b", "/axb", False),
    ],
)
def test_a_pattern_matches_whole_paths(pattern: str, path: str, matches: bool) -> None:
    assert Route("POST", pattern).matches("POST", path) is matches


def test_a_route_is_of_one_method_or_of_every_method() -> None:
    assert Route("post", "/pay").matches("POST", "/pay")
    assert not Route("POST", "/pay").matches("PATCH", "/pay")
    assert all(Route("*", "/pay").matches(method, "/pay") for method in ("GET", "PUT", "POST"))


def test_what_a_route_leaves_open_comes_from_the_middleware() -> None:
    defaults = Options(
        required=True, effects=Effects.ATOMIC, ambiguous=Ambiguous.RELEASE, lease_ms=5
    )

    assert Route("POST", "/pay").apply(defaults) == defaults


def test_what_a_route_says_replaces_the_middlewares_option_and_nothing_else() -> None:
    route = Route("POST", "/pay", required=True, effects="atomic", ambiguous="release")

    assert route.apply(DEFAULTS) == replace(
        DEFAULTS, required=True, effects=Effects.ATOMIC, ambiguous=Ambiguous.RELEASE
    )


CHANGES: list[tuple[dict[str, object], dict[str, object]]] = [
    ({"required": True}, {"required": True}),
    ({"effects": "repeatable"}, {"effects": Effects.REPEATABLE}),
    ({"store": [503, 429]}, {"store": frozenset({429, 503})}),
    ({"free": {404}}, {"free": frozenset({404})}),
    ({"store": ()}, {"store": frozenset[int]()}),
    ({"sensitive": True}, {"sensitive": True}),
    ({"lease_s": 2.5}, {"lease_ms": 2500}),
    ({"wait_for_s": 0}, {"wait_ms": 0}),
    ({"fingerprint": "off"}, {"body_rule": BodyRule(counts=False)}),
    ({"exclude": ["/at"]}, {"body_rule": BodyRule(exclude=(("at",),))}),
]


@pytest.mark.parametrize(("said", "changed"), CHANGES)
def test_each_option_of_a_route_changes_that_option_and_no_other(
    said: dict[str, object], changed: dict[str, object]
) -> None:
    route = Route("POST", "/pay", **said)  # type: ignore[arg-type]
    defaults = replace(DEFAULTS, store=frozenset({425}))

    assert route.apply(defaults) == replace(defaults, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"store": "503"}, "store"),
        ({"store": [503.0]}, "store"),
        ({"free": [200]}, "freed after a success"),
        ({"free": [1000]}, "1000"),
        ({"lease_s": 0}, "lease_s"),
        ({"lease_s": math.nan}, "lease_s"),
        ({"wait_for_s": -1}, "wait_for_s"),
        ({"fingerprint": "off", "exclude": ["/a"]}, "exclude"),
        ({"exclude": "/a"}, "exclude"),
    ],
)
def test_a_route_with_an_option_that_cannot_be_honoured_is_refused(
    said: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Route("POST", "/pay", **said)  # type: ignore[arg-type]


def test_statuses_that_contradict_the_middlewares_are_refused_where_they_meet() -> None:
    route = Route("POST", "/pay", free=[404])

    with pytest.raises(ConfigurationError, match="404"):
        RouteTable([route], (), replace(DEFAULTS, store=frozenset({404})))


def test_a_route_can_switch_off_what_the_middleware_requires() -> None:
    route = Route("POST", "/pay", required=False, effects="external")
    options = route.apply(Options(required=True, effects=Effects.ATOMIC))

    assert (options.required, options.effects) == (False, Effects.EXTERNAL)


def test_the_first_route_that_matches_counts() -> None:
    routes = [Route("POST", "/pay/{id}", required=True), Route("POST", "/pay/1", effects="atomic")]
    found = _find(routes, "POST", "/pay/1")

    assert found is not None
    assert (found.required, found.effects) == (True, Effects.EXTERNAL)


def test_without_a_route_the_method_decides() -> None:
    assert _find([], "POST", "/x") == _find([], "PATCH", "/y") == DEFAULTS
    assert [_find([], method, "/x") for method in ("GET", "PUT", "DELETE", "HEAD")] == [None] * 4


def test_a_route_protects_a_method_that_the_defaults_do_not() -> None:
    routes = [Route("PUT", "/pay")]

    assert _find(routes, "PUT", "/pay") == DEFAULTS
    assert _find(routes, "PUT", "/other") is None


@pytest.mark.parametrize("pattern", ["", "pay", "*"])
def test_a_pattern_that_is_no_path_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="must start with '/'"):
        Route("POST", pattern)


@pytest.mark.parametrize("pattern", ["/{id:nothing}", "/{id}/{id}"])
def test_a_pattern_that_starlette_does_not_take_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="path_pattern"):
        Route("POST", pattern)


def test_unknown_values_are_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(ConfigurationError, match="'atomic' or 'external' or 'repeatable'"):
        Route("POST", "/pay", effects="exactly-once")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'store' or 'release'"):
        Route("POST", "/pay", ambiguous="retry")  # type: ignore[arg-type]
