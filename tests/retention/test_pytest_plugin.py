"""The plugin, in a project of its own: a build goes red when somebody trims the number."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.sources import ROOT, SOURCE_ROOTS

START_S = 60.0
POLICY = """\
[senders.shop]
automatic_retry = "72h"
manual_resend = "30d"

[inbound.hooks]
senders = ["shop"]
safety_margin = "5d"
"""
TESTS = """\
from replayfloor.retention import assert_covers

def test_the_month(retention_policy):
    assert_covers(retention_policy, "30d")

def test_the_same_in_short(assert_retention_covers):
    assert_retention_covers("30d", policy="hooks")

def test_all(retention_policies):
    assert list(retention_policies.inbound)[0] == "hooks"
"""


@dataclass(frozen=True)
class Project:
    """A user's project, outside of ours."""

    folder: Path

    def write(self, name: str, text: str) -> None:
        """Write one of its files."""
        (self.folder / name).write_text(text, encoding="utf-8")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run its tests, with the plugin by name as the entry point would load it."""
        sources = os.pathsep.join(str(ROOT / each) for each in SOURCE_ROOTS)
        plugin = "replayfloor.testing.pytest_plugin"
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider",
             *arguments],
            cwd=self.folder, capture_output=True, text=True, timeout=START_S, check=False,
            env={**os.environ, "PYTHONPATH": sources, "PYTEST_ADDOPTS": "",
                 # Other plugins of this machine take longer to load than all of this takes.
                 "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a policy that covers its sender, and tests that say so."""
    made = Project(tmp_path)
    made.write("pytest.ini", "[pytest]\n")
    made.write("replayfloor.toml", POLICY)
    made.write("test_retention.py", TESTS)
    return made


def test_a_build_is_green_while_the_policy_covers_the_horizon(project: Project) -> None:
    done = project.run()

    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_a_build_is_red_once_a_figure_is_trimmed(project: Project) -> None:
    project.write("replayfloor.toml", POLICY.replace('"30d"', '"3d"'))

    done = project.run()

    assert done.returncode == 1, done.stdout
    assert "2 failed, 1 passed" in done.stdout
    assert "hooks keeps receipts for 8 d" in done.stdout


def test_a_build_is_red_once_the_retention_is_below_the_floor(project: Project) -> None:
    project.write("replayfloor.toml", POLICY + 'retention = "24h"\n')

    done = project.run()

    assert done.returncode == 1
    assert "below the floor of 35 d" in done.stdout
    assert "1 passed" in done.stdout


def test_a_policy_that_cannot_be_used_fails_whoever_asks_for_it(project: Project) -> None:
    project.write("replayfloor.toml", POLICY + 'retention = "24h"\n')
    project.write("test_retention.py", "def test_it(retention_policy):\n    pass\n")

    done = project.run()

    assert done.returncode == 1
    assert "below the floor of 35 d" in done.stdout


def test_a_test_may_name_another_policy_than_the_settings(project: Project) -> None:
    project.write("replayfloor.toml", POLICY + '[inbound.jobs]\nclient_retry_budget = "1h"\n')
    project.write("pytest.ini", "[pytest]\nreplayfloor_policy = hooks\n")
    project.write(
        "test_retention.py",
        "def test_it(assert_retention_covers):\n"
        "    assert_retention_covers('30d')\n"
        "    assert_retention_covers('30d', policy='jobs')\n",
    )

    done = project.run()

    assert done.returncode == 1
    assert "jobs keeps receipts for 1 h" in done.stdout


def test_a_mistake_in_the_file_is_told_with_its_line(project: Project) -> None:
    project.write("replayfloor.toml", POLICY + 'ttl = "24h"\n')

    done = project.run()

    assert done.returncode == 1
    assert "replayfloor.toml:8: 'ttl' is unknown in inbound.hooks" in done.stdout


def test_of_several_policies_the_settings_name_one(project: Project) -> None:
    project.write("replayfloor.toml", POLICY + '[inbound.jobs]\nclient_retry_budget = "1h"\n')
    refused = project.run()
    project.write("pytest.ini", "[pytest]\nreplayfloor_policy = hooks\n")
    named = project.run()

    assert "several policies are meant" in refused.stdout
    assert named.returncode == 0, named.stdout


def test_the_file_may_stand_elsewhere(project: Project) -> None:
    (project.folder / "deploy").mkdir()
    (project.folder / "replayfloor.toml").rename(project.folder / "deploy" / "policy.toml")
    project.write("pytest.ini", "[pytest]\nreplayfloor_file = deploy/policy.toml\n")

    done = project.run()

    assert done.returncode == 0, done.stdout


def test_a_project_without_a_policy_is_left_alone(project: Project) -> None:
    (project.folder / "replayfloor.toml").unlink()
    project.write("test_retention.py", "def test_other():\n    pass\n")

    done = project.run("--strict-markers", "-W", "error")

    assert done.returncode == 0, done.stdout
