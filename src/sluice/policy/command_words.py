"""A command line as the programs it would run (P3), read with the grammar of tree-sitter-bash.

Total: whatever the text is, a `Reading` comes back. What could not be read for certain stands in `doubts`, and whoever
decides must then not say that the line is harmless. Work is bounded: a line that passes a bound is doubtful, never half
read and called good. What is read is what the shell is told; what a program then does with its arguments is its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sluice.policy.command_wrappers import Program, Redirection, Word, inside, literal
from sluice.policy.shell_text import word_text

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_CHARACTERS = 16 * 1024  # of one line: for a hostile one the parser's time grows with the square, to about a second
MAX_NODES = 50_000  # of the grammar's tree, the texts of inner shells included
MAX_PROGRAMS = 1_000  # of one line, wrappers included
MAX_DEPTH = 8  # of shells that are given their text by a shell
_MAX_DOUBTS = 20  # that are named

_DESCEND = frozenset(
    """
    program list pipeline subshell compound_statement if_statement elif_clause else_clause while_statement
    do_group case_statement case_item negated_command command_substitution process_substitution string
    concatenation expansion simple_expansion command_name redirected_statement heredoc_redirect heredoc_body
    for_statement
    """.split()  # noqa: SIM905 - a table to be read
)
_LEAVES = frozenset(
    """
    comment word number raw_string ansi_c_string string_content variable_name special_variable_name
    heredoc_start heredoc_end heredoc_content file_descriptor extglob_pattern
    """.split()  # noqa: SIM905 - a table to be read
)
_DOUBTS = {
    "function_definition": "it defines a function, and a function can stand in for any program",
    "arithmetic_expansion": "it calculates, which can run commands out of variables",
    "c_style_for_statement": "it calculates, which can run commands out of variables",
    "translated_string": "it translates a text",
    "array": "it fills an array",
    "brace_expression": "braces make words",
}
_JOINED_LINES = re.compile(r"\S\\\n\S")
_ODD_EXPANSIONS = ("!", "@")  # `${!name}`, `${name@P}`: what is in the variable is expanded again


class Reading:
    """What a command line was read as.

    `programs` are all that would be run, in the order they were found: those in substitutions, those that another one
    would start, and assignments that stand alone (with no words). `doubts` say why not all of it is known; empty is
    certain. `background` tells of `&`, `heredoc` of a text or word given as standard input.
    """

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.redirections: list[Redirection] = []
        self.doubts: list[str] = []
        self.background = False
        self.heredoc = False

    def doubt(self, why: str) -> None:
        """Adds a reason, once."""
        if why not in self.doubts and len(self.doubts) < _MAX_DOUBTS:
            self.doubts.append(why)


def read_command(text: str) -> Reading:
    """Reads one command line. Never raises."""
    reading = Reading()
    try:
        _Walk(reading).line(text)
    except Exception as error:  # what cannot be read is asked about
        reading.doubt(f"it could not be read ({type(error).__name__})")
    return reading


def _parser() -> Parser:
    # The grammar is large: only what has to judge a command loads it.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class _Walk:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._parser = _parser()
        self._nodes = 0
        self._texts: list[tuple[str, int]] = []  # texts of shells inside, and how deep they are

    def line(self, text: str) -> None:
        self._texts.append((text, 0))
        while self._texts and not self._full():
            inner, depth = self._texts.pop()
            self._text(inner, depth)

    def _full(self) -> bool:
        if self._nodes > MAX_NODES or len(self._reading.programs) > MAX_PROGRAMS:
            self._reading.doubt(f"it is too much to read (over {MAX_PROGRAMS} programs or {MAX_NODES} parts)")
            return True
        return False

    def _text(self, text: str, depth: int) -> None:
        doubt = self._reading.doubt
        if len(text) > MAX_CHARACTERS:
            return doubt(f"it is longer than {MAX_CHARACTERS} characters")
        if depth > MAX_DEPTH:
            return doubt(f"shells start shells, more than {MAX_DEPTH} deep")
        if any(mark in text for mark in "\0\r\v\f"):
            return doubt("it holds a control character that shells read in different ways")
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError:
            return doubt("it is not UTF-8 text")
        if _JOINED_LINES.search(text):
            doubt("a word goes on in the next line")  # the grammar sees two
        if any(ord(char) > 127 and char.isspace() for char in set(text)):
            doubt("it holds a space that is no plain space")
        root = self._parsed(data)
        if root is None or root.has_error:
            return doubt("it is no shell text that can be parsed whole")
        self._walk(root, data, depth)

    def _parsed(self, data: bytes) -> Node | None:
        """The tree, or `None` at the first error: going on past one can take minutes, and errors are doubtful anyway."""
        self._parser.reset()
        try:
            tree = self._parser.parse(
                lambda start, _point: data[start : start + 65536], progress_callback=lambda _at, failed: failed
            )
        except ValueError:
            return None
        return tree.root_node

    def _walk(self, root: Node, data: bytes, depth: int) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            self._nodes += 1
            if self._full():
                return
            stack.extend(reversed(self._visit(node, data, depth)))

    def _visit(self, node: Node, data: bytes, depth: int) -> list[Node]:
        """Takes in one node; returns those inside it that are to be visited."""
        kind, reading = node.type, self._reading
        if not node.is_named:
            reading.background = reading.background or kind == "&"
            return []
        if kind == "command":
            return self._command(node, data, depth)
        if kind in ("declaration_command", "unset_command", "test_command"):
            return self._special(node, data, depth)
        if kind in ("variable_assignment", "variable_assignments"):
            self._program(Program((), (_source(node, data),), depth > 0), depth)
            return node.named_children
        if kind == "file_redirect":
            return self._redirect(node, data)
        if kind in ("herestring_redirect", "heredoc_redirect"):
            reading.heredoc = True
            return node.children
        if kind in _DOUBTS:
            reading.doubt(_DOUBTS[kind])
            return node.named_children
        if kind == "expansion" and any(not c.is_named and c.type[:1] in _ODD_EXPANSIONS for c in node.children):
            reading.doubt("it expands what is in a variable once more")
        if kind == "compound_statement" and node.children and node.children[0].type == "((":
            reading.doubt("it calculates, which can run commands out of variables")
        if kind == "for_statement":
            reading.doubt("it sets variables in a loop")
        if kind in _DESCEND:
            return node.children
        if kind not in _LEAVES:
            reading.doubt(f"it holds a part of a kind that is not known ({kind})")
            return node.children
        return []

    def _command(self, node: Node, data: bytes, depth: int) -> list[Node]:
        words: list[Word] = []
        assignments: list[str] = []
        inner: list[Node] = []
        end = -1
        for child in node.children:
            kind = child.type
            if kind in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                inner.append(child)
                continue
            if kind == "variable_assignment":
                assignments.append(_source(child, data))
                inner.extend(child.named_children)
                continue
            if not child.is_named and kind not in ("==", "=~"):
                self._reading.doubt(f"it holds a sign in an odd place ({kind})")
                continue
            if child.start_byte == end:  # two words with nothing between: the grammar did not see one word
                self._reading.doubt("its words cannot be told apart for certain")
            end = child.end_byte
            words.append(_word(child, data))
            inner.extend(_substitutions(child))
        self._program(Program(tuple(words), tuple(assignments), depth > 0), depth)
        return inner

    def _special(self, node: Node, data: bytes, depth: int) -> list[Node]:
        """`export`, `declare`, `unset`, `[ … ]`, `[[ … ]]`: their words can name variables with subscripts that run."""
        first, *rest = node.children
        words = tuple(Word(_source(child, data), "dynamic") for child in rest)
        self._reading.programs.append(Program((literal(_source(first, data)), *words), inner=depth > 0))
        if node.type == "declaration_command":
            self._reading.doubt("it changes variables that later programs may obey")
        return [child for child in node.named_children if child.type not in _TEST_PARTS] + [
            inner for child in node.named_children if child.type in _TEST_PARTS for inner in _substitutions(child)
        ]

    def _redirect(self, node: Node, data: bytes) -> list[Node]:
        operator, target = "", Word("", "literal")
        inner: list[Node] = []
        for child in node.children:
            if child.type == "file_descriptor":
                continue
            if not child.is_named:
                operator += child.type
                continue
            if target.text:
                self._reading.doubt("a redirection has more than one target")
            target = _word(child, data)
            inner.extend(_substitutions(child))
        self._reading.redirections.append(Redirection(operator, target))
        return inner

    def _program(self, program: Program, depth: int) -> None:
        """Keeps a program and, one after another, all that it would start."""
        left = [program]
        while left and not self._full():
            one = left.pop()
            self._reading.programs.append(one)
            found = inside(one)
            for why in found.doubts:
                self._reading.doubt(why)
            self._texts.extend((text, depth + 1) for text in found.texts)
            left.extend(found.programs)


_TEST_PARTS = frozenset({"unary_expression", "binary_expression", "test_operator", "parenthesized_expression"})
_INNER = frozenset(
    {"command_substitution", "process_substitution", "expansion", "simple_expansion", "arithmetic_expansion"}
)
_KNOWN = _DESCEND | _LEAVES | _TEST_PARTS


def _substitutions(node: Node) -> list[Node]:
    """The topmost parts of a word that the shell replaces, and parts of a kind that is not known."""
    found: list[Node] = []
    stack = [node]
    while stack:
        one = stack.pop()
        if one.type in _INNER or one.type in _DOUBTS or (one.is_named and one.type not in _KNOWN):
            found.append(one)
        else:
            stack.extend(one.named_children)
    return found


def _source(node: Node, data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _word(node: Node, data: bytes) -> Word:
    """The word a node stands for: its value where it has one, else its text as written."""
    value, globs = [], False
    for part in _parts(node):
        text = word_text(part.type, _source(part, data), plain=_is_plain(part))
        if text is None:
            return Word(_source(node, data), "dynamic")
        value.append(text.value)
        globs = globs or text.globs
    return Word("".join(value), "glob" if globs else "literal")


def _parts(node: Node) -> Iterable[Node]:
    if node.type == "command_name" and node.named_child_count == 1:
        node = node.children[0]
    if node.type != "concatenation":
        return (node,)
    whole = sum(child.end_byte - child.start_byte for child in node.children)
    return node.children if whole == node.end_byte - node.start_byte else (node,)  # a gap is no word of known value


def _is_plain(node: Node) -> bool:
    return all(child.type == "string_content" for child in node.named_children)
