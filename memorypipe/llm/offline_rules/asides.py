"""What, within a sentence, is said to the assistant: it is cut, so that the statement remains."""

import re

__all__ = ["without_asides"]

_JOINT = r"(?:[,;:\u2014]|\s[-\u2013])\s*(?:(?:so|and|but)\s+)?"
# Up to the next statement of the speaker, so that nothing but the aside is lost.
_TO_ITS_END = r"\b(?:(?![,;]\s+(?:and|but)\s+(?:I|I'\w+|[Mm]y)\b).)*"
_IMPERATIVE = (
    r"(?:please(?!\s+(?:note|remember|know)(?:\s+that)?\s+(?:I|my)\b)|tell me|let me know"
    r"|keep (?:that|this|it) in mind|bear (?:that|this|it|with)|give me|show me|help me)"
)
_AFTER_SO = (
    r"(?:please|just|tell|let|keep|bear|remember|note|don't|do not|make|skip|leave|give|avoid"
    r"|suggest|recommend|show|help|send|choose|pick|no need)"
)
_REQUEST = re.compile(
    rf"(?:[,;:\u2014]|\s[-\u2013])?\s+so\s+{_AFTER_SO}{_TO_ITS_END}"
    rf"|{_JOINT}{_IMPERATIVE}{_TO_ITS_END}"
    rf"|{_JOINT}(?:can|could|would|will)\s+you{_TO_ITS_END}"
    rf"|{_JOINT}(?:got\s+)?any\s+(?:good\s+)?(?:ideas?|tips?|advice|suggestions?|recommendations?"
    rf"|thoughts){_TO_ITS_END}"
    # "in case I am late" tells of the speaker.
    rf"|,\s+(?:just\s+)?in\s+case\s+(?!(?:I|my|we|our|of)\b){_TO_ITS_END}",
    re.DOTALL,
)
_QUESTION = re.compile(
    rf"{_JOINT}(?!(?:am|do|don't|did|didn't|have|haven't|was|wasn't|aren't)\s+I\?"
    r"|is(?:n't)?\s+(?:it|that|this)(?:\s+(?:right|correct|true))?\?)"
    r"(?:do|does|did|don't|can|could|would|will|should|shall|have|has|are|is|isn't|was|were|what"
    r"|what's|how|how's|which|who|where|when|why)\b[^?]*\?\W*$"
)
_ASKING = re.compile(
    r"(?:do|does|did|can|could|would|will|should|shall|have|has|are|is|am|was|were|what|how|which"
    r"|who|where|why|if|when|since|because|although|as|given|did you know)\b",
    re.IGNORECASE,
)
_INTERJECTION = re.compile(r",\s+(?:by\s+the\s+way|btw),\s+", re.IGNORECASE)


def without_asides(sentence: str) -> str:
    """Cut what a sentence asks of the assistant: a request, a question after a statement.

    A sentence that begins as a question stays whole, and so does a tag ("… don't I?") that puts
    the statement itself in question.

    Example:
        >>> without_asides("I'm a vegetarian, so tell me if you know a good place.")
        "I'm a vegetarian"
        >>> without_asides("I'm lactose intolerant, do you have a recipe?")
        "I'm lactose intolerant"
        >>> without_asides("When I'm in Rome, what should I eat?")
        "When I'm in Rome, what should I eat?"
    """
    if _ASKING.match(sentence):
        return sentence
    kept = _INTERJECTION.sub(" ", sentence)
    return _QUESTION.sub("", _REQUEST.sub("", kept))
