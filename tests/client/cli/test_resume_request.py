"""What `resume` sends: the key in its first form, the rest of the request, and no secret told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from client.cli.commands import (
    BODY,
    DAY_S,
    SHOP,
    TYPE,
    Place,
    body_file,
    lose_answer,
    pay,
    resume,
    run,
    shop_options,
    write_module,
)
from client.loopback import DROP, Loopback, Reply
from replayfloor.client import Profile, profile

SECRET = "Bearer sk_live_s3cret"


# -- how the key is written -----------------------------------------------------------------------


def test_the_form_of_the_key_is_asked_for_where_nothing_tells_it(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    lose_answer(place, loopback, "invoice-1")

    done = resume(place, "--body", body_file(tmp_path), "--content-type", TYPE)

    assert done.code == 2
    assert "--profile module:attribute" in done.err
    assert loopback.received == []


@pytest.mark.parametrize(
    ("quoted", "header", "options"),
    [
        (True, "Idempotency-Key", ("--quoted",)),
        (False, "X-Request-Id", ("--unquoted", "--header-name", "X-Request-Id")),
        (False, "X-Request-Id", ("--profile", "shops:SHOP")),
    ],
)
def test_the_key_is_written_as_the_first_time(
    *,
    quoted: bool,
    header: str,
    options: tuple[str, ...],
    place: Place,
    loopback: Loopback,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = replace(SHOP, quoted=quoted, header=header)
    lose_answer(place, loopback, "invoice-1", profile=own)
    key = place.entry("invoice-1").key
    arguments = f"name='shop', retention_s=86400.0, quoted={quoted}, header={header!r}"
    module = write_module(tmp_path, monkeypatch, arguments)
    words = [word.replace("shops", module) for word in options]

    done = resume(place, "--body", body_file(tmp_path), "--content-type", TYPE, *words)

    assert done.code == 0
    assert loopback.keys(header) == [f'"{key}"' if quoted else key]


def test_a_provider_of_the_catalogue_is_found_in_the_entry(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    adyen = profile("adyen", account="acct_1", mode="test", retention_s=3600)
    lose_answer(place, loopback, "invoice-1", profile=adyen)
    key = place.entry("invoice-1", adyen.namespace).key
    options = ("--body", body_file(tmp_path), "--content-type", TYPE)

    wrong = resume(place, *options, "--profile", "adyen", "--account", "acct_2", "--mode", "test")
    formed = resume(place, *options, "--quoted")
    right = resume(place, *options, "--profile", "adyen", "--account", "acct_1", "--mode", "test")

    assert (wrong.code, formed.code, right.code) == (1, 2, 0)
    assert loopback.keys(adyen.header) == [key]


def test_an_applications_own_profile_is_not_taken_for_the_catalogues_of_that_name(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    """The catalogue's takes the key in the body; the application has sent it in a header."""
    own = Profile(name="square", retention_s=DAY_S)
    lose_answer(place, loopback, "invoice-1", profile=own)
    key = place.entry("invoice-1", "square").key
    options = ("--body", body_file(tmp_path), "--content-type", TYPE)

    asked = resume(place, *options)
    done = resume(place, *options, "--quoted")

    assert (asked.code, done.code) == (2, 0)
    assert loopback.keys() == [f'"{key}"']


def test_what_was_begun_without_a_profile_is_sent_only_if_it_was_never_sent(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    lose_answer(place, loopback, "invoice-1", profile=None)

    done = resume(place, "--body", body_file(tmp_path), "--content-type", TYPE)

    assert done.code == 1
    assert "has not shown that it knows idempotency keys" in done.err
    assert loopback.received == []


def test_a_method_that_only_its_own_profile_named_is_sent_with_its_key(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script(DROP)
    with (
        place.client(replace(SHOP, methods=("PUT",))) as client,
        pytest.raises(Exception, match="not known"),
    ):
        client.put(
            loopback.url(), content=BODY, extensions={"idempotency": {"operation_id": "invoice-1"}}
        )
    loopback.received.clear()
    loopback.script(Reply())

    done = resume(place, "--body", body_file(tmp_path), "--quoted")

    assert done.code == 0
    assert [each.method for each in loopback.received] == ["PUT"]
    assert loopback.keys() == [f'"{place.entry("invoice-1").key}"']


def test_an_address_that_its_profile_does_not_name_any_more_is_not_sent_without_a_key(
    place: Place, loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answer(place, loopback, "invoice-1")
    arguments = "name='shop', retention_s=86400.0, paths=('/v2',), hosts=('shop.example',)"
    module = write_module(tmp_path, monkeypatch, arguments)

    done = resume(
        place, "--body", body_file(tmp_path), "--content-type", TYPE, "--profile", f"{module}:SHOP"
    )

    assert done.code == 0
    assert loopback.keys() == [f'"{place.entry("invoice-1").key}"']


# -- the rest of the request ----------------------------------------------------------------------


def test_the_body_comes_from_stdin_and_headers_and_query_are_sent(
    place: Place, loopback: Loopback
) -> None:
    loopback.script(DROP, path="/charges?expand=a%20b&x=1")
    with place.client() as client, pytest.raises(Exception, match="not known"):
        pay(client, loopback.url("/charges?expand=a%20b&x=1"), "invoice-1")
    loopback.received.clear()
    loopback.scripts.clear()

    done = resume(
        place,
        *("--body", "-", "--content-type", TYPE, "--quoted", "--query", "expand=a%20b&x=1"),
        *("--header", "X-Version: 2030-01-01"),
        stdin=BODY,
    )

    assert done.code == 0
    (received,) = loopback.received
    assert received.path == "/charges?expand=a%20b&x=1"
    assert received.values("x-version") == ["2030-01-01"]
    assert received.body == BODY


def test_secrets_come_from_the_environment_or_a_file_and_are_never_repeated(
    place: Place, loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answer(place, loopback, "invoice-1")
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    (tmp_path / "token").write_text(f"{SECRET}\n")
    loopback.script(Reply(403), Reply())

    refused = resume(place, *shop_options(tmp_path), "--header-env", "Authorization=SHOP_TOKEN")
    done = resume(
        place, *shop_options(tmp_path), "--header-file", f"X-Api-Key={tmp_path / 'token'}"
    )

    assert (refused.code, done.code) == (1, 0)
    assert loopback.received[0].values("authorization") == [SECRET]
    assert loopback.received[1].values("x-api-key") == [SECRET]
    said = (
        refused.text + refused.err + done.text + done.err + run("show", place.url, "invoice-1").text
    )
    assert "s3cret" not in said
    with place.opened() as journal:
        assert "s3cret" not in repr(journal.history())


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("--body", "{folder}/no.json", "--quoted"),
        ("--body", "{body}", "--quoted", "--header", f"Authorization: {SECRET}"),
        ("--body", "{body}", "--quoted", "--header", f"X-Api-Key: {SECRET}"),
        ("--body", "{body}", "--quoted", "--header", "nonsense s3cret"),
        ("--body", "{body}", "--quoted", "--header", "X Version: 1"),
        ("--body", "{body}", "--quoted", "--header", "X-Größe: 1"),
        ("--body", "{body}", "--quoted", "--header-env", f"Authorization: {SECRET}"),
        ("--body", "{body}", "--quoted", "--header-env", "Authorization=NO_SUCH_VARIABLE"),
        ("--body", "{body}", "--quoted", "--header-env", "Authorization=TWO_LINES"),
        ("--body", "{body}", "--quoted", "--header-file", "Authorization={folder}/no"),
        ("--body", "{body}", "--profile", "no-such-provider"),
        ("--body", "{body}", "--profile", "os:no_such_name"),
        ("--body", "{body}", "--profile", "os:getcwd"),
        ("--body", "{body}", "--account", "acct_1"),
        ("--body", "{body}", "--with", "os:getcwd"),
        ("--quoted", "--with", "os:getcwd"),
        ("--with", "os"),
        ("--with", "os:name"),
        ("--with", "no_such_module_here:f"),
        ("invoice-2", "--body", "{body}", "--quoted"),
    ],
    ids=" ".join,
)
def test_a_command_that_cannot_be_carried_out_ends_with_2_and_sends_nothing(
    wrong: tuple[str, ...],
    place: Place,
    loopback: Loopback,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lose_answer(place, loopback, "invoice-1")
    monkeypatch.setenv("TWO_LINES", f"{SECRET}\r\nX-Other: 1")
    names = {"{body}": body_file(tmp_path), "{folder}": str(tmp_path)}
    words = list(wrong)
    for name, value in names.items():
        words = [word.replace(name, value) for word in words]

    done = resume(place, *words)

    assert done.code == 2
    assert done.err
    assert "s3cret" not in done.err + done.text
    assert loopback.received == []


def test_a_profile_of_another_namespace_is_refused(
    place: Place, loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answer(place, loopback, "invoice-1", profile=Profile(name="bank", retention_s=DAY_S))
    module = write_module(tmp_path, monkeypatch, "name='shop', retention_s=86400.0")

    done = resume(
        place, "--body", body_file(tmp_path), "--content-type", TYPE, "--profile", f"{module}:SHOP"
    )

    assert done.code == 2
    assert "'bank'" in done.err
    assert loopback.received == []
