"""Which options the documentation finds for an operation, compared with what requests get."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.server.docs.operations import ANY, Applies, Endpoint, applies, rows, unreachable
from replayfloor.server.docs.templates import NOTHING, Known
from replayfloor.server.policy import Options
from replayfloor.server.routes import Overrides, Route
from server.docs_settings import settings_of, some_examples


def _applies(
    path: str, routes: Sequence[Route], known: Known = NOTHING
) -> list[tuple[str, bool | None, str | None]]:
    made = settings_of(routes=routes, methods=())
    return [_brief(each) for each in applies(made, Endpoint("POST", path), known)]


def _brief(each: Applies) -> tuple[str, bool | None, str | None]:
    if each.options is None:
        return (each.only, None, None)
    return (each.only, each.options.required, each.options.effects.value)


ALL_A = [("", True, "external")]
NOT_PROTECTED = [("", None, None)]


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/pay", "/pay"),
        ("/pay/{id}", "/pay/{payment_id}"),
        ("/pay/{id:int}", "/pay/{id:int}"),
        ("/pay/{id:int}", "/pay/{id}"),
        ("/pay/{id:int}", "/pay/{id:float}"),
        ("/pay/{id:uuid}", "/pay/{id}"),
        ("/files/{rest:path}", "/files/{rest:path}"),
        ("/files/{name}", "/files/{rest:path}"),
        ("/files/{a}/{b}", "/{rest:path}"),
        ("/pay/{payment-id}", "/pay/{id}"),
        ("/a.b/{x}", "/a.b/{x}"),
    ],
)
def test_a_route_that_has_every_path_of_an_operation_applies_to_it(path: str, pattern: str) -> None:
    assert _applies(path, [Route("POST", pattern, required=True)]) == ALL_A


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/pay", "/pay/"),
        ("/pay", "/payments"),
        ("/pay/{id}", "/pay"),
        ("/pay/{id}", "/pay/{id}/refunds"),
        ("/pay/{id:int}", "/pay/{id:uuid}"),
        ("/pay/{id:int}", "/pay/last"),
        ("/pay/x/{id}", "/pay/y/{id}"),
        ("/axb/{x}", "/a.b/{x}"),
    ],
)
def test_a_route_that_has_none_of_its_paths_does_not(path: str, pattern: str) -> None:
    assert _applies(path, [Route("POST", pattern, required=True)]) == NOT_PROTECTED


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/pay/{id}", "/pay/1"),
        ("/pay/{id}", "/pay/{id:int}"),
        ("/pay/{id:float}", "/pay/{id:int}"),
        ("/files/{rest:path}", "/files/{name}"),
        ("/files/{rest:path}", "/files/a/b"),
        ("/{tenant}/pay", "/acme/{what}"),
        ("/{tenant}/{what}/1", "/acme/{x}/{n:int}"),
    ],
)
def test_a_route_that_has_some_of_its_paths_applies_to_those(path: str, pattern: str) -> None:
    assert _applies(path, [Route("POST", pattern, required=True)]) == [
        (pattern, True, "external"),
        *NOT_PROTECTED,
    ]


def test_what_a_document_says_of_a_parameter_decides_too() -> None:
    routes = [Route("POST", "/pay/{id:int}", required=True)]

    assert _applies("/pay/{id}", routes, known={"id": "int"}) == ALL_A
    assert _applies("/pay/{id}", routes, known={"id": "uuid"}) == NOT_PROTECTED
    assert _applies("/pay/{id}", routes, known={"id": ["7", "8"]}) == ALL_A
    assert _applies("/pay/{id}", routes, known={"id": ["x", "y"]}) == NOT_PROTECTED
    assert _applies("/pay/{id}", routes, known={"id": ["x", "7"]}) == [
        ("/pay/{id:int}", True, "external"),
        *NOT_PROTECTED,
    ]


def test_the_first_route_counts_and_the_others_are_not_named() -> None:
    routes = [
        Route("PUT", "/pay/{id}", effects="repeatable"),
        Route("POST", "/pay/1", required=True),
        Route("*", "/pay/1", effects="atomic"),
        Route("*", "/pay/{id}", effects="atomic"),
        Route("POST", "/pay/{id}", required=True),
    ]

    assert _applies("/pay/{id}", routes) == [("/pay/1", True, "external"), ("", False, "atomic")]


def test_an_exception_from_a_special_case_is_kept_if_it_says_what_the_general_case_says() -> None:
    routes = [
        Route("POST", "/pay/1", effects="atomic"),
        Route("POST", "/pay/{id:int}", required=True),
        Route("POST", "/pay/2.5", effects="atomic"),
        Route("POST", "/pay/{id}", effects="atomic"),
    ]

    assert _applies("/pay/{id}", routes) == [
        ("/pay/1", False, "atomic"),
        ("/pay/{id:int}", True, "external"),
        ("", False, "atomic"),
    ]


def test_a_decorator_comes_after_the_routes_and_before_the_methods() -> None:
    made = settings_of(routes=[Route("POST", "/pay/1", required=True)], methods=["POST"])
    decorated = Overrides(effects="repeatable")

    def found(path: str, overrides: Overrides | None) -> list[tuple[str, bool | None, str | None]]:
        return [_brief(each) for each in applies(made, Endpoint("POST", path, overrides))]

    assert found("/pay/1", decorated) == ALL_A
    assert found("/x", decorated) == [("", False, "repeatable")]
    assert found("/x", None) == [("", False, "external")]


SEGMENTS = st.sampled_from(("a", "1", "{x}", "{x:int}", "{x:float}", "{x:uuid}", "7309", "b.c"))
PATHS = st.lists(SEGMENTS, min_size=1, max_size=2).map(
    lambda segments: "/" + "/".join(each.replace("x", f"x{n}") for n, each in enumerate(segments))
) | st.sampled_from(("/{all:path}", "/a/{all:path}", "/1"))
VALUES = ("a", "1", "2", "1.5", "zz", "b.c", "8e03978e-40d5-43e8-bc93-6894a57f9324", "7309")


@some_examples(100)
@given(PATHS, st.lists(PATHS, max_size=3, unique=True), st.booleans())
def test_what_is_said_of_a_path_is_what_a_request_gets(
    path: str, patterns: list[str], by_method: bool
) -> None:
    """Every path of the operation that can be made of VALUES is looked up in both ways."""
    routes = [Route("POST", each, lease_s=number) for number, each in enumerate(patterns, start=1)]
    made = settings_of(routes=routes, methods=["POST"] if by_method else [])
    *special, general = applies(made, Endpoint("POST", path))

    def said(request: str) -> Options | None:
        for each in special:
            if Route("POST", each.only).matches("POST", request):
                return each.options
        return general.options

    for one in VALUES:
        for other in VALUES:
            request = "/" + "/".join((one, other)[: path.count("/")])
            if Route("POST", path).matches("POST", request):
                assert said(request) == made.routes.find("POST", request), request


# -- the list ------------------------------------------------------------------------------------


def test_without_operations_the_list_has_the_routes_and_the_methods() -> None:
    made = settings_of(
        routes=[Route("PUT", "/a", required=True), Route("*", "/b")], methods=["POST", "PATCH"]
    )

    assert [(row.methods, row.path) for row in rows(made)] == [
        ("PUT", "/a"),
        ("*", "/b"),
        ("PATCH, POST", ANY),
    ]


def test_operations_stand_in_for_the_routes_that_they_serve() -> None:
    made = settings_of(
        routes=[
            Route("POST", "/pay/{id:int}", required=True),
            Route("POST", "/admin/{rest:path}", effects="atomic"),
        ],
        methods=[],
    )
    endpoints = [
        Endpoint("POST", "/pay/{payment}"),
        Endpoint("GET", "/pay/{payment}"),
        Endpoint("POST", "/admin/users"),
        Endpoint("put", "/x", Overrides(required=True)),
    ]

    assert [(row.methods, row.path, row.within) for row in rows(made, endpoints)] == [
        ("POST", "/pay/{id:int}", "/pay/{payment}"),
        ("POST", "/admin/users", ""),
        ("PUT", "/x", ""),
        ("POST", "/admin/{rest:path}", ""),
    ]


def test_a_route_that_no_request_reaches_is_found() -> None:
    routes = [
        Route("*", "/a/{x}"),
        Route("POST", "/a/1"),
        Route("POST", "/b"),
        Route("*", "/b"),
        Route("POST", "/{rest:path}"),
    ]
    made = settings_of(routes=routes)

    assert unreachable(made) == (routes[1],)
    assert [row.path for row in rows(made)] == ["/a/{x}", "/b", "/b", "/{rest:path}", ANY]


def test_a_convertor_of_the_users_own_is_compared_as_far_as_it_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from starlette import convertors

    class Known(convertors.StringConvertor):
        regex = "[0-9]{4}-[0-9]{2}-[0-9]{2}"

    class Unknown(convertors.StringConvertor):
        regex = "iban:[A-Z]{2}[0-9]{9}"

    monkeypatch.setitem(convertors.CONVERTOR_TYPES, "day", Known())
    monkeypatch.setitem(convertors.CONVERTOR_TYPES, "iban", Unknown())

    assert _applies("/d/{x:day}", [Route("POST", "/d/{y}", required=True)]) == ALL_A
    assert _applies("/i/{x:iban}", [Route("POST", "/i/{x:iban}", required=True)]) == ALL_A
    assert re.fullmatch(r"/d/\{x\}", Endpoint("POST", "/d/{x:day}").path_format)
