"""docs/conformance.md: every test that it names exists, and no row can be lost unnoticed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from replayfloor.core.key import DRAFT_REVISION
from support.sources import ROOT, project_files, text_of, tree_of, where

PAGE = ROOT / "docs" / "conformance.md"
DRAFT = """
    K-1 K-3 K-5 K-6 U-3 X-1 X-2 X-3 X-4 F-1 F-2 F-3 R-1 R-2 R-3 R-4 R-5 R-6 E-1 E-2 E-3 E-4
    H-1 H-1b H-2 H-3 H-5 H-6 H-7 I-1 S-1 S-2 S-3 S-4 S-5 EX-1 EX-2
"""
RFCS = """
    SF-1 SF-2 SF-3 SF-4 SF-5 SF-6 SF-7 SF-8 SF-9 SF-11 SF-12 H9-5 H9-6 H9-7 H9-8 H9-9 H9-10
    RA-1 RA-3 P-1 P-2 P-3 P-4 P-5 P-6 P-9 P-10 U7-1 U7-2 U7-3 U7-4 U7-6 U7-7
"""
CHOICES = "A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14 A15 A16 A18 A19"
BUGS = " ".join(f"B-{number:02}" for number in (*range(1, 47), 51))
WEBHOOKS = " ".join(f"SW-{number}" for number in range(1, 13))
# Written out: a page that was held to itself alone could lose a row, and nobody would notice.
IDS = f"{DRAFT} {RFCS} {WEBHOOKS} {CHOICES} {BUGS}".split()

ROW = re.compile(r"^\| ([A-Z][A-Z0-9]*-?[0-9]+b?) \| (.+?) \| (.+) \|$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
REGISTERED = re.compile(r"\bregistered\b", re.IGNORECASE)


@cache
def rows() -> dict[str, tuple[str, str]]:
    """Return requirement and tests of each row, by id."""
    found = ROW.findall(text_of(PAGE))
    assert len({id_ for id_, _, _ in found}) == len(found)
    return {id_: (requirement, tests) for id_, requirement, tests in found}


def named(tests: str) -> Iterator[tuple[str, str]]:
    """Return file and name of each test of a cell: a file, and the names that follow it."""
    file = ""
    for word in CODE.findall(tests):
        if word.endswith(".py"):
            file = word
        else:
            yield file, word


@cache
def defined(file: str) -> frozenset[str]:
    """Return the names of the tests in a file, those in classes too."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    return frozenset(
        node.name
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


def test_no_row_is_missing_and_none_is_unknown_here() -> None:
    assert list(rows()) == IDS


@pytest.mark.parametrize("id_", IDS)
def test_every_row_names_tests_that_there_are(id_: str) -> None:
    requirement, tests = rows()[id_]
    found = list(named(tests))

    assert requirement.strip()
    assert found
    assert [(file, name) for file, name in found if name not in defined(file)] == []


def test_no_row_has_words_between_its_tests_that_are_none() -> None:
    """A name outside of the code marks would be looked for by nobody."""
    for id_, (_, tests) in rows().items():
        assert not re.search(r"[A-Za-z]", CODE.sub("", tests)), id_


def test_the_revision_is_named_and_nothing_more_is_claimed() -> None:
    """It is a draft, and whether its field is in a registry is not ours to say."""
    assert DRAFT_REVISION in text_of(PAGE)
    assert DRAFT_REVISION in text_of(ROOT / "README.md")
    claims = [
        where(path, number)
        for path in project_files()
        if path.suffix == ".md" and path != PAGE
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if REGISTERED.search(line)
    ]
    assert claims == []
