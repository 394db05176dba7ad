"""Each key of a TOML text is found on its line, however the text is written."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.retention.toml_lines import KeyPath, key_lines

TRICKY = '''\
# [not.a.table] = "nor a key"
title = "a # b = [c]"          # a comment with = and [
"quoted key" = 1
'literal.key'.sub = 2
"esc\\u0041ped" = 3
long = """
[inbound.fake]
x = 1 \\""" still
"quotes at the end"""""
raw = \'\'\'
y = 2
it's\'\'\'\'
list = [
    "a",   # first
    # y = 3
    { inner = "b", "k" = [1, 2,
      3] },
]
when = 1979-05-27 07:32:00
inline = { a = { b.c = "]}" }, d = 'x' }

[ spaced . "table" ]
key = "v"
[[many]]
n = 1
  [many.below]
  m = 2
[[many]]
n = 3
[[many.nested]]
o = 4
[[many.nested]]
o = 5
'''


def paths(content: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of everything in a parsed document."""
    if path:
        yield path
    if isinstance(content, dict):
        for key, value in cast("dict[str, object]", content).items():
            yield from paths(value, (*path, key))
    elif isinstance(content, list):
        for at, value in enumerate(cast("list[object]", content)):
            yield from paths(value, (*path, at))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_key_of_a_tricky_text_is_found(end: str) -> None:
    text = TRICKY.replace("\n", end)

    found = key_lines(text)

    assert set(found) == set(paths(tomllib.loads(text)))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 2), (("quoted key",), 3), (("literal.key", "sub"), 4), (("escAped",), 5),
        (("long",), 6), (("raw",), 10), (("list", 0), 14), (("list", 1), 16),
        (("list", 1, "inner"), 16), (("list", 1, "k", 2), 17), (("when",), 19),
        (("inline", "a", "b", "c"), 20), (("inline", "d"), 20), (("spaced", "table"), 22),
        (("spaced", "table", "key"), 23), (("many", 0, "n"), 25), (("many", 0, "below", "m"), 27),
        (("many", 1), 28), (("many", 1, "n"), 29), (("many", 1, "nested", 0, "o"), 31),
        (("many", 1, "nested", 1, "o"), 33),
    ],
)  # fmt: skip
def test_it_is_the_line_on_which_it_stands(path: KeyPath, line: int) -> None:
    assert key_lines(TRICKY)[path] == line


KEYS = st.sampled_from(["a", "b-c", "d_e", "1", '"f g"', "'h.i'", '"j\\"k"', '"#"', '"="', '"]"'])
STRINGS = st.sampled_from(
    ['"x"', '"a \\" # ] b"', "'c \\'", '"""\nd = 1\n[e]\n"""', "'''\n#f\n'''", '""', '""""g"""']
)
SCALARS = STRINGS | st.sampled_from(
    ["1", "-2.5e3", "true", "1979-05-27", "1979-05-27 07:32:00Z", "07:32:00", "inf", "0x1F"]
)


def _array(members: list[str]) -> str:
    return "[" + ", # note ]\n ".join(members) + "\n]"


def _inline(pairs: list[tuple[str, str]]) -> str:
    return "{ " + ", ".join(f"{key} = {value}" for key, value in pairs) + " }"


VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(_array)
        | st.lists(st.tuples(KEYS, inner), max_size=3, unique_by=lambda pair: pair[0]).map(_inline)
    ),
    max_leaves=5,
)
BLANKS = st.sampled_from(["", " ", "\t", "\n", "\n# [z]\n", "  # y = 1\n"])
PAIRS = st.tuples(BLANKS, KEYS, VALUES, st.sampled_from(["", " # note", "\t"])).map(
    lambda parts: f"{parts[0]}{parts[1]} = {parts[2]}{parts[3]}\n"
)
HEADERS = st.builds(
    lambda form, keys: form.format(".".join(keys)),
    st.sampled_from(["[{}]\n", "[[{}]]\n", "[ {} ]# x\n"]),
    st.lists(KEYS, min_size=1, max_size=3),
)
TEXTS = st.lists(PAIRS | HEADERS, max_size=8).map("".join)


def _value(content: Mapping[str, object], path: KeyPath) -> object:
    found: object = content
    for key in path:
        found = cast("dict[str | int, object]", found)[key]
    return found


@given(TEXTS)
def test_whatever_the_reader_takes_has_a_line_for_each_key(text: str) -> None:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = key_lines(text)

    assert set(found) == set(paths(content))
    lines = text.split("\n")
    for path, line in found.items():
        key = path[-1]
        if isinstance(key, str) and key.isalnum():
            assert key in lines[line - 1]
