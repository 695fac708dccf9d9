# ruff: noqa: RUF001, RUF002  # full-width marks are what this module reads
"""Statements in other languages than English: taken whole, as they were said."""

import re
from collections.abc import Iterator

from memorypipe.llm.offline_rules.sentences import without_citations

__all__ = ["other_statements"]

# A short number with a point is an ordinal: "am 4. Mai".
_OTHER_ENDINGS = re.compile(
    "(?<=[。！？!?؟।…])\\s*|(?<=\\.)(?<!\\b\\d\\.)(?<!\\b\\d\\d\\.)\\s+|\n+|[；;]"
)
_QUESTION = re.compile(
    "[?？؟]\\W*$|^\\s*¿|(?:吗|呢|么|か|かな|かしら|でしょう|까|까요|나요)[。！.!~～…\\s]*$"
    "|为什么|怎么|怎样|什么|哪些|哪里|如何"
)
_COURTESY = re.compile(
    "^(?:你好|您好|AI伴侣$|朋友$|嗨|哈喽|谢谢|多谢|感谢|非常感谢|再见|晚安|早上好|下午好|晚上好|好的|好啊|好吧|嗯|哇|太好了"
    "|太棒|没关系|对不起|不客气|当然|明白|是的|是啊|こんにちは|こんばんは|おはよう|ありがとう|どうも|すみません|はい|いいえ|了解"
    "|안녕|감사|고마|네[ ,.]|привет|здравствуй|спасибо|пока|хорошо|hola|buenos|buenas|gracias|adiós"
    "|vale"
    "|bonjour|bonsoir|salut|merci|au revoir|d'accord|hallo|guten|danke|vielen dank|tschüss|ciao"
    "|buongiorno|grazie|arrivederci|olá|oi|obrigad|tchau|dank|مرحبا|شكرا|नमस्ते|धन्यवाद)",
    re.IGNORECASE,
)
_CHINESE = re.compile("[\u4e00-\u9fff]")
_KANA_HANGUL = re.compile("[\u3040-\u30ff\uac00-\ud7af]")
# Talk about the chat, and moods that pass.
_CHINESE_CHAT = re.compile(
    "谢|感谢|感激|建议|推荐|你|您|如果|假如|要是|明白|我同意|我相信|我(?:应该|可以|能)|希望|好奇"
    "|我(?:也|先|一定|下次)?(?:会|要|想|得|需要|去试)"
    "(?:再|去|尝试|试|考虑|认真|努力|好好|尽|多|继续|问|知道|听|更|注意|按|好)"
    "|我(?:也|真的|还是)?(?:不知道|不太?明白|不确定|觉得|感觉|认为|知道|记住)|听起来|对不对|是不是"
    "|下次|再聊|试试|这么认为|这样认为|理解了?$|烦|心情|感到|难过|沮丧|焦虑|有(?:些|点)|问题|困惑|我先"
)
# What is only imagined, and orders to whoever reads along.
_NOT_MEANT = re.compile(
    "^(?:stell(?:en|t)? (?:dir|sie sich|euch) vor|angenommen|imagin(?:e|a|ez|ons)\\b"
    "|suppos(?:ons|ez)|supongamos|immagina|supponiamo|imagina|stel je voor|представь|假设|想象)"
    "|\\b(?:ignorier|ignor(?:a|e|ez|i)\\b)[^.]{0,20}(?:anweisung|instruc|istruzion|consign)"
    "|^(?:lösch|borra|elimina|efface|supprime|cancella)\\w* (?:alle|tod|tout|tutt)"
    "|忽略.{0,8}指令|无视.{0,8}指令",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r",\s*(?:(?:y|pero)\s+)?¿[^?]*\?\W*$|"
    r",\s*(?:(?:und|aber|y|pero|et|mais|e|ma|mas|en|maar|и|а)\s+)?(?:hast du"
    r"|habt ihr|haben sie|kannst du"
    r"|könnt ihr|können sie|kennst du|kennen sie|weißt du|wissen sie"
    r"|tienes|tiene usted|puedes|podrías"
    r"|conoces|sabes|as-tu|avez-vous|peux-tu|pouvez-vous|connais-tu|connaissez-vous|tu as|vous avez"
    r"|hai|puoi|conosci|sai|tens|você (?:tem|pode|conhece)|pode|heb je|kun je|ken je|weet je"
    r"|есть ли|у тебя|у вас|можешь|можете|знаешь|знаете)\b[^?]*\?\W*$",
    re.IGNORECASE,
)
# Before such a clause's end there is no statement to cut loose.
_LEFT_OPEN = re.compile(
    r"(?:weil|wenn|da|falls|als|obwohl|nachdem|si|cuando|como|aunque|porque|quand|comme|puisque|lorsque"
    r"|se|quando|siccome|poiché|omdat|если|когда)\b",
    re.IGNORECASE,
)
# One of these makes three words a statement: "Ich bin Vegetarier".
_OF_THE_SPEAKER = re.compile(
    r"\b(?:ich|mein\w*|soy|tengo|vivo|mi|mis|je|j'\w+|mon|ma|mes|sono|ho|mio|mia|eu|sou|tenho|moro"
    r"|meu|minha|ik|mijn|я|мой|моя|меня|أنا)\b",
    re.IGNORECASE,
)
# Scripts that put no spaces between words.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_FEWEST_WORDS = 4
_SHORT_COURTESY = 12
_SHORTEST = {"cjk": 5, "other": 12}


def other_statements(text: str) -> Iterator[str]:
    """The whole statements of a turn that is not English, verbatim.

    Questions, courtesies and scraps are left out; for Chinese also what is not about the speaker.

    Example:
        >>> list(other_statements("你好！我住在上海。你呢？"))
        ['我住在上海。']
    """
    for part in _OTHER_ENDINGS.split(without_citations(text)):
        sentence = part.strip()
        if not _LEFT_OPEN.match(sentence):
            sentence = _ASKED.sub("", sentence)
        if not sentence or _QUESTION.search(sentence) or _NOT_MEANT.search(sentence):
            continue
        if _CHINESE.search(sentence) and not _KANA_HANGUL.search(sentence):
            sentence = _chinese_core(sentence)
        if _says_something(sentence):
            yield sentence


def _says_something(sentence: str) -> bool:
    dense = bool(_CHINESE.search(sentence) or _KANA_HANGUL.search(sentence))
    if len(sentence) < _SHORTEST["cjk" if dense else "other"]:
        return False
    spaced = not (dense or _UNSPACED.search(sentence))
    if spaced and len(sentence.split()) < _FEWEST_WORDS and not _OF_THE_SPEAKER.search(sentence):
        return False
    return not (
        _COURTESY.search(sentence) and len(sentence) <= _SHORT_COURTESY * (1 if dense else 3)
    )


def _chinese_core(sentence: str) -> str:
    """The part that is about the speaker: courtesies before it and talk after it are cut off."""
    parts = sentence.split("，")
    while parts and (_COURTESY.search(parts[0]) or _CHINESE_CHAT.search(parts[0])):
        parts = parts[1:]
    while parts and (_COURTESY.search(parts[-1]) or _CHINESE_CHAT.search(parts[-1])):
        parts = parts[:-1]
    core = "，".join(parts)
    return "" if "我" not in core or _CHINESE_CHAT.search(core) else core
