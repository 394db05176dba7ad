"""The OpenAPI document: what is added, to which operations, and that it stays a valid document."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from openapi_spec_validator import validate

from replayfloor.core.problem import MEDIA_TYPE, TYPE_PREFIX, Problem, ProblemKind
from replayfloor.server.docs import Endpoint, add_to_openapi
from replayfloor.server.docs import facts as said
from replayfloor.server.docs.openapi_objects import EXTENSION, PROBLEM_SCHEMA
from replayfloor.server.docs.operations import applies
from replayfloor.server.docs.problems import kinds
from replayfloor.server.policy import Disposition, Options, disposition
from replayfloor.server.routes import Overrides, Route
from replayfloor.server.settings import Settings
from server.docs_documents import (
    ID,
    OK,
    added,
    document,
    key_parameters,
    large_document,
    operations,
    types_in,
)
from server.docs_settings import every_settings, settings_of, some_examples

FEW = some_examples(8)


# -- any settings --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@FEW
@given(drawn=every_settings())
def test_whatever_the_options_every_protected_operation_says_all_and_the_document_is_valid(
    version: str, drawn: Settings
) -> None:
    plain = large_document(version)
    before = copy.deepcopy(plain)
    made: Any = add_to_openapi(plain, drawn)

    assert plain == before
    assert add_to_openapi(made, drawn) == made
    validate(made)
    for method, path, operation in operations(made):
        kind = "int" if path == "/pay/{id}" else "str"
        applied = applies(drawn, Endpoint(method, path), {"id": kind})
        protected = [each.options for each in applied if each.options is not None]
        if protected:
            _says_all(operation, protected)
        else:
            assert operation == before["paths"][path][method.lower()]


def _says_all(operation: dict[str, Any], applied: list[Options]) -> None:
    (parameter,) = key_parameters(operation)
    for kind in {kind for options in applied for kind in kinds(options)}:
        response = operation["responses"][str(Problem(kind, "").status)]
        assert Problem(kind, "").type in types_in(response["content"][MEDIA_TYPE])
        assert f"`{kind.value}`" in response["description"]
        assert kind.value in response["content"][MEDIA_TYPE]["examples"]
    retention_ms = applied[0].retention_ms
    for response in operation["responses"].values():
        told = response.get("headers", {}).get("Idempotency-Key-Lifetime")
        assert (told is None) is (retention_ms is None)
    if retention_ms is not None:
        assert f"{said.seconds(retention_ms)} s" in parameter["description"]
        assert said.iso_duration(retention_ms) in json.dumps(operation[EXTENSION])


# -- what is added -------------------------------------------------------------------------------


def test_a_required_key_is_a_required_parameter_and_an_optional_one_is_not() -> None:
    for required in (True, False):
        (parameter,) = key_parameters(added(document(), required=required))

        assert (parameter["in"], parameter["required"]) == ("header", required)
        assert parameter["schema"]["type"] == "string"
        assert parameter["example"] == '"8e03978e-40d5-43e8-bc93-6894a57f9324"'


def test_the_refusals_have_their_types_and_only_those_that_can_occur() -> None:
    responses = added(document(), required=True, retention=60)["responses"]
    contents = {status: each.get("content", {}) for status, each in responses.items()}
    found = {
        status: {each.removeprefix(TYPE_PREFIX) for each in types_in(content[MEDIA_TYPE])}
        for status, content in contents.items()
        if MEDIA_TYPE in content
    }

    assert found == {
        "400": {"missing-key", "invalid-key", "key-expired"},
        "409": {"in-flight", "outcome-unknown", "answer-not-kept"},
        "413": {"body-too-large"},
        "422": {"key-reused"},
        "500": {"handler-failed"},
        "503": {"store-unavailable"},
    }
    assert "500" not in added(document(), effects="atomic")["responses"]
    assert "503" not in added(document(), on_outage="execute")["responses"]


def test_the_document_knows_every_kind_of_problem() -> None:
    made: Any = add_to_openapi(document(), settings_of())
    schema = made["components"]["schemas"][PROBLEM_SCHEMA]

    assert schema["properties"]["type"]["enum"] == [TYPE_PREFIX + kind for kind in ProblemKind]


def test_retry_after_and_link_are_headers_of_the_refusals_that_have_them() -> None:
    responses = added(document())["responses"]
    waiting = {status for status, each in responses.items() if "Retry-After" in each["headers"]}

    assert waiting == {"409", "503"}
    assert all("Link" in each["headers"] for status, each in responses.items() if status != "200")


def test_the_replay_marker_is_on_the_answers_that_can_be_replays() -> None:
    every = {str(status): OK for status in (200, 404, 401, 502)}
    cases = [
        (settings_of(), {"200", "404", "502"}),
        (settings_of(effects="atomic"), {"200", "404"}),
        (settings_of(routes=[Route("POST", "/pay", sensitive=True)]), {"500"}),
        (settings_of(store=[401], free=[404]), {"200", "401", "502"}),
    ]
    for options, expected in cases:
        made: Any = add_to_openapi(document(responses=every), options)
        responses = made["paths"]["/pay"]["post"]["responses"]
        marked = {status for status, each in responses.items() if _is_marked(each)}

        assert marked & {*every, *expected} == expected


def _is_marked(response: dict[str, Any]) -> bool:
    return "Idempotent-Replayed" in response.get("headers", {})


def test_an_answer_of_a_range_or_of_the_default_can_be_a_replay() -> None:
    responses = added(document(responses={"2XX": OK, "default": OK}), effects="atomic")["responses"]

    assert _is_marked(responses["2XX"])
    assert _is_marked(responses["default"])


def test_an_unprotected_execution_is_announced_where_it_can_happen() -> None:
    openly = added(document(), on_outage="execute")["responses"]["200"]["headers"]

    assert "Idempotency-Unprotected" in openly
    assert "Idempotency-Unprotected" not in added(document())["responses"]["200"]["headers"]


def test_the_policy_is_there_for_programs() -> None:
    route = Route("POST", "/pay", required=True, effects="atomic", exclude=["/sent_at"], free=[422])
    policy = added(document(), routes=[route], retention=90.5, key_pattern="[a-f]+")[EXTENSION]

    assert policy["protected"] is True
    assert policy["required"] is True
    assert (policy["effects"], policy["orphan"], policy["raised"]) == (
        "atomic",
        "taken-over",
        "freed",
    )
    assert policy["fingerprint"] == {"body": "meaning", "exclude": ["/sent_at"]}
    assert (policy["retention_s"], policy["retention"]) == (90.5, "PT1M30.5S")
    assert policy["key"]["pattern"] == "[a-f]+"
    assert "422" in policy["freed"]
    assert disposition(422, route.apply(Options())) is Disposition.FREE
    assert "retention" not in added(document())[EXTENSION]


def test_the_owner_of_a_key_is_named() -> None:
    made: Any = add_to_openapi(document(), settings_of(), owner="account")

    (parameter,) = key_parameters(made["paths"]["/pay"]["post"])
    assert "another account" in parameter["description"]


# -- which operations ----------------------------------------------------------------------------


def test_operations_that_are_not_protected_stay_as_they_were() -> None:
    both = document("/pay") | {
        "paths": document("/pay")["paths"] | document("/x", method="get")["paths"]
    }
    made: Any = add_to_openapi(both, settings_of())

    assert made["paths"]["/x"] == both["paths"]["/x"]
    assert EXTENSION in made["paths"]["/pay"]["post"]
    assert add_to_openapi(both, settings_of(methods=[])) == both


def test_a_schema_of_a_parameter_is_taken_for_a_convertor() -> None:
    number, text = ([{**ID, "schema": {"type": type_}}] for type_ in ("integer", "string"))
    routes = [Route("POST", "/pay/{id:int}", required=True)]
    whole = added(document("/pay/{id}", parameters=number), routes=routes, methods=[])
    some = added(document("/pay/{id}", parameters=text), routes=routes, methods=[])

    assert key_parameters(whole)[0]["required"] is True
    assert "paths" not in whole[EXTENSION]
    assert key_parameters(some)[0]["required"] is False
    assert some[EXTENSION]["protected"] is False
    assert some[EXTENSION]["paths"]["/pay/{id:int}"]["required"] is True
    description = key_parameters(some)[0]["description"]
    assert "Paths that match `/pay/{id:int}`: A key is required." in description
    assert "All other paths: the key is ignored." in description


@pytest.mark.parametrize(
    ("schema", "protected"),
    [
        ({"enum": ["card", "cash"]}, True),
        ({"$ref": "#/components/schemas/Means"}, True),
        ({"const": "card"}, True),
        ({"enum": ["cheque"]}, False),
    ],
)
def test_the_values_of_a_parameter_are_compared_with_what_a_route_spells_out(
    schema: dict[str, Any], *, protected: bool
) -> None:
    means = document("/pay/{id}", parameters=[{**ID, "schema": schema}])
    means["components"] = {"schemas": {"Means": {"enum": ["card"]}}}
    routes = [Route("POST", f"/pay/{each}") for each in ("card", "cash")]
    made: Any = add_to_openapi(means, settings_of(routes=routes, methods=[]))

    assert bool(key_parameters(made["paths"]["/pay/{id}"]["post"])) is protected


def test_what_the_application_says_of_an_operation_goes_before_the_document() -> None:
    decorated = Endpoint("POST", "/files/{rest:path}", Overrides(required=True))
    plain = document("/files/{rest}", parameters=[{**ID, "name": "rest"}])
    made: Any = add_to_openapi(plain, settings_of(methods=[]), endpoints=[decorated])

    assert key_parameters(made["paths"]["/files/{rest}"]["post"])[0]["required"] is True


def test_a_prefix_is_put_before_the_paths_of_the_document_for_the_comparison_only() -> None:
    routes = [Route("POST", "/v1/pay", required=True)]
    made: Any = add_to_openapi(document(), settings_of(routes=routes, methods=[]), prefix="/v1")

    assert list(made["paths"]) == ["/pay"]
    assert EXTENSION in made["paths"]["/pay"]["post"]
