"""Keys by profile: which are taken, how they are made, and how they are written into a request."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import httpx
import pytest
import respx
from hypothesis import given
from hypothesis import strategies as st

from client.clients import START_NS, Setup, info
from client.shipped import any_profile
from replayfloor.client.catalogue import catalogue
from replayfloor.client.options import choose_key, write_body, write_fields, write_header
from replayfloor.client.profile_answers import AnswerRules, Sign
from replayfloor.client.profile_keys import KEY_ENTROPY_BYTES, KeyForm, mint_key
from replayfloor.client.profiles import Profile
from replayfloor.core.errors import ConfigurationError, InvalidKey, UsageError
from replayfloor.core.key import KeyRules
from replayfloor.server.requests import first_sent_ms

PLAID = any_profile("plaid-transfer")
IN_HEADER = [name for name in catalogue() if not any_profile(name).body_field]
ENTROPY = bytes(range(KEY_ENTROPY_BYTES))


# -- making them -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "pattern"),
    [
        (KeyRules(), r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        (KeyRules(length_max=36), r"[0-9a-f-]{36}"),
        (KeyRules(length_max=35), r"[0-9a-f]{32}"),
        (KeyRules(length_max=32), r"[0-9a-f]{32}"),
        (KeyRules(pattern=re.compile("[A-Za-z0-9]+")), r"[0-9a-f]{32}"),
    ],
)
@pytest.mark.parametrize("form", list(KeyForm))
def test_dashes_are_left_out_where_they_do_not_fit(
    form: KeyForm, rules: KeyRules, pattern: str
) -> None:
    assert re.fullmatch(pattern, mint_key(form, rules, 1, ENTROPY))


@pytest.mark.parametrize(
    "rules",
    [
        KeyRules(length_max=31),
        KeyRules(length_min=37),
        KeyRules(pattern=re.compile("[0-9]+")),
        KeyRules(pattern=re.compile("[A-Z0-9-]+")),
    ],
)
def test_rules_that_no_key_of_ours_keeps_are_refused_at_once(rules: KeyRules) -> None:
    with pytest.raises(ConfigurationError, match="no key can be made"):
        Profile(name="p", retention_s=100, key_rules=rules)


def test_too_little_entropy_makes_no_key() -> None:
    with pytest.raises(ValueError, match="entropy"):
        mint_key(KeyForm.UUID4, KeyRules(), 1, b"short")


# -- the caller's ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key"), [("adyen", "x" * 65), ("razorpay-payouts", "a/b/c"), ("klarna", "invoice-1")]
)
def test_a_key_of_the_caller_is_checked_before_anything_is_sent(name: str, key: str) -> None:
    profile = any_profile(name)

    for lines, option in (([], key), ([key.encode()], None)):
        with pytest.raises(InvalidKey, match=name):
            choose_key(lines, option, profile)


def test_a_refused_key_of_the_caller_never_reaches_the_wire() -> None:
    with respx.mock(using="httpcore", assert_all_called=False) as router:
        route = router.post("https://checkout-test.adyen.com/payments").respond(200)
        with Setup(profile=any_profile("adyen")).client() as client, pytest.raises(InvalidKey):
            client.post(
                "https://checkout-test.adyen.com/payments", headers={"Idempotency-Key": "x" * 65}
            )

    assert not route.called


# -- on the wire -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IN_HEADER)
def test_every_attempt_carries_the_key_as_the_provider_takes_it(name: str) -> None:
    profile = any_profile(name)
    url = f"https://{(profile.hosts or ('api.example',))[0]}{(profile.paths or ('/pay',))[0]}"
    with respx.mock(using="httpcore") as router, Setup(profile=profile).client() as client:
        route = router.post(url)
        route.side_effect = [httpx.ReadTimeout, httpx.Response(201)]
        response = client.post(url)

    key = info(response).key
    written = f'"{key}"' if name == "replayfloor" else key
    for call in route.calls:
        assert call.request.headers.get_list(profile.header) == [written]
    assert route.call_count == 2


# -- in the body -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "written"),
    [
        (b'{"a": 1.50}', b'{"idempotency_key":"k","a": 1.50}'),
        (b" {}", b'{"idempotency_key":"k"}'),
        (b"{ }\n", b'{"idempotency_key":"k" }\n'),
        (b'{"a":{"idempotency_key":"x"}}', b'{"idempotency_key":"k","a":{"idempotency_key":"x"}}'),
        (b'{"idempotency_key": "k", "a": 1}', b'{"idempotency_key": "k", "a": 1}'),
        ('{"name":"ü"}'.encode(), '{"idempotency_key":"k","name":"ü"}'.encode()),
    ],
)
def test_a_key_in_the_body_leaves_every_other_byte(body: bytes, written: bytes) -> None:
    assert write_body(body, "k", PLAID) == written
    assert write_body(written, "k", PLAID) == written


@given(
    st.dictionaries(
        st.text(), st.recursive(st.none() | st.floats() | st.text(), st.lists), max_size=4
    ),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=50),
)
def test_a_body_with_its_key_is_the_body_and_the_key(members: dict[str, object], key: str) -> None:
    members.pop("idempotency_key", None)
    body = json.dumps(members, indent=1).encode()

    written = write_body(body, key, PLAID)

    assert repr(json.loads(written)) == repr({"idempotency_key": key} | json.loads(body))
    assert choose_key([], None, PLAID, written) == key


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'"x"', b"a=1", b"{", b'{"a":1} {}', b"\xff\xfe{}", b"[" * 100_000]
)
def test_a_body_without_a_place_for_the_key_is_refused(body: bytes) -> None:
    with pytest.raises(UsageError, match="JSON object"):
        choose_key([], None, PLAID, body)
    with pytest.raises(UsageError, match="JSON object"):
        write_body(body, "k", PLAID)


@pytest.mark.parametrize(
    ("lines", "option", "body"),
    [
        ([], None, b'{"idempotency_key": 1}'),
        ([], None, b'{"idempotency_key": "a", "idempotency_key": "b"}'),
        ([], None, b'{"idempotency_key": ""}'),
        ([], None, b'{"idempotency_key": "' + b"x" * 51 + b'"}'),
        ([], "other", b'{"idempotency_key": "k"}'),
        ([b"k"], None, b"{}"),
    ],
)
def test_a_key_in_the_body_that_is_unclear_is_refused(
    lines: list[bytes], option: str | None, body: bytes
) -> None:
    with pytest.raises(UsageError):
        choose_key(lines, option, PLAID, body)


def test_the_callers_key_in_the_body_is_kept() -> None:
    assert choose_key([], None, PLAID, b'{"idempotency_key": "mine"}') == "mine"
    assert choose_key([], "mine", PLAID, b'{"idempotency_key": "mine"}') == "mine"
    assert choose_key([], None, PLAID, b"{}") is None


def test_a_body_that_holds_another_key_is_not_overwritten() -> None:
    with pytest.raises(UsageError, match="another key"):
        write_body(b'{"idempotency_key": "mine"}', "k", PLAID)


def test_a_key_that_belongs_into_the_body_is_never_written_to_a_header() -> None:
    """The provider would ignore it there, and execute every attempt."""
    with pytest.raises(ConfigurationError, match="body"):
        write_header("k", PLAID)
    assert write_fields("k", START_NS, PLAID) == []


def test_other_bodies_are_left_alone() -> None:
    assert write_body(b"a=1", "k", any_profile("stripe-v1")) == b"a=1"


# -- the first attempt's time ----------------------------------------------------------------------


@given(st.integers(0, 10**19))
def test_our_servers_read_the_first_attempt_at_most_a_second_early(first_ns: int) -> None:
    ours = any_profile("replayfloor")

    (_, key), (name, value) = write_fields("k", first_ns, ours)

    assert (key, name) == ('"k"', "Repeatability-First-Sent")
    read_ms = first_sent_ms(value.encode("ascii"))
    assert read_ms is not None
    assert 0 <= first_ns / 1e6 - read_ms < 1000 + 1


def test_others_are_not_told_the_time() -> None:
    assert write_fields("k", START_NS, any_profile("stripe-v1")) == [("Idempotency-Key", "k")]


# -- rules that cannot be kept ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "facts",
    [
        {"should_retry": "two words"},
        {"replayed_by": ("",)},
        {"codes_at": ("error..code",)},
        {"codes_at": ("",)},
        {"hint_required": True},
        {"burnt": frozenset({600})},
        {"in_flight": (Sign(codes=frozenset({"x"})),)},
    ],
)
def test_answers_that_could_never_be_read_are_refused(facts: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        AnswerRules(**facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("statuses", [frozenset(), frozenset({99}), frozenset(range(400, 600))])
def test_a_sign_that_tells_nothing_is_refused(statuses: frozenset[int]) -> None:
    with pytest.raises(ConfigurationError):
        Sign(statuses=statuses)


def test_a_path_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="beginning of a path"):
        replace(any_profile("stripe-v1"), paths=("v1",))


def test_only_signs_with_codes_need_bodies() -> None:
    assert any_profile("stripe-v1").answers.reads_bodies
    assert not any_profile("mollie").answers.reads_bodies
