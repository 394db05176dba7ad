"""The process that the fuzzer takes over: `python -m fuzz.within TARGET LIBFUZZER-ARGUMENT…`.

`run.py` starts it. What is promised of a target is in its module; here is only how it is fed.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Final

INSTRUMENTED: Final = {
    "form": ["replayfloor.core.canonical"],
    "json_body": ["replayfloor.core.canonical"],
    "key": [
        *("replayfloor.core.key", "http_sf.item", "http_sf.bare_item", "http_sf.parameters"),
        *("http_sf.string", "http_sf.token", "http_sf.display_string"),
    ],
    "multipart": ["replayfloor.server.body_multipart", "python_multipart.multipart"],
    "policy": [
        *("replayfloor.retention.toml_policies", "replayfloor.retention.toml_terms"),
        *("replayfloor.retention.toml_lines", "replayfloor.retention.toml_table"),
        *("replayfloor.retention.durations", "replayfloor.retention.providers_own"),
        "tomllib._parser",
    ],
    "problem": [
        *("replayfloor.core.problem", "replayfloor.client.classify"),
        *("replayfloor.client.profile_answers", "replayfloor.client.support"),
    ],
    "receipt": ["replayfloor.core.receipt"],
    "times": [
        *("replayfloor.client.policy", "replayfloor.client.support", "replayfloor.core.uuid7"),
        *("replayfloor.server.requests", "email._parseaddr"),
    ],
}
"""What the fuzzer sees the inside of: the code in question, and the readers that it relies on."""


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Return the functions and methods that a module defines."""
    for each in vars(module).values():
        if getattr(each, "__module__", None) == module.__name__:
            for own in vars(each).values() if isinstance(each, type) else (each,):
                found = getattr(own, "fget", None) or getattr(own, "__func__", own)
                if isinstance(found, FunctionType):
                    yield found


def main(name: str, arguments: list[str]) -> None:
    """Feed a target until the fuzzer ends the process."""
    atheris = importlib.import_module("atheris")
    logging.disable()  # the readers write a line for each input that they refuse
    target = importlib.import_module(f"fuzz.targets.{name}")
    # Not by its hook on imports, which takes some seconds more: it rewrites all that is imported.
    for module in INSTRUMENTED[name]:
        for function in functions_of(importlib.import_module(module)):
            atheris.instrument_func(function)

    def feed(data: bytes) -> None:
        try:
            target.check(data)
        except BaseException:
            sys.stderr.write(f"broken by: {data!r}\n")
            raise

    atheris.Setup([sys.argv[0], *arguments], feed)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
