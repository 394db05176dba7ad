"""The page: well-formed, whole by itself, and everything in it text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import Result

from client.tail.invented import AT, entry, story, tails, write
from replayfloor.client.tail.gathering import build
from replayfloor.client.tail.page import page
from replayfloor.client.tail.report import Found, Report, Terms
from replayfloor.client.tail.sightings import of_entry, operation
from replayfloor.core.journal import JournalEntry, OperationState

VOID = {"meta"}
URL_ATTRIBUTES = {"src", "href", "xlink:href", "action", "data", "poster", "srcset"}
EVIL = "<script>alert(1)</script>\"'&\u202e\x1b"


class Checked(HTMLParser):
    """Fails on a tag that is not closed; keeps what is looked for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] != "style":
            self.texts.append(data)

    def values(self, tag: str, name: str) -> list[str]:
        return [value for each, of, value in self.attributes if (each, of) == (tag, name)]


def shown(*entries: JournalEntry, share: float = 0.5) -> str:
    terms = Terms(at_ns=AT, share=share)
    groups = build((operation(of_entry(each, AT), AT) for each in entries), terms)
    return page(Report(terms, (Found(EVIL, is_journal=False, count=7, skipped=1),), groups))


def provider(
    name: str, count: int, *, open_: int = 0, retention_s: float = 86_400.0
) -> Iterator[JournalEntry]:
    for number, sent_s in enumerate(tails(1, count, 60_000)):
        yield entry(
            f"{name}{number}",
            first_ago_s=90_000 + number,
            sent_after_s=sent_s,
            provider=name,
            retention_s=retention_s,
        )
    for number in range(open_):
        yield entry(
            f"open{number}",
            first_ago_s=10 * 3**number,
            provider=name,
            state=OperationState.OPEN,
            retention_s=retention_s,
        )


PAGES = {
    "no provider": [],
    "one open operation and nothing else": list(provider("shop", 0, open_=1)),
    "one operation": list(provider("shop", 1)),
    "three providers": [
        *provider("a", 300, open_=9),
        *provider("b", 50),
        *provider("c", 9, open_=1, retention_s=0.0),
    ],
    "eight providers": [each for n in range(8) for each in provider(f"p{n}", 5, open_=n)],
    "no retention known": list(provider("shop", 20, open_=2, retention_s=0.0)),
    "a retention of seconds": list(provider("shop", 0, open_=2, retention_s=2.0)),
    "thousands": list(provider("shop", 4_000, open_=8)),
    "everything is markup": [
        entry(EVIL, first_ago_s=80_000, provider=EVIL, state=OperationState.OPEN),
        entry(EVIL * 2, first_ago_s=10**6, provider=EVIL, state=OperationState.UNKNOWN_FINAL),
    ],
}


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_well_formed_and_whole_by_itself(name: str) -> None:
    text = shown(*PAGES[name])

    checked = Checked(text)
    assert "script" not in checked.tags
    assert not {"link", "img", "iframe", "object", "embed", "base", "form", "a"} & {*checked.tags}
    assert not [each for each in checked.attributes if each[1] in URL_ATTRIBUTES]
    assert not [each for each in checked.attributes if each[1].startswith("on")]
    assert not re.search(r"https?://|url\(|@import|javascript:", text)
    assert "default-src 'none'" in checked.values("meta", "content")[0]
    assert "nan" not in " ".join(checked.values("path", "d"))
    providers = {each.provider for each in PAGES[name]}
    assert checked.tags.count("svg") == len(providers)


def test_an_operation_id_that_looks_like_markup_is_text() -> None:
    text = shown(*PAGES["everything is markup"])

    as_shown = "<script>alert(1)</script>\"'&\\u202e\\x1b"
    checked = Checked(text)
    assert as_shown in checked.texts
    assert any(each.startswith(as_shown) and "7 lines" in each for each in checked.texts)
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_the_figures_are_there_as_text() -> None:
    texts = Checked(
        shown(
            *provider("shop", 0, open_=0),
            *(entry(f"op{n}", first_ago_s=9_000) for n in range(98)),
            entry("slow", first_ago_s=90_000, sent_after_s=3_600),
            entry("stuck", first_ago_s=72_000, state=OperationState.OPEN),
        )
    ).texts

    for figure in (
        "100",
        "0 s",
        "1 h",
        "≥ 20 h",
        "1 (20 h)",
        "24 h",
        "p99 4.17 %",
        "largest 83.3 %",
    ):
        assert figure in texts, figure
    assert "stuck" in texts
    assert "! past 50 % of the retention" in texts


def test_the_tail_stands_against_the_retention_and_the_send_deadline() -> None:
    checked = Checked(shown(*provider("shop", 100, open_=5)))

    retention, deadline = (
        float(line["x1"]) for line in (_line(checked, "retention"), _line(checked, "deadline"))
    )
    assert deadline < retention
    assert "key forgotten after 24 h" in checked.texts
    assert "last send before 23 h 31 min" in checked.texts


def _line(checked: Checked, of_class: str) -> dict[str, str]:
    (found,) = _lines(checked, of_class)
    return found


def _lines(checked: Checked, of_class: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for tag, name, value in checked.attributes:
        if tag == "line" and name == "x1":
            found.append({})
        if tag == "line":
            found[-1][name] = value
    return [each for each in found if each["class"] == of_class]


def test_every_open_operation_has_a_tick_unless_another_is_at_the_same_place() -> None:
    checked = Checked(shown(*provider("shop", 3, open_=6)))

    assert len(_lines(checked, "open")) == 6
    many = [
        entry(f"o{n}", first_ago_s=80_000 + n / 9, state=OperationState.OPEN) for n in range(5_000)
    ]
    assert len(_lines(Checked(shown(*many)), "open")) < 20


def test_without_a_retention_there_is_no_line() -> None:
    checked = Checked(shown(*PAGES["no retention known"]))

    assert _lines(checked, "retention") == _lines(checked, "deadline") == []
    assert "? no retention known" in checked.texts


def test_a_page_stays_small_however_many_operations_it_shows() -> None:
    """What is drawn is bounded by the pixels, what is listed by the option."""
    endless = (
        entry(f"op{n}", first_ago_s=90_000, sent_after_s=1 + n * 4, state=state)
        for n in range(20_000)
        for state in (OperationState.OPEN, OperationState.DONE)
    )

    assert len(shown(*endless)) < 250_000


def test_the_page_replaces_an_older_one_and_leaves_nothing_else(
    report: Callable[..., Result], tmp_path: Path
) -> None:
    lines = write(tmp_path / "l.jsonl", story("a", [0], first_ago_s=9))
    target = tmp_path / "page.html"
    target.write_text("older")

    with target.open() as reader:
        result = report("--html", target, lines)

        # Who reads the older one meanwhile reads it to its end.
        assert reader.read() == "older"

    assert result.exit_code == 0
    assert "shop" in Checked(target.read_text("utf-8")).texts
    assert sorted(each.name for each in tmp_path.iterdir()) == ["l.jsonl", "page.html"]


def test_a_page_that_could_not_be_finished_leaves_nothing(
    report: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError("no space")

    lines = write(tmp_path / "l.jsonl", story("a", [0], first_ago_s=9))
    monkeypatch.setattr(Path, "replace", full)

    assert report("--html", tmp_path / "page.html", lines).exit_code == 2
    assert [each.name for each in tmp_path.iterdir()] == ["l.jsonl"]


def test_a_link_is_written_through_and_a_pipe_is_not_replaced(
    report: Callable[..., Result], tmp_path: Path
) -> None:
    lines = write(tmp_path / "l.jsonl", story("a", [0], first_ago_s=9))
    target, link, pipe = (tmp_path / name for name in ("page.html", "link.html", "pipe"))
    target.touch()
    link.symlink_to(target)
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)

    try:
        assert report("--html", link, lines).exit_code == 0
        assert report("--html", pipe, lines).exit_code == 0
        assert os.read(reading, 15) == b"<!doctype html>"
    finally:
        os.close(reading)

    assert link.is_symlink()
    assert target.read_text("utf-8").startswith("<!doctype html>")
    assert pipe.is_fifo()
