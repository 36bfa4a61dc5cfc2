"""Regular expressions that filter transactional ids (KIP-1152); an id has to match as a whole.

Any client can send a pattern, and the broker has one thread, so a match must not backtrack. The pattern
becomes a nondeterministic automaton whose states are followed in parallel: an id of n characters takes at
most n times the size of the automaton, and that size is bounded.

The syntax is that of RE2 as far as names use it: characters and escapes, ``.``, classes with ranges, ``\\d``
``\\w`` ``\\s`` and their opposites, groups, ``|``, ``*``, ``+``, ``?``, ``{m,n}``, ``^`` and ``$``. Anything
else is INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from barnabas.wire.errors import ErrorCode, KafkaError

SIZE_MAX = 2_000
"""States of one automaton."""
REPEAT_MAX = 1_000
DIGITS_MAX = 10
"""Digits of a repetition's number."""
DEPTH_MAX = 50
_SPECIAL = set("\\.[]()*+?{}|^$")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}

Test = Callable[[str], bool]


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


_CLASSES: dict[str, Test] = {
    "d": lambda char: "0" <= char <= "9",
    "w": _is_word,
    "s": lambda char: char in "\t\n\f\r ",
}


class _State:
    """One state. A character that passes `test` leads to `then`; the states in `jumps` are reached without a
    character. `at_start` and `at_end` restrict the jumps to an end of the text."""

    __slots__ = ("at_end", "at_start", "jumps", "test", "then")

    def __init__(self) -> None:
        self.test: Test | None = None
        self.then: _State | None = None
        self.jumps: list[_State] = []
        self.at_start = self.at_end = False


class _Part(NamedTuple):
    """A part of the automaton with its first and its last state."""

    first: _State
    last: _State


Make = Callable[[], _Part]
"""Makes a part; a repetition makes several."""


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A function that says whether a text matches `pattern` as a whole. Raises INVALID_REGULAR_EXPRESSION."""
    whole = _Parser(pattern).whole()
    return lambda text: _matches(whole, text)


def _bad(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, why)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._size = 0

    def whole(self) -> _Part:
        make = self._alternatives()
        if self._at < len(self._pattern):
            raise _bad(f"unexpected {self._pattern[self._at]!r} in the pattern")
        return make()

    def _peek(self) -> str:
        return self._pattern[self._at] if self._at < len(self._pattern) else ""

    def _next_char(self) -> str:
        char = self._peek()
        if not char:
            raise _bad("the pattern ends too early")
        self._at += 1
        return char

    def _state(self) -> _State:
        self._size += 1
        if self._size > SIZE_MAX:
            raise _bad("the pattern is too large")
        return _State()

    # Grammar

    def _alternatives(self) -> Make:
        makes = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            makes.append(self._sequence())
        if len(makes) == 1:
            return makes[0]

        def make() -> _Part:
            first, last = self._state(), self._state()
            for each in makes:
                part = each()
                first.jumps.append(part.first)
                part.last.jumps.append(last)
            return _Part(first, last)

        return make

    def _sequence(self) -> Make:
        makes: list[Make] = []
        while self._peek() not in ("", "|", ")"):
            makes.append(self._repeated(self._atom()))

        def make() -> _Part:
            first = last = self._state()
            for each in makes:
                part = each()
                last.jumps.append(part.first)
                last = part.last
            return _Part(first, last)

        return make

    def _repeated(self, atom: Make) -> Make:
        times = self._times()
        if times is None:
            return atom
        low, high = times
        if self._peek() == "?":  # lazy: the same texts match
            self._at += 1
        if self._peek() in ("*", "+", "?"):
            raise _bad("a repetition of a repetition")

        def make() -> _Part:
            first = last = self._state()
            for _ in range(low):
                part = atom()
                last.jumps.append(part.first)
                last = part.last
            if high is None:
                part = atom()
                end = self._state()
                last.jumps += [part.first, end]
                part.last.jumps += [part.first, end]
                return _Part(first, end)
            end = self._state()
            last.jumps.append(end)
            for _ in range(high - low):
                part = atom()
                last.jumps.append(part.first)
                last = part.last
                last.jumps.append(end)
            return _Part(first, end)

        return make

    def _times(self) -> tuple[int, int | None] | None:
        char = self._peek()
        if char in ("*", "+", "?") and char:
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        if char != "{":
            return None
        end = self._pattern.find("}", self._at)
        low_text, comma, high_text = self._pattern[self._at + 1 : max(end, self._at)].partition(",")
        if end < 0 or not low_text.isdecimal() or (high_text and not high_text.isdecimal()):
            raise _bad("a brace that is no repetition")
        if max(len(low_text), len(high_text)) > DIGITS_MAX:
            raise _bad(f"a repetition beyond {REPEAT_MAX} times")
        self._at = end + 1
        low = int(low_text)
        high = int(high_text) if high_text else None if comma else low
        if low > REPEAT_MAX or (high is not None and not low <= high <= REPEAT_MAX):
            raise _bad(
                f"a repetition beyond {REPEAT_MAX} times, or of its end before its beginning"
            )
        return low, high

    def _atom(self) -> Make:
        char = self._next_char()
        if char == "(":
            return self._group()
        if char == "[":
            return self._one_of(self._class())
        if char == ".":
            return self._one_of(lambda text: text != "\n")
        if char in "^$":
            return self._bound(char)
        if char == "\\":
            return self._one_of(self._escaped(self._next_char()))
        if char in _SPECIAL and char not in "]}":
            raise _bad(f"unexpected {char!r} in the pattern")
        return self._one_of(char.__eq__)

    def _group(self) -> Make:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise _bad("too many groups within each other")
        if self._peek() == "?":
            self._at += 1
            if self._next_char() != ":":
                raise _bad("only (?:...) and (...) are groups")
        inner = self._alternatives()
        if self._next_char() != ")":
            raise _bad("a group without its end")
        self._depth -= 1
        return inner

    def _bound(self, char: str) -> Make:
        def make() -> _Part:
            first, last = self._state(), self._state()
            first.at_start, first.at_end = char == "^", char == "$"
            first.jumps.append(last)
            return _Part(first, last)

        return make

    def _one_of(self, test: Test) -> Make:
        def make() -> _Part:
            first, last = self._state(), self._state()
            first.test, first.then = test, last
            return _Part(first, last)

        return make

    def _escaped(self, char: str) -> Test:
        of_class = _CLASSES.get(char.lower())
        if of_class is not None:
            return of_class if char.islower() else lambda text: not of_class(text)
        return self._literal(char).__eq__

    def _literal(self, char: str) -> str:
        """The character that an escape means."""
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char.isascii() and char.isalnum():
            raise _bad(f"the escape \\{char} is not known")
        return char

    def _class(self) -> Test:
        opposite = self._peek() == "^"
        if opposite:
            self._at += 1
        tests: list[Test] = []
        while self._peek() != "]" or not tests:
            tests.append(self._class_member())
        self._at += 1
        return lambda text: any(test(text) for test in tests) != opposite

    def _class_member(self) -> Test:
        low = self._next_char()
        if low == "\\":
            escape = self._next_char()
            if escape.lower() in _CLASSES:
                return self._escaped(escape)
            low = self._literal(escape)
        is_range = self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in (
            "",
            "]",
        )
        if not is_range:
            return low.__eq__
        self._at += 1
        high = self._next_char()
        if high == "\\":
            high = self._literal(self._next_char())
        if high < low:
            raise _bad(f"the range {low}-{high} ends before it begins")
        return lambda text: low <= text <= high


def _matches(whole: _Part, text: str) -> bool:
    states = _reach([whole.first], True, not text)
    for at, char in enumerate(text, 1):
        stepped = [
            state.then
            for state in states
            if state.test is not None and state.then is not None and state.test(char)
        ]
        states = _reach(stepped, False, at == len(text))
        if not states:
            return False
    return any(state is whole.last for state in states)


def _reach(states: list[_State], at_start: bool, at_end: bool) -> list[_State]:
    """`states` and those that are reached from them without a character."""
    return list(_follow(states, at_start, at_end))


def _follow(states: list[_State], at_start: bool, at_end: bool) -> Iterator[_State]:
    seen: set[int] = set()
    pending = list(reversed(states))
    while pending:
        state = pending.pop()
        if id(state) in seen:
            continue
        seen.add(id(state))
        yield state
        if (at_start or not state.at_start) and (at_end or not state.at_end):
            pending.extend(state.jumps)
