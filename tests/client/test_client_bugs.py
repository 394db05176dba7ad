"""Public faults of other clients, each with the tests that hold this one to not having it.

The numbers and reports are those of the list that the client was designed against. Each fault has
a test on real sockets; where a rule is arithmetic, one of the flow stands beside it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache

import pytest

from support.sources import ROOT, tree_of

HERE = "tests/client"
FAULTS = range(1, 28)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, where it was reported, and what shows that it is not here: `file::test`."""

    what: str
    reports: tuple[str, ...]
    tests: tuple[str, ...]


TABLE = {
    1: Fault(
        "a retry overwrites the caller's key",
        ("stripe/stripe-php#637",),
        ("test_keys_on_the_wire.py::test_the_callers_own_header_is_kept",),
    ),
    2: Fault(
        "every retry has a new key",
        ("woocommerce/woocommerce-square#106",),
        (
            "test_keys_on_the_wire.py::test_all_attempts_carry_the_same_key",
            "peers/test_wiremock.py::test_after_a_fault_the_same_request_is_sent_with_the_same_key",
        ),
    ),
    3: Fault(
        "the key follows from the credentials",
        ("tempoxyz/pympp#155",),
        (
            "wire/test_bounds.py::test_other_credentials_are_no_other_request",
            "test_keys_on_the_wire.py::test_an_auth_flow_sends_the_same_key_again",
        ),
    ),
    4: Fault(
        "one key for all calls of a client, or none",
        ("paypal/agent-toolkit#98",),
        (
            "test_keys_on_the_wire.py::test_two_requests_carry_different_keys",
            "wire/test_many.py::test_threads",
        ),
    ),
    5: Fault(
        "the interface asks for a new key when a call failed",
        ("square/square-mcp-server#31",),
        (
            "test_restart.py::test_a_killed_process_is_followed_by_one_with_the_same_key",
            "test_cancellation.py::test_while_sending",
        ),
    ),
    6: Fault(
        "a key is made and never sent",
        ("openai-python", "anthropic-sdk-python"),
        (
            "test_keys_on_the_wire.py::test_a_write_carries_a_key_that_tells_its_time",
            "test_keys_on_the_wire.py::test_the_key_is_on_the_wire_below_every_layer_of_httpx",
        ),
    ),
    7: Fault(
        "a request is sent again when its key has expired",
        ("apache/iceberg#18070", "apache/iceberg#14196", "apache/iceberg#17947"),
        (
            "test_send_deadline.py::test_the_edge_is_exact",
            "test_send_deadline.py::test_past_the_deadline_nothing_is_sent_ever_again",
            "wire/test_fence.py::test_the_edge_is_exact_at_the_last_moment",
        ),
    ),
    8: Fault(
        "the retries go on for longer than the server remembers",
        ("zenml-io/kitaru#876", "zenml-io/kitaru#845"),
        (
            "wire/test_bounds.py::test_a_wait_that_ends_past_the_send_deadline_is_not_begun",
            "test_flow.py::test_no_wait_is_begun_that_ends_past_the_send_deadline",
        ),
    ),
    9: Fault(
        "a conflict resets the count of the attempts",
        ("Comfy-Org/ComfyUI#16220",),
        (
            "wire/test_bounds.py::test_timeouts_and_conflicts_by_turns_are_counted_together",
            "wire/test_bounds.py::test_timeouts_and_conflicts_by_turns_stay_within_the_budget",
        ),
    ),
    10: Fault(
        "an exception does not tell the key, and a 504 cannot be resumed",
        (
            "Comfy-Org/comfy-python-sdk#79",
            "Comfy-Org/comfy-python-sdk#97",
            "Comfy-Org/comfy-python-sdk#99",
        ),
        (
            "wire/test_bounds.py"
            "::test_a_gateway_that_asks_for_patience_is_asked_later_with_the_same_key",
            "test_errors.py::test_it_says_what_is_known_and_what_to_do",
        ),
    ),
    11: Fault(
        "a replayed failure is asked for again in vain",
        ("stripe/stripe-ruby#905", "stripe/stripe-node#559"),
        (
            "test_profiles_wire.py::test_a_replayed_failure_ends_the_operation_for_good",
            "test_answers.py::test_a_replayed_answer_is_the_result_whatever_its_status",
        ),
    ),
    12: Fault(
        "the body of a retry is empty",
        (
            "stripe/stripe-go#647",
            "openai/openai-python#3771",
            "openai/openai-python#3484",
            "urllib3/urllib3#5242",
            "urllib3/urllib3#5181",
            "ruby/net-http#340",
            "got#1382",
        ),
        (
            "wire/test_bodies_on_the_wire.py::test_every_attempt_sends_the_same_bytes",
            "wire/test_bodies_on_the_wire.py"
            "::test_asynchronously_every_attempt_sends_the_same_bytes",
            "test_bodies.py::test_a_body_that_is_too_large_is_refused_before_the_first_byte",
        ),
    ),
    13: Fault(
        "a file is sent again from its start, and not from where it stood",
        ("botocore", "httpx2 2.13.1"),
        ("wire/test_bodies_on_the_wire.py::test_every_attempt_sends_the_same_bytes",),
    ),
    14: Fault(
        "a new multipart boundary makes a retry a mismatch",
        ("blindpay",),
        (
            "wire/test_bodies_on_the_wire.py::test_every_attempt_sends_the_same_bytes",
            "wire/test_bodies_on_the_wire.py"
            "::test_an_upload_after_a_restart_is_the_same_operation_if_it_is_the_same_bytes",
            "wire/test_bodies_on_the_wire.py"
            "::test_an_upload_after_a_restart_is_the_same_operation_whatever_its_boundary",
        ),
    ),
    15: Fault(
        "a callback that raises leaves a response open",
        ("httpx-retries 0.6.0",),
        (
            "wire/test_callbacks.py::test_a_callback_that_raises_leaves_the_pool_empty",
            "wire/test_callbacks.py::test_asynchronously_it_leaves_the_pool_empty_too",
            "wire/test_callbacks.py"
            "::test_a_trace_callable_of_the_user_that_raises_leaves_the_pool_empty",
        ),
    ),
    16: Fault(
        "a cancelled call leaks a connection of the pool",
        (
            "encode/httpcore#1093",
            "encode/httpcore#830",
            "encode/httpcore#658",
            "encode/httpx#1461",
        ),
        (
            "wire/test_pool.py::test_on_httpx2_none_is_lost",
            "wire/test_pool.py::test_on_httpx_none_is_lost_beyond_those_that_a_bare_client_loses",
        ),
    ),
    17: Fault(
        "a response has no request inside of the transport",
        ("pydantic/pydantic-ai#2656",),
        (
            "wire/test_answers_whole.py"
            "::test_the_last_answer_of_an_operation_that_is_pending_is_whole",
            "wire/test_answers_whole.py::test_hooks_of_the_client_see_the_answer_and_the_request",
        ),
    ),
    18: Fault(
        "a response that was read has no elapsed time and cannot be streamed",
        ("pytest_httpx#56", "encode/httpx#3719", "encode/httpx#3712"),
        (
            "wire/test_answers_whole.py::test_an_answer_after_a_lost_one",
            "wire/test_answers_whole.py::test_an_answer_that_is_streamed",
            "wire/test_answers_whole.py::test_asynchronously_an_answer_is_whole_too",
        ),
    ),
    19: Fault(
        "a kept connection that ends is not retried",
        ("hynek/stamina#55", "huggingface/huggingface_hub#4398"),
        (
            "wire/test_answers_whole.py"
            "::test_a_kept_connection_that_ends_without_an_answer_is_asked_again",
            "wire/test_answers_whole.py"
            "::test_asynchronously_a_kept_connection_that_ends_is_asked_again_too",
        ),
    ),
    20: Fault(
        "exceptions of TLS and of sockets get through",
        ("pydantic/httpx2#854", "encode/httpx#3350", "encode/httpcore#808"),
        (
            "wire/test_tls.py::test_a_fault_within_tls_that_stays_is_an_error_of_the_library",
            "wire/test_tls.py::test_asynchronously_it_is_one_too",
            "wire/test_tls.py::test_a_handshake_that_fails_has_sent_nothing",
            "peers/test_h2.py::test_an_answer_that_is_not_http2_is_an_outcome_that_is_not_known",
        ),
    ),
    21: Fault(
        "a cancelled call is retried",
        ("jd/tenacity#529", "jd/tenacity#186"),
        (
            "test_cancellation.py::test_while_sending",
            "test_cancellation.py::test_while_waiting",
            "test_cancellation.py::test_while_writing_ahead",
            "test_cancellation.py::test_while_counting_a_further_attempt",
            "test_cancellation.py::test_while_recording_the_answer",
        ),
    ),
    22: Fault(
        "concurrent calls share the state of their retries",
        (
            "jd/tenacity#93",
            "jd/tenacity#701",
            "pydantic/pydantic-ai#2661",
            "apscheduler#618",
        ),
        ("wire/test_many.py::test_threads", "wire/test_many.py::test_tasks"),
    ),
    23: Fault(
        "a call takes longer than it may in total, or a clock that was set confuses it",
        ("e2b#1378", "e2b#1848", "CrossPaste#4547"),
        (
            "wire/test_bounds.py::test_a_server_that_stalls_takes_no_longer_than_the_budget",
            "wire/test_bounds.py::test_asynchronously_it_takes_no_longer_either",
            "test_clock.py::test_a_clock_that_is_set_back_between_two_attempts_stops_the_call",
            "test_send_deadline.py"
            "::test_past_the_deadline_a_wall_clock_that_is_set_back_reopens_nothing",
        ),
    ),
    24: Fault(
        "loops within loops multiply the attempts",
        ("HKUDS/nanobot#2760", "code_puppy#317"),
        (
            "wire/test_bounds.py"
            "::test_a_loop_that_retries_transport_errors_does_not_multiply_a_lost_answer",
            "wire/test_bounds.py"
            "::test_a_loop_that_retries_everything_does_not_get_past_the_deadline",
            "peers/test_stripe.py::test_past_the_retention_nothing_is_sent_whoever_retries",
        ),
    ),
    25: Fault(
        "re-sent requests are in other traces, and are not numbered",
        (
            "open-telemetry/opentelemetry-python-contrib#2000",
            "open-telemetry/opentelemetry-python-contrib#554",
        ),
        (
            "telemetry/test_otel_spans.py"
            "::test_the_attempts_of_a_call_are_in_one_trace_and_are_numbered",
        ),
    ),
    26: Fault(
        "a redirect takes secrets to another origin",
        ("openai/openai-python#3516",),
        (
            "test_redirects.py::test_a_write_is_not_sent_to_another_origin",
            "test_redirects.py::test_a_look_at_the_result_carries_no_key",
        ),
    ),
    27: Fault(
        "a write without a key is retried after a time-out",
        ("urllib3/urllib3#1059",),
        (
            "wire/test_bounds.py::test_a_post_without_a_key_is_tried_again_only_if_it_was_not_sent",
            "test_support.py"
            "::test_without_a_profile_a_request_that_may_have_been_sent_is_not_sent_again",
        ),
    ),
}


@cache
def _defined(file: str) -> frozenset[str]:
    """Return the names of the tests in a file."""
    path = ROOT / HERE / file
    if not path.is_file():
        return frozenset()
    return frozenset(
        node.name
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


def test_no_fault_of_the_list_is_missing() -> None:
    assert list(TABLE) == list(FAULTS)


@pytest.mark.parametrize("number", FAULTS)
def test_every_fault_has_tests_that_there_are(number: int) -> None:
    fault = TABLE[number]
    named = [test.split("::") for test in fault.tests]

    assert fault.what
    assert fault.reports
    assert named
    assert [(file, name) for file, name in named if name not in _defined(file)] == []
