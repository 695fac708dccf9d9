"""Find the answer in a reply: around it may stand reasoning, prose, fences and drafts."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memorypipe.llm.replies.lenient_json import CutArray, CutObject, decode_at

__all__ = [
    "EMPTY",
    "EMPTY_WRAPPER",
    "ITEMS",
    "NO_ANSWER",
    "WRAPPER",
    "Answer",
    "Grade",
    "find_answer",
]

# How well a decoded value fits the shape that was asked for.
NO_ANSWER: Final = 0
EMPTY: Final = 1  # a bare empty list
ITEMS: Final = 2  # a bare item, or a bare list of them
EMPTY_WRAPPER: Final = 3  # an object that names its list, with nothing in it
WRAPPER: Final = 4  # an object that names its list

Grade = Callable[[Any], int]

# Positions tried in vain before the search ends; only a reply made to be slow has more.
_MAX_FAILURES = 100

_NAMES = "think|thinking|thought|thoughts|reasoning|reflection|analysis|scratchpad|antthinking"
_TAG_PATTERN = (
    rf"<(?P<angle>/?)(?:\w+:)?(?:{_NAMES})\s*>|\[(?P<square>/?)THINK\]|◁(?P<wedge>/?)think▷"
    rf"|<[|｜](?:(?P<bar>/|end[_▁ ](?:of[_▁ ])?)|(?:(?:begin|start)[_▁ ](?:of[_▁ ])?)?)"  # noqa: RUF001  # as models write it
    rf"(?:{_NAMES})[|｜]>"  # noqa: RUF001  # as above
    r"|(?P<final><\|channel\|>final<\|message\|>)"
)
# How tags begin: a text without any of these has none.
_TAG_SIGNS = ("<", "◁", "[T", "[t", "[/")
# A bracket that can open JSON: no prose like "{see below}", no "[ ]" of a check list, no "int[]".
_OPENING_PATTERN = (
    r"""\{(?=\s*(?:["'“}/]|[^\W\d]\w*\s*[:：]))"""  # noqa: RUF001  # of other scripts
    r"""|(?<!\w)\[(?![ ]\])(?=\s*(?:["'“{\[\]\-\d/]|null|NaN|$))"""
)
_TAG = re.compile(_TAG_PATTERN, re.IGNORECASE)
_STOP = re.compile(f"{_TAG_PATTERN}|{_OPENING_PATTERN}", re.IGNORECASE)
_FENCE = re.compile(r"\s*(?:```\w*\s*)?")
# What may stand between two values that are meant together.
_GAP = re.compile(r"(?:[\s,;]|```\w*)*")
# What may stand around a value that has its line to itself.
_MARKS = "\"'`*"
_ANNOUNCING = (":", ">", "▷", "]")
_AROUND_CHARS = 16
_NESTED = re.compile(r"\s*[\]},]")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The values that a reply answers with.

    Attributes:
        values: Usually one; several where values of the right shape follow each other directly.
        complete: False where the text ends inside a value, or a value was torn from a broken one.
        in_reasoning: True where it stands behind reasoning that was never closed, so that it may
            be no more than a draft.
    """

    values: tuple[Any, ...]
    complete: bool
    in_reasoning: bool


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    value: Any
    grade: int
    start: int
    end: int
    after_failure: bool  # an earlier bracket led to nothing, so this may be a piece of something

    @property
    def cut(self) -> bool:
        return isinstance(self.value, CutArray | CutObject)


def find_answer(text: str, grade: Grade) -> Answer | None:
    """Find the values of the right shape that a reply ends up with.

    Reasoning blocks are skipped where they stand around the JSON, never inside its strings. The
    first value of the best grade wins; behind reasoning that never ends, the last. An empty bare
    list within a sentence is none.

    Args:
        text: The reply.
        grade: Judges a decoded value.

    Returns:
        The answer; None where no value has the right shape.
    """
    return _whole_answer(text, grade) or _searched_answer(text, grade)


def _whole_answer(text: str, grade: Grade) -> Answer | None:
    """The answer of a reply that is one JSON value and nothing else, as most replies are.

    Where this gives an answer the search would give the same: it would begin at the same bracket,
    and find nothing behind the value. But it looks at every character several times.
    """
    start = len(text) - len(text.lstrip())
    stop = _STOP.match(text, start)
    if stop is None or stop[0] not in "{[" or any(sign in text for sign in _TAG_SIGNS):
        return None
    decoded = decode_at(text, start, lenient=False)
    if decoded is None or text[decoded.end :].strip() or grade(decoded.value) == NO_ANSWER:
        return None
    return Answer(values=(decoded.value,), complete=True, in_reasoning=False)


def _searched_answer(text: str, grade: Grade) -> Answer | None:
    candidates, loose = _candidates(text, grade)
    best = max((c.grade for c in candidates), default=NO_ANSWER)
    if best == NO_ANSWER:
        return None
    fitting = [c for c in candidates if c.grade == best]
    chosen = fitting[-1] if loose else fitting[0]
    group = _group(text, candidates, chosen)
    torn = chosen.after_failure and bool(_NESTED.match(text, group[-1].end))
    values = [c.value for c in group if c.grade]
    unique = [value for i, value in enumerate(values) if value not in values[:i]]
    complete = not torn and not any(c.cut for c in group)
    return Answer(values=tuple(unique), complete=complete, in_reasoning=loose)


def _group(text: str, candidates: Sequence[_Candidate], chosen: _Candidate) -> list[_Candidate]:
    """The chosen value and those that follow it with nothing but separators between."""
    group = [chosen]
    for candidate in candidates[candidates.index(chosen) + 1 :]:
        end = group[-1].end
        gap = _GAP.fullmatch(text, end, candidate.start) if candidate.start >= end else None
        if gap is None or not (candidate.cut or candidate.grade >= ITEMS):
            break
        group.append(candidate)
    return group


def _candidates(text: str, grade: Grade) -> tuple[list[_Candidate], bool]:
    """Every value outside reasoning, and whether reasoning was opened and never closed."""
    found: list[_Candidate] = []
    loose = False
    pos = _answer_start(text, grade)
    last_close = max((tag.start() for tag in _closing_tags(text)), default=-1)
    decoder = _Decoder(text, grade)
    for stop in _STOP.finditer(text, pos):
        if stop.start() < pos:
            continue  # inside a value or a reasoning block
        if stop[0] in "{[":
            if candidate := decoder.candidate(stop.start()):
                found.append(candidate)
                # Of a bare item that is cut the inside is left to look at.
                narrow = candidate.cut and candidate.grade < EMPTY_WRAPPER
                pos = pos if narrow else candidate.end
        elif not _opens(stop):
            if _has_answer(found) and not text[stop.end() :].strip():
                break
            found = []
        elif stop.end() <= last_close:
            pos = next(tag.end() for tag in _closing_tags(text, stop.end()))
        elif _has_answer(found):
            break
        else:
            loose = True
    return found, loose


def _has_answer(found: Sequence[_Candidate]) -> bool:
    return any(candidate.grade for candidate in found)


def _opens(tag: re.Match[str]) -> bool:
    return not any(tag[name] for name in ("final", "angle", "square", "wedge", "bar"))


def _closing_tags(text: str, pos: int = 0) -> Iterator[re.Match[str]]:
    return (tag for tag in _TAG.finditer(text, pos) if not _opens(tag))


def _answer_start(text: str, grade: Grade) -> int:
    """Where to begin: behind the last closing tag if a whole answer stands right there.

    Inside a JSON string no strict JSON can follow a tag, its quotes being escaped; so what is
    found there is the answer, and a broken draft before it cannot swallow it.
    """
    last = max((tag.end() for tag in _closing_tags(text)), default=None)
    if last is None:
        return 0
    fence = _FENCE.match(text, last)
    start = fence.end() if fence else last
    decoded = (
        decode_at(text, start, lenient=False) if text[start : start + 1] in {"{", "["} else None
    )
    return last if decoded and grade(decoded.value) >= ITEMS else 0


class _Decoder:
    """Decodes and grades values, until too much of a text has led to nothing."""

    def __init__(self, text: str, grade: Grade) -> None:
        self._text = text
        self._grade = grade
        self._failures = 0
        self._within_cut = False

    def candidate(self, start: int) -> _Candidate | None:
        """The value that begins at a bracket; None where there is none to consider."""
        decoded = decode_at(self._text, start) if self._failures < _MAX_FAILURES else None
        if decoded is None:
            self._failures += 1
            return None
        value, grade = decoded.value, self._grade(decoded.value)
        within_text = grade == EMPTY and not _stands_alone(self._text, start, decoded.end)
        if grade == NO_ANSWER:
            value, grade = _inner(value, self._grade)
        elif within_text or (self._within_cut and grade < EMPTY_WRAPPER):
            self._failures += 1
            return None
        candidate = _Candidate(
            value=value,
            grade=grade,
            start=start,
            end=decoded.end,
            after_failure=self._failures > 0,
        )
        if candidate.cut and grade == NO_ANSWER:
            self._failures += 1
        elif candidate.cut:
            self._within_cut = True
        return candidate


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether a value has its line to itself, but for what announces it."""
    line, rest = text[max(start - _AROUND_CHARS, 0) : start], text[end : end + _AROUND_CHARS]
    before = "".join(line.rpartition("\n")[2].split()).rstrip(_MARKS)
    after = "".join(rest.partition("\n")[0].split()).strip(f"{_MARKS}.")
    return (not before or before.endswith(_ANNOUNCING)) and not after


def _inner(value: Any, grade: Grade) -> tuple[Any, int]:
    """The wrappers inside a value of another shape, else the value itself."""
    found = list(_outermost(value, grade))
    if not found:
        return value, NO_ANSWER
    best = max(map(grade, found))
    if isinstance(value, CutArray | CutObject):
        return CutArray(found), best
    return (found if len(found) > 1 else found[0]), best


def _outermost(value: Any, grade: Grade) -> Iterator[Any]:
    """Wrappers that stand in no other one, in the order of the text."""
    pending = [value]  # no recursion: a value may be nested deeper than calls can be
    while pending:
        current = pending.pop()
        if isinstance(current, dict) and current is not value and grade(current) >= EMPTY_WRAPPER:
            yield current
            continue
        children = list(current.values()) if isinstance(current, dict) else current
        if isinstance(children, list):
            pending.extend(reversed(children))
