"""What an OpenAPI document says already is kept when the specification is added."""

from __future__ import annotations

from typing import Any

import pytest
from openapi_spec_validator import validate

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.problem import MEDIA_TYPE, TYPE_PREFIX
from replayfloor.server.docs import add_to_openapi
from replayfloor.server.docs.openapi_objects import EXTENSION
from server.docs_documents import (
    OK,
    added,
    document,
    types_in,
)
from server.docs_settings import settings_of


def test_a_response_that_is_there_is_extended_and_not_replaced() -> None:
    validation: dict[str, Any] = {
        "description": "Validation Error",
        "content": {"application/json": {"schema": {"type": "object"}}},
        "headers": {"Link": {"description": "Theirs.", "schema": {"type": "string"}}},
        "links": {"next": {"operationId": "x"}},
    }
    operation = added(document(operationId="x", responses={"200": OK, "422": validation}))
    response = operation["responses"]["422"]

    assert response["description"].startswith("Validation Error\n\nRefused")
    assert response["content"].keys() == {"application/json", MEDIA_TYPE}
    assert response["content"]["application/json"] == validation["content"]["application/json"]
    assert response["headers"]["Link"]["description"] == "Theirs."
    assert response["links"] == validation["links"]


def test_problems_of_the_application_itself_are_still_allowed() -> None:
    own = {"type": "object", "properties": {"type": {"const": "urn:shop:broke"}}}
    shown = {MEDIA_TYPE: {"schema": own, "example": {"type": "urn:shop:broke"}}}
    plain = document(responses={"409": {"description": "Broke.", "content": shown}})
    made: Any = add_to_openapi(plain, settings_of())
    validate(made)
    content = made["paths"]["/pay"]["post"]["responses"]["409"]["content"][MEDIA_TYPE]

    assert content["schema"]["anyOf"][0] == own
    assert TYPE_PREFIX + "in-flight" in types_in(content)
    assert {"value": {"type": "urn:shop:broke"}} in content["examples"].values()
    assert "example" not in content
    assert add_to_openapi(made, settings_of()) == made


@pytest.mark.parametrize("name", ["4XX", "default"])
def test_what_a_range_says_is_said_of_the_status_that_is_taken_out_of_it(name: str) -> None:
    own = {"description": "Theirs.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    responses = added(document(responses={"200": OK, name: own}))["responses"]

    assert responses["409"]["description"].startswith("Theirs.")
    assert responses["409"]["content"].keys() == {"text/plain", MEDIA_TYPE}
    assert responses[name]["content"] == own["content"]


def test_a_response_that_is_a_reference_is_extended_where_it_is_used() -> None:
    plain = document(responses={"200": OK, "409": {"$ref": "#/components/responses/Conflict"}})
    plain["components"] = {"responses": {"Conflict": {"description": "Theirs."}}}
    made: Any = add_to_openapi(plain, settings_of())
    validate(made)

    response = made["paths"]["/pay"]["post"]["responses"]["409"]
    assert response["description"].startswith("Theirs.\n\nRefused")
    assert made["components"]["responses"] == plain["components"]["responses"]
    assert add_to_openapi(made, settings_of()) == made


def test_a_reference_that_leads_out_of_the_document_is_refused_and_not_lost() -> None:
    plain = document(responses={"409": {"$ref": "common.json#/Conflict"}})

    with pytest.raises(ConfigurationError, match=r"common\.json"):
        add_to_openapi(plain, settings_of())
    assert add_to_openapi(plain, settings_of(methods=[])) == plain


def test_a_parameter_for_the_header_is_replaced_in_its_place_whatever_its_letter_case() -> None:
    own = {"name": "idempotency-key", "in": "header", "schema": {"type": "string"}}
    other = {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}
    operation = added(document(parameters=[own, other]))

    assert [each["name"] for each in operation["parameters"]] == ["Idempotency-Key", "X-Trace"]


def test_a_parameter_of_all_operations_of_the_path_is_overridden() -> None:
    plain = document(responses={"200": OK, "x-note": "theirs"})
    own = {"name": "idempotency-key", "in": "header", "schema": {"type": "string"}}
    plain["paths"]["/pay"]["parameters"] = [own]
    made: Any = add_to_openapi(plain, settings_of())
    operation = made["paths"]["/pay"]["post"]

    assert [each["name"] for each in operation["parameters"]] == ["idempotency-key"]
    assert made["paths"]["/pay"]["parameters"] == [own]
    assert operation["responses"]["x-note"] == "theirs"


def test_a_path_item_that_is_a_reference_gets_the_specification_too() -> None:
    plain = document()
    plain["components"] = {"pathItems": {"Pay": plain["paths"]["/pay"]}}
    plain["paths"] = {"/pay": {"$ref": "#/components/pathItems/Pay"}}
    made: Any = add_to_openapi(plain, settings_of())
    validate(made)

    assert EXTENSION in made["paths"]["/pay"]["post"]
    assert made["components"]["pathItems"] == plain["components"]["pathItems"]


def test_a_document_that_was_yaml_may_have_numbers_for_statuses() -> None:
    made: Any = add_to_openapi(document(responses={200: OK, 409: OK}), settings_of())
    responses = made["paths"]["/pay"]["post"]["responses"]

    assert all(isinstance(status, str) for status in responses)
    assert responses["409"]["description"].startswith("Done.\n\nRefused")


def test_a_document_without_paths_stays_as_it_is() -> None:
    plain = {"openapi": "3.1.0", "info": {}, "webhooks": {}}

    assert add_to_openapi(plain, settings_of()) == plain


@pytest.mark.parametrize(
    "version", [{"swagger": "2.0"}, {"openapi": "4.0.0"}, {"openapi": 3.1}, {}]
)
def test_another_version_is_refused(version: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="version 3"):
        add_to_openapi(version | {"paths": {}}, settings_of())
