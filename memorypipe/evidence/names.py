"""The proper names of a text, as far as its script tells them."""

import re
from collections.abc import Iterator

from memorypipe.evidence.lexicon import STOP_WORDS, SUBJECTS, VERBS, words
from memorypipe.rank.words import tokens

__all__ = ["knows_name", "new_runs", "proper_names"]

_WORD = re.compile(r"[^\W\d_](?:[\w'’&-]*\w)?")  # noqa: RUF001  # as typed
_SENTENCE_END = re.compile(r"(?:^|[.!?:;…\n。！？])[\s\"'“”„«»(\[*-]*$")  # noqa: RUF001  # full-width
_POSSESSIVE = re.compile(r"['’]s?$")  # noqa: RUF001  # as typed
_RUN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+|[\u30a0-\u30ff]+")
_RUN_CHARS = 2

# Words that put a fact in another way: none of them is a name.
_EVERYDAY_RUNS = re.compile(
    "用户|以前|之前|现在|現在|目前|后来|後来|已经|曾经|原来|最近|同时|以及|并且|还有|因为|由于|所以"
    "|喜欢|喜爱|讨厌|居住|工作|从事|拥有|计划|打算|觉得|认为|名叫|名字|每天|每周|不再|开始|停止"
    "|ユーザー|名前|好き|嫌い|仕事|利用者"
    "|이전|현재|지금|예전|이제|사용자|좋아|싫어"
)

_CALENDAR = words(
    "january february march april may june july august september october november december"
)

# Small words have a capital in titles only.
_NO_NAMES = _CALENDAR | SUBJECTS | STOP_WORDS

_ADVERBS = words("never once still always often sometimes before later today soon thus")

_GERMAN = words(
    "und ist nicht eine einen einem einer mit wohnt seit für auf bei ich früher jetzt zum zur vom "
    "arbeitet mag trinkt isst keine keinen"
)
_GERMAN_PREPOSITIONS = words("in aus nach bei von mit namens heißt")

# Endings of a name, as of a genitive or an adjective, that make no other name of it.
_ENDING_CHARS = 2
_STEM_CHARS = 3
_CASE_ENDINGS = "аяыиеуюойьм"  # Cyrillic


def proper_names(text: str, *, beside: str = "") -> list[str]:
    """Find the proper names of a text.

    A capital letter within a sentence makes a name. The first word of a sentence is one where it
    is written in capitals, or where it is the subject of a common English verb. In German, where
    every noun has a capital, names are told by the preposition before them. Scripts without
    capitals have none; for some of them see `new_runs`.

    Args:
        text: The text.
        beside: Further text in the same language, to tell the language by.

    Example:
        >>> proper_names("Eve is the admin of the Oslo office")
        ['Eve', 'Oslo']
    """
    return list(dict.fromkeys(_names(text, german=_is_german(f"{text} {beside}"))))


def new_runs(text: str, given: str) -> list[str]:
    """Find what may be a name in Chinese, Japanese or Korean: characters that are all new.

    No letter tells a name there, so it is told by what was given: two or more characters in a
    row that stand nowhere in it, apart from everyday words.

    Example:
        >>> new_runs("现在住在广州", "住在北京")
        ['广州']
    """
    known = set(given)
    found: list[str] = []
    for run in _RUN.findall(_EVERYDAY_RUNS.sub(" ", text)):
        marked = "".join(" " if char in known else char for char in run)
        found += [part for part in marked.split() if len(part) >= _RUN_CHARS]
    return list(dict.fromkeys(found))


def _names(text: str, *, german: bool) -> Iterator[str]:
    found = list(_WORD.finditer(text))
    plain = [_POSSESSIVE.sub("", match[0]) for match in found]
    for place, match in enumerate(found):
        word = plain[place]
        if not word[0].isupper() or word == "I" or word.casefold() in _NO_NAMES:
            continue
        if german and not _is_german_name(plain, place):
            continue
        if _opens(text, match.start()) and not _is_opening_name(plain, place):
            continue
        yield word


def _opens(text: str, start: int) -> bool:
    return bool(_SENTENCE_END.search(text[:start]))


def _is_opening_name(sentence: list[str], place: int) -> bool:
    word, *after = sentence[place : place + 3]
    if _is_adverb(word):
        return False
    if len(word) > 1 and word.isupper():
        return True
    if after and after[0][:1].isupper():
        after = after[1:]
    return bool(after) and after[0] in VERBS


def _is_adverb(word: str) -> bool:
    return word.endswith("ly") or word.casefold() in _ADVERBS


def _is_german_name(sentence: list[str], place: int) -> bool:
    return place > 0 and sentence[place - 1] in _GERMAN_PREPOSITIONS


def _is_german(text: str) -> bool:
    return any(word in _GERMAN for word in _WORD.findall(text))


def knows_name(name: str, text: str) -> bool:
    """Whether a name occurs in a text, in whatever case and with whatever ending.

    Example:
        >>> knows_name("Oskar", "oskars flat"), knows_name("Eve", "Every day")
        (True, False)
    """
    held = {_undeclined(word) for word in tokens(text)}
    return all(any(_same_name(_undeclined(part), word) for word in held) for part in tokens(name))


def _undeclined(word: str) -> str:
    """A Russian name without its case; others as they are."""
    return word.rstrip(_CASE_ENDINGS) or word


def _same_name(name: str, word: str) -> bool:
    if name == word:
        return True
    short, long = sorted((name, word), key=len)
    stem = long.startswith(short) and len(short) > _STEM_CHARS
    return stem and len(long) - len(short) <= _ENDING_CHARS
