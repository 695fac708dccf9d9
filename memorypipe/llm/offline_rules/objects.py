"""Whether the object of a verb means something outside the conversation that it is said in."""

import re

from memorypipe.llm.offline_rules.lexicon import words

__all__ = ["is_passing", "object_of", "points"]

# An object that only the conversation around it explains.
_POINTING = re.compile(
    r"(?:(?:to|at|in|on|of|for|with|about|from|by|into|over|through|up|out|off|down|back|around|all"
    r"|both|just|really|more|so|doing|trying|using|making|hearing|seeing|having|getting|reading)\s+)*"
    r"(?:it|its|it's|that|that's|this|these|those|them|him|her|he|she|they|there|here|how|what|why|when"
    r"|where|who|somewhere|everything|something|anything|nothing|one|ones|some|so|such|if|whatever|things"
    r"|a (?:lot|bit|little|few|while|ton|chance|look|break|moment|minute|try|shot|big difference"
    r"|huge difference|difference|point|good point|great deal)|lots|much|more|both|all|well|better"
    r"|good|great|fine|ok|okay|too|as well|again|together|hard|alone|happy)\b(?!-)"
    r"(?:\s*[,.!?;]|\s+(?!own\b|old\b|new\b|first\b)|$)",
    re.IGNORECASE,
)

_WORD = re.compile(r"[^\W\d_]{2,}|\d|[\u3040-\u9fff]|\ue000")

_SMALL = words(
    """
    to at in on of for with about from by into and or the an my really very so too now then
    """
)

# Somewhere in the object: "a fan of this genre", "to match it with shoes".
_POINTING_LATER = re.compile(
    r"\w+ing (?:it|them|him|her|this|that)\b|(?:[\w'-]+ ){0,5}?(?:to|of|with|in|about|by|from"
    r"|at|for|on|into|over)(?: [a-z]+)? (?:this|that|these|those"
    r"|it|them|him|her|here|there)\b(?! (?:year|summer|winter|week|month|fall|autumn|spring|weekend"
    r"|day|time))"
)


def object_of(text: str) -> bool:
    """True where a verb's object names something by itself."""
    return (
        any(word.lower() not in _SMALL for word in _WORD.findall(text))
        and not _POINTING.match(text)
        and not _POINTING_LATER.match(text)
    )


_NO_POSSESSION = re.compile(
    r"(?:to\b|a (?:\w+ )?(?:question|idea|feeling|problem|suggestion|request|favor|favour|time"
    r"|blast"
    r"|moment|chance|chat|day|night|week|hunch|point|look|say|talk|doubt|thing|way|friend like"
    r"|sense"
    r"|story|concern|connection|reminder|lot|bit|ton|few|great|good|better|hard|really|similar|try"
    r"|plan|reason|break|understanding|better understanding|weekend|month|year|conversation)s?\b"
    r"|an? (?:interesting|amazing|awesome|incredible|unforgettable|important) (?:question|time|day"
    r"|idea|story|experience|topic|point)\b|an (?:idea|opportunity|issue|experience|impact"
    r"|update)\b"
    r"|no (?:idea|clue|doubt|problem|time|choice|plans?|money)\b|some (?:\w+ )?(?:questions?"
    r"|ideas?|"
    r"doubts?|time|news|fun|trouble|thoughts|issues|problems|things|work|tips|advice|great|good"
    r"|free time|experience|interest|updates?|concerns|exciting)\b|another\b|one (?:more"
    r"|question)\b|two questions"
    r"|(?:the|any|my (?:doubts|work|moments|ups|hands|back|reasons|own (?:way|problems|ideas)))\b)",
    re.IGNORECASE,
)


def points(text: str) -> bool:
    """True where the text begins with what only the conversation explains: "it", "a lot"."""
    return bool(_POINTING.match(text))


def is_passing(text: str) -> bool:
    """True for what one has for a moment only: a question, a feeling, a good time."""
    return bool(_NO_POSSESSION.match(text))
