"""From a turn to the sentences and clauses in it that speak for the user."""

import re
from collections.abc import Iterator

from memorypipe.llm.offline_rules.lexicon import words

__all__ = [
    "clauses",
    "is_english",
    "mask_quotes",
    "sentences",
    "straighten",
    "unmask",
    "without_citations",
]

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CITED_LINE = re.compile(r"^\s*>.*$", re.MULTILINE)
_APOSTROPHE = re.compile("(?<=[A-Za-z])[\u2019\u02bc](?=(?:m|s|t|d|re|ve|ll)\\b)", re.IGNORECASE)
_LOWER_I = re.compile(r"(?<![\w.'-])i(?=(?:'(?:m|ve|ll|d))?(?:\s|,|$))")
_UNMARKED = {
    "im": "I'm", "ive": "I've", "dont": "don't", "didnt": "didn't", "cant": "can't",
    "havent": "haven't", "isnt": "isn't", "wont": "won't", "doesnt": "doesn't",
}  # fmt: skip
_UNMARKED_WORD = re.compile(r"\b(?:" + "|".join(_UNMARKED) + r")\b", re.IGNORECASE)
# Quoted words are another's, or a title: they are neither searched nor changed.
_QUOTED = re.compile('"[^"\n]{1,300}"|\u201c[^\u201d\n]{1,300}\u201d')
_MASK = re.compile("\ue000(\\d+)\ue001")

_ENDINGS = re.compile(
    r"""(?<=[.!?\u2026])["')\]\u201d]*\s+(?=\S)   # closed by a mark and white space
      | \n+""",
    re.VERBOSE,
)
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Mt|vs|e\.g|i\.e|approx)|\b[A-Z])\.$")
# These also end sentences: a capital letter after them decides.
_MAYBE_ABBREVIATION = re.compile(r"\b(?:Jr|Sr|etc|a\.m|p\.m|Inc|Ltd|Co)\.$")

_ENGLISH = words(
    """
    the is are was were my your i i'm i've it's don't of to and that this with for have has
    had be been but not what how can you we they it at from about very really just like so
    love am me in on a an will going would there their our by or as if
    """
)
_FOREIGN = words(
    """
    el la los las es un una que de del y en por para con mi me tengo soy muy pero como yo su
    le les des est et je j'ai suis mon ma mes une dans pour avec pas très nous vous c'est der
    die das und ist ich bin habe ein eine mein meine nicht mit für auf zu den dem sehr wir il
    lo gli di è ho sono mio mia non che per con una nel della molto o os as um uma eu meu
    minha não com tenho sou muito em het een ik ben heb mijn niet van voor met zijn
    """
)
_SHARED = words(
    """
    a an as at de die do en for he i in is it me no on or so was we will o
    """
)
_ENGLISH_ONLY = _ENGLISH - _SHARED
_FOREIGN_ONLY = _FOREIGN - _SHARED
_BEYOND_LATIN = re.compile("[\u0370-\u1cff\u1f00-\u1fff\u2e80-\ud7ff\uf900-\ufaff\uff66-\uffdc]")

_LEFT_OPEN = re.compile(
    r"(?:if|when|while|since|because|after|before|although|though|whenever|until|once|as"
    r"|unless|even|in case|every time|the (?:day|time|moment|year))\b[^,]*$",
    re.IGNORECASE,
)
_CLAUSE_BREAK = re.compile(
    r"\s*(?:[;,]|\s[-\u2013\u2014]+|\u2014|\.\.\.|\u2026|:)\s*"
    r"(?:(?:and|but|so|plus|yet)\b,?\s+)?(?:also,?\s+)?(?=(?:I|I'\w+|[Ww]e|[Ww]e'\w+)\s)"
    r"|\s+(?:and|but|so)\s+(?=(?:I|I'\w+)\s)"
)
_SUBJECT_ONLY_WORDS = 5


def without_citations(text: str) -> str:
    """Cut code blocks and cited lines: they are not the user's own words."""
    if "```" in text or ">" in text:
        return _CITED_LINE.sub("", _FENCE.sub("\n", text))
    return text


def straighten(text: str) -> str:
    """Bring contractions and the word "I" to their usual spelling; nothing else changes."""
    text = without_citations(text)
    text = text if text.isascii() else _APOSTROPHE.sub("'", text)
    if text[:1].islower() or " i" in text or "nt" in text:
        text = _LOWER_I.sub("I", text)
        text = _UNMARKED_WORD.sub(_marked, text)
    return text


def _marked(match: re.Match[str]) -> str:
    word = match.group()
    # "IM" is instant messaging, "Ive" a name: only all-lower spellings and sentence starts count.
    if not (word.islower() or (match.start() == 0 and word[1:].islower())):
        return word
    return _UNMARKED[word.lower()]


def mask_quotes(text: str) -> tuple[str, list[str]]:
    """Replace quoted spans by opaque marks, so that no rule reads or changes them."""
    spans: list[str] = []

    def keep(match: re.Match[str]) -> str:
        spans.append(match.group())
        return f"\ue000{len(spans) - 1}\ue001"

    return _QUOTED.sub(keep, text), spans


def unmask(text: str, spans: list[str]) -> str:
    """Put the quoted spans back."""
    return _MASK.sub(lambda match: spans[int(match.group(1))], text) if spans else text


def sentences(text: str) -> Iterator[str]:
    """Split English text into sentences; abbreviations and initials do not end one."""
    start = 0
    for match in _ENDINGS.finditer(text):
        head = text[start : match.start()]
        if "\n" not in match.group() and _goes_on(head, text[match.end()]):
            continue
        if head.strip():
            yield head.strip()
        start = match.end()
    if text[start:].strip():
        yield text[start:].strip()


def _goes_on(head: str, following: str) -> bool:
    if _ABBREVIATION.search(head):
        return True
    return not following.isupper() and bool(_MAYBE_ABBREVIATION.search(head))


def clauses(sentence: str) -> Iterator[str]:
    """Split a sentence where a new statement in the first person begins, and only where safe.

    Example:
        >>> list(clauses("I live in Rome, but I work in Milan."))
        ['I live in Rome', 'I work in Milan.']
        >>> list(clauses("When I was young, I lived in Rome."))
        ['When I was young, I lived in Rome.']
        >>> list(clauses("My wife and I moved to Rome."))
        ['My wife and I moved to Rome.']
    """
    start = 0
    for match in _CLAUSE_BREAK.finditer(sentence):
        head = sentence[start : match.start()].strip()
        if _LEFT_OPEN.match(head) or _is_half_subject(head, match.group()):
            continue
        if head:
            yield head
        start = match.end()
    if sentence[start:].strip():
        yield sentence[start:].strip()


def _is_half_subject(head: str, joint: str) -> bool:
    """True for "My wife (and I …)": one subject in two halves, or a lead of the clause."""
    short = len(head.split()) <= _SUBJECT_ONLY_WORDS
    if joint.strip() in {"and", "but", "so"}:
        return short and not head.startswith(("I ", "I'"))
    return short and not head.startswith(("I ", "I'", "My ", "We ")) and joint.strip() == ","


def is_english(text: str) -> bool:
    """True where English rules can read a turn: by script first, then by its small words.

    Example:
        >>> is_english("I live in Rome"), is_english("Vivo a Roma con mia moglie")
        (True, False)
    """
    if not text.isascii():
        other = len(_BEYOND_LATIN.findall(text))
        # One CJK character says as much as a short word.
        if other * 3 > len(text.split()):
            return False
    words = text.lower().split()
    foreign = len([word for word in words if word in _FOREIGN_ONLY])
    return not foreign or foreign <= len([word for word in words if word in _ENGLISH_ONLY])
