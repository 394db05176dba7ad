"""Every target, by its corpus, by hypothesis and by a coverage-guided fuzzer (`run.py`).

A search of some seconds every day shows that the target works and that nothing near its corpus
breaks; the slow one, and `python -m fuzz.run`, look further.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.corpus import read_corpus
from fuzz.run import TARGETS, search
from support.sources import ROOT

EVERYDAY_RUNS = 300
EVERYDAY_S = 5
NEAR_EXAMPLES = 60
SLOW_S = 60

LONG = [
    *(("json_body", b"[" * n + b"]" * n + b"\xff" + b"[ " * n + b"]" * n) for n in (100, 101)),
    *(("policy", b"a = " + b"[" * n + b"]" * n + b"\n") for n in (100, 330, 500, 900)),
    *(("policy", b"a = " + b"{a=" * n + b"1" + b"}" * n + b"\n") for n in (100, 330, 500, 900)),
    # More digits than the interpreter converts.
    ("policy", b"[inbound.a]\nretention = " + b"1" * 5000),
    ("policy", b"[inbound.a]\nretention = 0x" + b"f" * 5000),
    ("times", b"9" * 5000),
    ("problem", b"\x01\x93\x20\x00" + b"[" * 100_000),
    ("problem", b"\x01\x93\x20\x00" + b"9" * 5000),
]
"""Inputs that are too long to be written out."""

on_each_target = pytest.mark.parametrize("target", TARGETS)
with_atheris = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris is not installed: it has no release for this interpreter or platform",
)


@pytest.fixture(autouse=True)
def _search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fuzzer's process find what this one finds."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests"), *sys.path]))


def check(target: str, data: bytes) -> None:
    importlib.import_module(f"fuzz.targets.{target}").check(data)


def near(corpus: list[bytes]) -> st.SearchStrategy[bytes]:
    """Inputs with a piece of one of the corpus replaced by a piece of another, or by noise."""
    pieces = st.builds(
        lambda whole, start, end: whole[start:end],
        st.sampled_from(corpus),
        st.integers(0, 60),
        st.integers(0, 60) | st.none(),
    )
    return st.builds(
        lambda whole, at, cut, piece: whole[:at] + piece + whole[at + cut :],
        st.sampled_from(corpus),
        st.integers(0, 200),
        st.integers(0, 8),
        pieces | st.binary(max_size=6),
    )


@on_each_target
def test_no_input_of_the_corpus_breaks_a_promise(target: str) -> None:
    for data in read_corpus(target):
        check(target, data)


@pytest.mark.parametrize(
    ("target", "data"), LONG, ids=[f"{name}-{len(data)}" for name, data in LONG]
)
def test_no_long_input_breaks_a_promise(target: str, data: bytes) -> None:
    check(target, data)


@on_each_target
def test_no_input_near_the_corpus_breaks_a_promise(target: str) -> None:
    @given(near(read_corpus(target)) | st.binary(max_size=60))
    @settings(
        max_examples=NEAR_EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    def check_one(data: bytes) -> None:
        check(target, data)

    check_one()


@with_atheris
@on_each_target
def test_a_short_search_breaks_no_promise(target: str) -> None:
    found = search(target, seconds=EVERYDAY_S, runs=EVERYDAY_RUNS)

    assert not found.broken, found.report


@with_atheris
@pytest.mark.slow
@on_each_target
def test_a_long_search_breaks_no_promise(target: str) -> None:
    found = search(target, seconds=SLOW_S)

    assert not found.broken, found.report
    assert found.interesting, "it reached more than the corpus does"
