"""The inputs that every run begins with: one text file for each target, one input a line.

An input is written as a Python bytes literal, so that a change of a corpus can be read in a diff;
an indented line goes on with the one above it.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("corpus")

COMMENT: Final = "#"
"""A line that begins so says why the input below it is there."""


def read_corpus(target: str) -> list[bytes]:
    """Return the inputs of a target. Raises ValueError for a line that is no bytes literal."""
    text = (FOLDER / f"{target}.txt").read_text(encoding="ascii").replace("\n ", " ")
    lines = [line for line in text.splitlines() if not line.startswith(COMMENT)]
    inputs = [ast.literal_eval(line) for line in lines]
    if not all(isinstance(each, bytes) for each in inputs):
        raise ValueError(f"the corpus of {target} holds something else than bytes literals")
    return inputs


def write_inputs(inputs: list[bytes], folder: Path) -> None:
    """Write inputs as files, as a fuzzer wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(inputs):
        (folder / f"{number:03}").write_bytes(data)
