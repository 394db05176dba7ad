"""Policy files: a policy, or PolicyError with the line, and never another exception.

An input is the text of a `replayfloor.toml`.
"""

from __future__ import annotations

import tomllib
from contextlib import suppress
from typing import Final, cast

from replayfloor.retention.errors import PolicyError
from replayfloor.retention.inbound import InboundPolicy
from replayfloor.retention.policies import Policies, Policy
from replayfloor.retention.shipped import shipped_catalogue
from replayfloor.retention.toml_lines import KeyPath, key_lines
from replayfloor.retention.toml_policies import parse_policies

FILE: Final = "replayfloor.toml"


def check(data: bytes) -> None:
    """Read a text as policies, and ask each for its figures."""
    text = data.decode("utf-8", "replace")
    policies = _read(text)
    if policies is not None:
        for each in policies:
            _ask(each)
    _check_lines(text)


def _read(text: str) -> Policies | None:
    try:
        return parse_policies(text, FILE, catalogue=shipped_catalogue(text, FILE, ()))
    except PolicyError as error:
        refused = error
    assert refused.file == FILE, "an error says in which file"
    assert refused.line is not None, "and on which line"
    assert 1 <= refused.line <= text.count("\n") + 1
    assert str(refused).startswith(f"{FILE}:{refused.line}: ")
    return None


def _ask(policy: Policy) -> None:
    """Ask for what the sides ask for: a figure that is unknown is refused, in words."""
    with suppress(PolicyError):
        assert policy.text
    with suppress(PolicyError):
        assert len(policy.digest) > 0
    with suppress(PolicyError):
        if isinstance(policy, InboundPolicy):
            assert policy.retention_s >= policy.floor.floor_s > 0
        else:
            assert policy.send_window_s <= policy.key_retention_s


def _check_lines(text: str) -> None:
    """Compare the lines with what the standard library has read."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError):
        return
    lines = key_lines(text)
    unseen: list[tuple[KeyPath, object]] = [((), content)]
    while unseen:
        path, value = unseen.pop()
        assert not path or 1 <= lines[path] <= text.count("\n") + 1, path
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            unseen.extend(((*path, key), each) for key, each in members.items())
        elif isinstance(value, list):
            elements = cast("list[object]", value)
            unseen.extend(((*path, at), each) for at, each in enumerate(elements))
