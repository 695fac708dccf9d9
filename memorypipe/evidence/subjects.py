# ruff: noqa: RUF001  # letters of other scripts, on purpose
"""Whom a text is about, as far as its first words tell.

What is told of one person is never made into something about another, nor about the user. In most
memories the user is meant and not named, so a text without a subject is about the user.
"""

import re
from collections.abc import Sequence

from memorypipe.evidence.lexicon import (
    KIN,
    OTHER_VERBS,
    PERSON_VERBS,
    STOP_WORDS,
    SUBJECTS,
    VERBS,
    words,
)
from memorypipe.evidence.likeness import content_words, is_negated
from memorypipe.evidence.names import knows_name
from memorypipe.rank.words import tokens

__all__ = [
    "is_told_of_another",
    "leaves_out_subject",
    "other_subjects",
    "subject_of",
    "turns_to_other_person",
]

_WORD = re.compile(r"[^\W\d_](?:[\w'’&-]*\w)?")
_POSSESSIVE = re.compile(r"['’]s?$")
_LONGEST_NAME = 2
_SENTENCE = re.compile(r"[^.!?…\n。！？]+")

# Who speaks, where they speak of themselves too.
_SPEAKER = re.compile(
    r"(?<!\w)(?:i|we|me|us|i'm|i've|ich|wir|mir|mich|uns|je|j'|nous|moi|yo|nosotros|nos|eu|nós|io|noi|"
    r"я|мы|мне|меня|нам)(?!\w)|我|私|僕|俺|나는|저는|내가|제가",
    re.IGNORECASE,
)

# Stand before a subject, and name nobody.
_BEFORE = words(
    "the my our his her their user's new old current former previous next last present "
    "der die das dem mein meine sein seine ihr ihre unser unsere le la les mon ma mes notre sa "
    "el los las mi mis su sus nuestro nuestra il lo mio mia suo sua os meu minha seu het "
    "mijn zijn haar мой моя его её"
)
# Stand between a subject and its verb.
_BETWEEN = words(
    "no longer never also really still always often now just not usually sometimes and "
    "doesn't don't didn't isn't wasn't hasn't won't can't couldn't wouldn't does do did "
    "no ya nunca también non mai não nunca também ne больше не уже"
)
_NEGATED = words("doesn't don't didn't never not")
_BARE_VERBS = frozenset(verb.removesuffix("s") for verb in PERSON_VERBS if verb.endswith("s"))
# Turkish puts what a verb is about before it, too: what stands there is no subject.
_SUBJECT_VERBS = frozenset(
    verb.casefold()
    for verb in VERBS | OTHER_VERBS | PERSON_VERBS | words("ist hat est es ha tiene")
) - words("yaşıyor çalışıyor seviyor")
_NO_SUBJECTS = (SUBJECTS | STOP_WORDS | _BETWEEN | _SUBJECT_VERBS) | words(
    "today tomorrow yesterday once soon then later sometimes anyone anything nothing got "
    "maybe perhaps almost seldom instead again meanwhile nowadays lately since already even "
    "rather quite twice often after before during "
    "jetzt heute früher immer oft gerne seit derzeit zurzeit aktuell momentan mittlerweile "
    "inzwischen gerade bald manchmal selten niemals meistens vielleicht wieder noch schon zuletzt "
    "neuerdings gestern außerdem "
    "maintenant toujours souvent désormais actuellement récemment dorénavant aujourd'hui hier "
    "bientôt parfois rarement depuis encore généralement normalement habituellement surtout "
    "ahora siempre antes hoy ayer actualmente recientemente últimamente desde todavía aún casi "
    "normalmente generalmente raramente quizás agora sempre atualmente recentemente ultimamente "
    "hoje ontem ainda geralmente talvez quase adesso ora oggi ieri attualmente ormai ancora "
    "spesso talvolta forse "
    "теперь сейчас раньше всегда часто иногда недавно сегодня вчера обычно редко никогда почти "
    "снова опять ещё еще тоже также "
    "teraz zawsze obecnie dziś dzisiaj niedawno często rzadko czasami prawie znowu jeszcze "
    "nu numera idag nyligen ofta sällan ibland fortfarande "
    "altijd tegenwoordig momenteel vandaag vaak zelden soms bijna sinds"
)
# Right behind a verb these are its subject, whatever stands before it.
_BEHIND_VERB = words("er ich wir hij ik wij")

# Scripts without spaces: what stands before a common verb, or before the mark of a subject.
_HAN_VERB = "是|住|有|喜欢|讨厌|喜爱|在|养|想|爱|叫|来自|工作|毕业|结婚|搬|去|买|卖|学"
_HAN = re.compile(rf"([\u3400-\u9fff]{{1,4}}?)(?:不|没|没有|已经|也|还|刚|最|很|都)*({_HAN_VERB})")
_HAS_HAN_VERB = re.compile(f"{_HAN_VERB}|[不没也还最很都]")
_MARKED = re.compile(r"([^\s、。,.\w]|[^\W\d_]){1,8}?(?:は|(?:은|는)(?=\s))")
_NOBODY = re.compile(
    "用户|客户|我|你|您|他|她|它|谁|名字|现在|以前|之前|最近|目前|当前|如今|近来|近期|曾|每|一|从|后来|平时|周|今|昨"
    "|去年|明天|明年|只|打算|计划|准备|决定|开始|早|晚|特别|非常|十分|真的|更|比较|尤其|仍|依然|经常|通常|常常|偶尔"
    "|有时|总是|正在|将来"
    "|ユーザー|私|彼|現在|名前|普段|昔|週末|毎|来年|当時"
    "|사용자|나$|저$|그$|그녀|이름|지금|이제|현재|최근|요즘|평소|주말|오늘|어제|내일|작년|올해|예전"
)


def subject_of(text: str) -> str | None:
    """Give whom or what a text says to be its subject; None where it does not begin with one.

    Example:
        >>> subject_of("Alice is CEO of Acme"), subject_of("My sister Ann doesn't like tea")
        ('alice', 'sister ann')
        >>> subject_of("Lives in Rome"), subject_of("小明住在北京")
        (None, '小明')
    """
    return _subject_and_verb(text)[0]


def other_subjects(a: str, b: str) -> bool:
    """Whether two texts say whom they are about, and it is not the same one.

    Two who share a first name and differ in the rest are not the same one either.

    Example:
        >>> other_subjects("Alice is CEO of Acme", "Sarah is CTO of Acme")
        True
        >>> other_subjects("Son Max is a doctor", "Colleague Max is a teacher")
        True
        >>> other_subjects("Brother Tom is a pilot", "Tom is tall")
        False
    """
    subject_a, subject_b = subject_of(a), subject_of(b)
    if subject_a is None or subject_b is None or subject_a == subject_b:
        return False
    parts_a, parts_b = subject_a.split(), subject_b.split()
    if len(parts_a) == len(parts_b) == _LONGEST_NAME:
        differing = [pair for pair in zip(parts_a, parts_b, strict=True) if pair[0] != pair[1]]
        if len(differing) == 1:
            ((of_a, of_b),) = differing
            return not (knows_name(of_a, b) or knows_name(of_b, a))
    return not (_names_any(subject_a, b) or _names_any(subject_b, a))


def turns_to_other_person(fact: str, memory: str) -> bool:
    """Whether a fact tells of a person, and the memory, which names no subject, not of that one.

    Example:
        >>> turns_to_other_person("Jack doesn't like football", "Likes football")
        True
        >>> turns_to_other_person("Jack moved out", "Lives with Jack")
        False
    """
    subject, verb = _subject_and_verb(fact)
    if subject is None or subject_of(memory) is not None or _names_any(subject, memory):
        return False
    return verb in PERSON_VERBS or bool(KIN.intersection([subject, *subject.split()]))


def is_told_of_another(fact: str, text: str) -> bool:
    """Whether a fact about the user stands only where a message tells of somebody else.

    Example:
        >>> is_told_of_another("Dislikes football", "Jack dislikes football. I went home.")
        True
        >>> is_told_of_another("Dislikes football", "Jack and I both dislike football.")
        False
    """
    if subject_of(fact) is not None:
        return False
    words = content_words(fact)
    hits = {sentence: len(content_words(sentence) & words) for sentence in _SENTENCE.findall(text)}
    most = max(hits.values(), default=0)
    best = [sentence for sentence, count in hits.items() if count == most]
    return most > 0 and all(
        turns_to_other_person(sentence, fact) and not _SPEAKER.search(sentence) for sentence in best
    )


def leaves_out_subject(fact: str, text: str) -> bool:
    """Whether a text made of a fact does not name whom the fact is about.

    Example:
        >>> leaves_out_subject("Jack likes coffee", "Likes tea and coffee")
        True
    """
    subject = subject_of(fact)
    return subject is not None and not _names_any(subject, text)


def _names_any(subject: str, text: str) -> bool:
    """Whether a text names a subject, or a part of its name."""
    held = set(tokens(text))
    parts = [part for part in subject.split() if part not in STOP_WORDS]
    return any(set(tokens(part)) <= held or knows_name(part, text) for part in parts)


def _subject_and_verb(text: str) -> tuple[str | None, str]:
    found = [match[0].replace("’", "'") for match in _WORD.finditer(text)]
    said = _without_leading(found)
    for size in range(1, _LONGEST_NAME + 1):
        verb = _verb_after(said, size)
        if verb is not None:
            parts = [_POSSESSIVE.sub("", word).casefold() for word in said[:size]]
            is_nobody = SUBJECTS.intersection(parts) or _is_no_subject(parts[0])
            return (None, "") if is_nobody else (" ".join(parts), verb)
    return _unspaced(text)


def _without_leading(said: Sequence[str]) -> Sequence[str]:
    start = 0
    while start < len(said) - 1 and said[start].casefold() in _BEFORE:
        start += 1
    return said[start:]


def _verb_after(said: Sequence[str], size: int) -> str | None:
    """The verb of a subject of so many words; None where none follows."""
    is_bare = False
    for place in range(size, len(said)):
        word = said[place].casefold()
        if is_bare and word in _BARE_VERBS:
            return f"{word}s"
        if word in _SUBJECT_VERBS:
            return None if _BEHIND_VERB.intersection(said[place + 1 : place + 2]) else word
        if word not in _BETWEEN and not is_negated(word):
            return None
        is_bare = is_bare or word in _NEGATED
    return None


def _is_no_subject(word: str) -> bool:
    if word in KIN:  # as "son", which is his in French
        return False
    return word in _NO_SUBJECTS or word.endswith("ly") or is_negated(word)


def _unspaced(text: str) -> tuple[str | None, str]:
    """The subject and verb where words are not parted by spaces, or the subject has a mark."""
    text = text.strip()
    if text.isascii():
        return None, ""
    verb = ""
    if marked := _MARKED.match(text):
        who = re.sub("[は은는]$", "", marked[0])
    elif (han := _HAN.match(text)) and not _HAS_HAN_VERB.search(han[1]):
        who, verb = han[1], han[2]
    else:
        return None, ""
    is_somebody = len(who) > 1 or who in KIN
    return (who, verb) if is_somebody and not _NOBODY.match(who) else (None, "")
