"""A plugin for pytest: fixtures that turn a build red when somebody trims a retention.

    def test_the_shop_may_resend_for_a_month(retention_policy: InboundPolicy) -> None:
        assert_covers(retention_policy, "30d")

The policies are read from replayfloor.toml, or [tool.replayfloor] of pyproject.toml, in pytest's
root folder or above it. Nothing is read unless a test asks for it.
"""

from __future__ import annotations

from typing import Final, Protocol

import pytest

from replayfloor.retention.files import load_policies
from replayfloor.retention.inbound import InboundPolicy, assert_covers
from replayfloor.retention.policies import Policies
from replayfloor.retention.terms import Length

FILE_OPTION: Final = "replayfloor_file"
NAME_OPTION: Final = "replayfloor_policy"


class AssertsCovered(Protocol):
    """What the fixture `assert_retention_covers` is."""

    def __call__(self, horizon: Length, *, policy: str | None = None) -> None:
        """Fail the test if receipts are gone before a horizon ends.

        `horizon` is a text ("30d"), seconds or a timedelta; `policy` the name of an inbound
        policy, by default that of the fixture `retention_policy`.
        """
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what a project may say in its pytest settings."""
    parser.addini(
        FILE_OPTION, "The file with the retention policies, from pytest's root folder.", default=""
    )
    parser.addini(
        NAME_OPTION, "The inbound policy that `retention_policy` is, if there are several.",
        default="",
    )  # fmt: skip


@pytest.fixture(scope="session")
def retention_policies(pytestconfig: pytest.Config) -> Policies:
    """All retention policies of the project."""
    return load_policies(pytestconfig.rootpath / str(pytestconfig.getini(FILE_OPTION)))


@pytest.fixture(scope="session")
def retention_policy(pytestconfig: pytest.Config, retention_policies: Policies) -> InboundPolicy:
    """The retention policy of the project's receipts: the one its settings name, or the only one.

    It is one that can be used: an error in it, a figure that is unknown or a retention below the
    floor fails every test that asks for it.
    """
    policy = retention_policies.select_inbound(str(pytestconfig.getini(NAME_OPTION)) or None)
    _ = policy.retention_s
    return policy


@pytest.fixture(scope="session")
def assert_retention_covers(
    pytestconfig: pytest.Config, retention_policies: Policies
) -> AssertsCovered:
    """A function that fails the test if receipts are gone before a horizon ends."""
    chosen = str(pytestconfig.getini(NAME_OPTION)) or None

    def covers(horizon: Length, *, policy: str | None = None) -> None:
        assert_covers(retention_policies.select_inbound(policy or chosen), horizon)

    return covers
