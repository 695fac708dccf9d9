"""What can be wrong with the text of one memory, for all texts of a batch at once. Pure."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe.evidence.instructions import is_instruction
from memorypipe.table.auditing.report import Check
from memorypipe.table.auditing.word_sums import WordSums

__all__ = ["row_checks"]

Mask = NDArray[np.bool_]

# A question of somebody, not what is known of them; in quotes it may be a title.
_QUESTION = r"[?？؟]\s*$"  # noqa: RUF001  # of other scripts

# What an assistant says to keep a conversation going, and tells nothing of anybody.
_CHATTER = (
    r"(?i)^\W*(?:sure|certainly|of course|absolutely|no problem|great question|good question|"
    r"you'?re welcome|glad to (?:hear|help)|happy to help|got it|understood|noted|okay|hello|"
    r"hi there|thank you for|thanks for)\b\s*[,.!:;\-]"
    r"|\b(?:as an ai\b|as a language model|as your assistant)"
    r"|(?i)^\W*(?:i'?m|i am) (?:sorry|here to help|happy to|glad to|just an ai|unable to)\b"
    r"|(?i)^\W*(?:i(?:'d| would) be (?:happy|glad) to|i can(?:'t|not)? help|i'll be happy to)"
    r"|(?i)\blet me know (?:if|how|when)\b"
    r"|(?i)\b(?:how|what) (?:can|may) i (?:help|assist|do for) you"
    r"|(?i)^\W*here (?:is|are) (?:a|an|the|some|your)\b[^.]*:"
    r"|(?i)\bhope (?:this|that) helps\b"
)

# A piece of a log that went in as it was.
_TRANSCRIPT = (
    r"(?im)^\s*(?:\[?\d{1,4}[:\-/.]\d{1,2}[^\]]{0,20}\]?\s*)?"
    r"(?:user|assistant|human|ai|bot|system|tool|developer|agent|customer|speaker ?\d*)\s*:\s"
    r"|[\"'](?:role|content|messages)[\"']\s*:\s*[\"'\[{]"
    r"|<\|[a-z_]+\|>|\[/?INST\]"
)

# None of the orders that `is_instruction` knows is without one of these; nearly all texts are,
# and looking for them takes a hundredth of the time.
_ORDER = (
    r"(?is)(?:ignor|disregard|forget|overrid|bypass).*"
    r"(?:instruc|rule|prompt|direct|guideline|istruzion|instruç|reglas|regras|regole|consignes|règles)"
    r"|(?:instructions?|prompt)\s*:|you are now"
    r"|(?:delete|erase|wipe|remove|clear|drop|purge|destroy|forget|overwrite|reset|update|replace).*"
    r"(?:memor|facts|records|database|id|entry|target|\d)"
    r"|(?:store|save|add|record|insert|write|remember|extract|output|return).*"
    r"(?:memor|fact|json|entry).*:"
    r"|(?:to|in|into)\s+(?:your|the)\s.*memor"
    r"|</?\s*[a-z-]|<\||inst\]|<<|[\"']event[\"']|[\"'](?:memories|actions)[\"']|target_id"
    r"|\[(?:system|developer|user|assistant|tool)|memories\s*:"
    r"|(?:system|developer).*:|(?:begin|end)\s+of"
    r"|ignorier|lösch|vergiss|entfern|supprim|effac|oubli|borra|elimina|olvida|apaga|exclu|cancella"
    r"|dimentica|игнорируй|удали|сотри|забудь|忽略|无视|無視|忘|删除|刪除|清除|清空|抹去|指示|命令"
    r"|ルール|プロンプト|記憶|メモリ|記録|지시|명령|규칙|기억|메모리|기록|تجاهل|احذف|امسح|निर्देश"
)
_EVERYDAY = (
    r"(?i)(?:ignore|disregard|forget)\s+(?:everything|all|the)|(?:store|save|add|record)[^:]*:"
    r"|(?:delete|erase|wipe)\s+(?:everything|all)|as (?:an?|the|your) (?:adm|dev|sys)"
    r"|(?:memory|extraction) (?:system|engine|extractor|model|agent|assistant)"
    r"|(?:do not|don't|never) (?:extract|store|save|record)"
    r"|(?:must|shall|should) (?:be )?(?:store|save|record|delete|overwrit)"
)
_EVERYDAY_NEEDED = 2


def row_checks(texts: pa.Array, sums: WordSums) -> Mapping[Check, Mask]:
    """Look at each text on its own.

    Args:
        texts: Strings without nulls.
        sums: Of the same texts.

    Returns:
        Check to which texts it found.
    """
    trimmed = pc.utf8_trim_whitespace(texts)
    is_empty = _mask(pc.equal(pc.utf8_length(trimmed), 0))
    return {
        "empty": is_empty,
        # Scripts without spaces have whole sentences of one word.
        "one_word": ~is_empty & (sums.words <= 1) & _mask(pc.string_is_ascii(texts)),
        "question": _matches(trimmed, _QUESTION),
        "chatter": _matches(trimmed, _CHATTER),
        "transcript": _matches(trimmed, _TRANSCRIPT),
        "instruction": _instructions(texts),
    }


def _instructions(texts: pa.Array) -> Mask:
    found = _matches(texts, _ORDER)
    found |= _mask(pc.greater_equal(pc.count_substring_regex(texts, _EVERYDAY), _EVERYDAY_NEEDED))
    places = np.flatnonzero(found)
    suspects = texts.take(pa.array(places)).to_pylist()
    found[places] = [is_instruction(text) for text in suspects]
    return found


def _matches(texts: pa.Array, pattern: str) -> Mask:
    return _mask(pc.match_substring_regex(texts, pattern))


def _mask(values: Any) -> Mask:
    return np.array(values.to_numpy(zero_copy_only=False), np.bool_)
