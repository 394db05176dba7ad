"""What of a request is never told nor kept: the value of a header, or a password in an address."""

from __future__ import annotations

import pytest

from client.clients import Setup, named
from client.loopback import Loopback, Reply
from client.stacks import Stack, StackSetup, on_each_stack
from replayfloor.client import Profile
from replayfloor.client.errors import RedirectRefused

SECRET = "sk_live_s3cret"


@on_each_stack
def test_a_header_that_cannot_be_sent_is_not_quoted_in_the_journal_nor_in_events(
    loopback: Loopback, stack: Stack
) -> None:
    """A token that was read from a file has the file's last line break."""
    setup = StackSetup(stack=stack)
    headers = {"Authorization": f"Bearer {SECRET}\n"}
    with setup.client() as client, pytest.raises(stack.local_protocol_error):
        client.post(loopback.url(), headers=headers, extensions=named("invoice-1"))

    (entry,) = setup.journal.history()
    assert entry.last_evidence is not None
    assert entry.last_evidence.startswith("LocalProtocolError: the request has something")
    assert "s3cret" not in repr((entry, setup.events))


def test_a_refused_redirect_is_told_without_the_password_of_the_address(
    loopback: Loopback,
) -> None:
    loopback.script(Reply(307, (("Location", "/elsewhere?token=s3cret"),)))
    charges = Profile(name="shop", retention_s=86_400, paths=("/charges",))
    url = loopback.url().replace("//", f"//shop:{SECRET}@")
    with Setup(profile=charges).client() as client, pytest.raises(RedirectRefused) as caught:
        client.post(url, follow_redirects=True)

    assert "/elsewhere" in str(caught.value)
    assert "s3cret" not in str(caught.value) + caught.value.evidence
