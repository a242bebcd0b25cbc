"""What is promised by name says what it does: every exported thing, its units, the errors it raises, what a cancel does."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import sluice
import sluice.errors
import sluice.wire

UNITS = {"_seconds": "seconds", "_bytes": "bytes", "_tokens": "tokens"}
CANCEL = re.compile(r"cancel|stop|clos|left|leaving|ends", re.IGNORECASE)


def _exported() -> Iterator[tuple[str, Any]]:
    for package in (sluice, sluice.wire):
        for name in package.__all__:
            thing = getattr(package, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{package.__name__}.{name}", thing


def _callables() -> Iterator[tuple[str, Any, str]]:
    """Each exported function and public method, with the docstring of the class around it."""
    for name, thing in _exported():
        if inspect.isfunction(thing):
            yield name, thing, ""
            continue
        for own, member in vars(thing).items():
            member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            mine = inspect.isfunction(member) and member.__module__ != "typing"  # a protocol's `__init__` is not
            if mine and (own in ("__init__", "__aenter__") or not own.startswith("_")):
                yield f"{name}.{own}", inspect.unwrap(member), thing.__doc__ or ""


THINGS = list(_exported())
CALLABLES = list(_callables())


def test_there_are_names_to_look_at() -> None:
    assert len(THINGS) > 40
    assert len(CALLABLES) > 60


@pytest.mark.parametrize(("name", "thing"), THINGS, ids=[name for name, _ in THINGS])
def test_an_exported_name_has_words_of_its_own(name: str, thing: Any) -> None:
    assert (thing.__dict__.get("__doc__") or "" if inspect.isclass(thing) else thing.__doc__ or "").strip()


def _silent() -> list[str]:
    return [name for name, one, around in CALLABLES if not (one.__doc__ or (around if "__init__" in name else ""))]


def test_every_public_method_says_what_it_does() -> None:
    assert _silent() == []


def _raised(function: Any) -> set[str]:
    """The names of the exceptions that a function raises in its own body."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, IndentationError):
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            found.add(node.exc.func.id)
    return {name for name in found if hasattr(sluice.errors, name) or hasattr(builtins, name)} - {"InternalError"}


def test_errors_are_named() -> None:
    unnamed = [
        f"{name} raises {error}"
        for name, one, around in CALLABLES
        for error in _raised(one)
        if error not in (one.__doc__ or "") + around
    ]
    assert unnamed == []
    assert any(_raised(one) for _name, one, _around in CALLABLES)


def test_units_are_named() -> None:
    bare = [
        f"{name}: {parameter}"
        for name, one, around in CALLABLES
        for parameter in inspect.signature(one).parameters
        for ending, unit in UNITS.items()
        if parameter.endswith(ending) and unit not in (one.__doc__ or "") + around
    ]
    assert bare == []


def test_what_waits_says_what_a_cancel_does() -> None:
    waiting = [
        (name, (one.__doc__ or "") + around)
        for name, one, around in CALLABLES
        if inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one)
    ]
    assert len(waiting) > 20
    assert [name for name, words in waiting if not CANCEL.search(words)] == []


def test_every_bound_has_a_unit() -> None:
    """The bounds are fields, and their words stand in the comments behind them."""
    source = inspect.getsource(sluice.Limits)
    bare = []
    for field in typing.get_type_hints(sluice.Limits):
        comment = source[source.index(f"    {field}:") :].split("#", 1)[1].split("\n")[0]
        for ending, unit in UNITS.items():
            if field.endswith(ending) and unit not in comment.lower() and "the same" not in comment:
                bare.append(f"{field}: {comment}")
    assert bare == []
