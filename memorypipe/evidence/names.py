"""The proper names of a text, as far as its script tells them."""

import re
from collections.abc import Iterator

from memorypipe.evidence.lexicon import SUBJECTS, VERBS, words
from memorypipe.rank.words import tokens

__all__ = ["knows_name", "proper_names", "subject_of"]

_WORD = re.compile(r"[^\W\d_](?:[\w'’&-]*\w)?")  # noqa: RUF001  # as typed
_SENTENCE_END = re.compile(r"(?:^|[.!?:;…\n。！？])[\s\"'“”„«»(\[*-]*$")  # noqa: RUF001  # full-width
_POSSESSIVE = re.compile(r"['’]s?$")  # noqa: RUF001  # as typed
_CJK_RUN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]{2,}|[\u30a0-\u30ff]{2,}")

# What joins two values of one memory.
_CJK_JOINTS = re.compile(
    "以前|之前|现在|現在|目前|后来|後来|已经|曾经|原来|今は|이전|현재|지금|예전|이제"
)

_CALENDAR = words(
    "january february march april may june july august september october november december"
)

_GERMAN = words(
    "und ist nicht eine einen einem einer mit wohnt seit für auf bei ich früher jetzt zum zur vom "
    "arbeitet mag trinkt isst keine keinen"
)
_GERMAN_PREPOSITIONS = words("in aus nach bei von mit namens heißt")

# Endings of a name, as of a genitive or an adjective, that make no other name of it.
_ENDING_CHARS = 2
_STEM_CHARS = 3


def proper_names(text: str, *, beside: str = "") -> list[str]:
    """Find the proper names of a text.

    A capital letter within a sentence makes a name. The first word of a sentence is one where it
    is written in capitals, where another name follows, or where it is the subject of a common
    English verb. In German, where every noun has a capital, names are told by the preposition
    before them. In Chinese and Korean no letter tells a name: every run of two and more
    characters stands for one, and a Japanese name or foreign word is a run of katakana. Other
    scripts without capitals have none.

    Args:
        text: The text.
        beside: Further text in the same language, to tell the language by.

    Example:
        >>> proper_names("Eve is the admin of the Oslo office")
        ['Eve', 'Oslo']
    """
    found = list(dict.fromkeys(_names(text, german=_is_german(f"{text} {beside}"))))
    return [*found, *_CJK_RUN.findall(_CJK_JOINTS.sub(" ", text))]


def _names(text: str, *, german: bool) -> Iterator[str]:
    found = list(_WORD.finditer(text))
    plain = [_POSSESSIVE.sub("", match[0]) for match in found]
    for place, match in enumerate(found):
        word = plain[place]
        if not word[0].isupper() or word == "I" or word.casefold() in _CALENDAR | SUBJECTS:
            continue
        if german and not _is_german_name(plain, place):
            continue
        if _opens(text, match.start()) and not _is_opening_name(plain, place):
            continue
        yield word


def _opens(text: str, start: int) -> bool:
    return bool(_SENTENCE_END.search(text[:start]))


def _is_opening_name(sentence: list[str], place: int) -> bool:
    word = sentence[place]
    after = sentence[place + 1] if place + 1 < len(sentence) else ""
    if len(word) > 1 and word.isupper():
        return True
    return (after[:1].isupper() and after != "I") or after in VERBS


def _is_german_name(sentence: list[str], place: int) -> bool:
    return place > 0 and sentence[place - 1] in _GERMAN_PREPOSITIONS


def _is_german(text: str) -> bool:
    return any(word in _GERMAN for word in _WORD.findall(text))


def knows_name(name: str, text: str) -> bool:
    """Whether a name occurs in a text, in whatever case and with whatever ending.

    Of a run of Chinese or Korean characters one that occurs is enough.

    Example:
        >>> knows_name("Oskar", "oskar's flat"), knows_name("Eve", "Every day")
        (True, False)
    """
    if _CJK_RUN.fullmatch(name):
        return any(char in text for char in name)
    held = set(tokens(text))
    return all(any(_same_name(part, word) for word in held) for part in tokens(name))


def _same_name(name: str, word: str) -> bool:
    if name == word:
        return True
    short, long = sorted((name, word), key=len)
    stem = long.startswith(short) and len(short) > _STEM_CHARS
    return stem and len(long) - len(short) <= _ENDING_CHARS


def subject_of(text: str) -> str | None:
    """Give whom a sentence says to be its subject; None where it does not begin with one.

    Example:
        >>> subject_of("Alice is CEO of Acme"), subject_of("Lives in Rome")
        ('alice', None)
    """
    said = _WORD.findall(text)
    for size in (1, 2):
        if len(said) > size and said[size] in VERBS:
            subject = [_POSSESSIVE.sub("", word).casefold() for word in said[:size]]
            return None if SUBJECTS.intersection(subject) else " ".join(subject)
    return None
