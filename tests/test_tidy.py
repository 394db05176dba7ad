"""House style as a test: what a linter does not know. Each test lists the places that break it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.sources import package_files, project_files, text_of, tree_of, where

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
CODE = {".py", ".sql", ".lua"}
# First line of a statement's file: long enough to be a sentence.
PROMISE_WORDS_MIN = 3

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

# Both in pieces, so that this file does not contain what it forbids.
MACHINE_PATH = re.compile(
    r"(?<![\w.])/(?:" + "|".join(("home" + r"/\w", "root" + "/", "work" + "/", "Users" + "/")) + ")"
)
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
        ("deb", "debian", "org"),
    )
)


def _code() -> list[Path]:
    return [path for path in project_files() if path.suffix in CODE]


def _python() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py"]


def _package_python() -> list[Path]:
    return [path for path in package_files() if path.suffix == ".py"]


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, FUNCTIONS))


def _public(body: list[ast.stmt]) -> Iterator[Definition]:
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node


def test_there_is_something_to_read() -> None:
    assert _package_python()
    assert len(_python()) > len(_package_python())


def test_no_file_is_too_long() -> None:
    lengths = {where(path): len(text_of(path).splitlines()) for path in _code()}

    assert {place: n for place, n in lengths.items() if n > FILE_LINES_MAX} == {}


def test_no_function_is_too_long() -> None:
    lengths = {
        where(path, node.lineno): (node.end_lineno or node.lineno) - node.lineno + 1
        for path in _python()
        for node in _functions(path)
    }

    assert {place: n for place, n in lengths.items() if n > FUNCTION_LINES_MAX} == {}


def test_no_line_is_too_long() -> None:
    found = [
        where(path, number)
        for path in _code()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if len(line) > COLUMNS_MAX
    ]

    assert found == []


def test_no_flow_yields_inside_finally() -> None:
    """A generator that is dropped there would yield while it is being closed."""
    found = [
        where(path, node.lineno)
        for path in _python()
        for block in ast.walk(tree_of(path))
        if isinstance(block, ast.Try | ast.TryStar)
        for statement in block.finalbody
        for node in _same_function(statement)
        if isinstance(node, ast.Yield | ast.YieldFrom)
    ]

    assert found == []


def _same_function(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTIONS, ast.Lambda)):
            yield from _same_function(child)


def test_the_package_does_not_print() -> None:
    found = [
        where(path, node.lineno)
        for path in _package_python()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]

    assert found == []


def test_nothing_names_a_path_of_one_machine() -> None:
    assert _lines_with(MACHINE_PATH) == []


def test_nothing_names_a_package_registry() -> None:
    hosts = re.compile("|".join(map(re.escape, REGISTRY_HOSTS)))

    assert _lines_with(hosts) == []


def _lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        where(path, number)
        for path in project_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if pattern.search(line)
    ]


def test_the_package_has_no_open_ends() -> None:
    open_end = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    found = [
        where(path, number)
        for path in package_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if open_end.search(line)
    ]

    assert found == []


def test_no_public_signature_of_the_package_says_any() -> None:
    found = [
        where(path, node.lineno)
        for path in _package_python()
        for node in _public_functions(tree_of(path).body)
        for annotation in _annotations(node)
        if _says_any(annotation)
    ]

    assert found == []


def _public_functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in _public(body):
        if isinstance(node, ast.ClassDef):
            yield from _public_functions(node.body)
            # What a class is called with is as public as the class.
            yield from (
                method
                for method in node.body
                if isinstance(method, FUNCTIONS) and method.name in ("__init__", "__call__")
            )
        else:
            yield node


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    own = node.args
    arguments = [*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg]
    yield from (each.annotation for each in arguments if each and each.annotation)
    if node.returns:
        yield node.returns


def _says_any(annotation: ast.expr) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Attribute) and node.attr == "Any")
        or (isinstance(node, ast.Constant) and re.search(r"\bAny\b", str(node.value)))
        for node in ast.walk(annotation)
    )


def test_every_public_name_of_the_package_has_a_docstring() -> None:
    """At the top level of a module; a method may have its contract in the Protocol it fulfils."""
    found = [
        where(path, node.lineno)
        for path in _package_python()
        for node in _public(tree_of(path).body)
        if not ast.get_docstring(node) and not _is_overload(node)
    ]

    assert found == []


def _is_overload(node: Definition) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)


def test_every_module_of_the_package_says_what_it_is() -> None:
    found = [where(path) for path in _package_python() if not ast.get_docstring(tree_of(path))]

    assert found == []


def test_every_statement_file_says_what_it_promises() -> None:
    found = [
        where(path)
        for path in package_files()
        if path.suffix in {".sql", ".lua"}
        if not text_of(path).startswith("--")
        or len(text_of(path).splitlines()[0].strip("- ").split()) < PROMISE_WORDS_MIN
    ]

    assert found == []
