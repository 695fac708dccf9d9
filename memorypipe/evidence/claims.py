"""What a new text claims that none of its sources does."""

from collections.abc import Sequence

from memorypipe.evidence.figures import figures, known_figures
from memorypipe.evidence.likeness import is_negated, tells_change
from memorypipe.evidence.names import knows_name, proper_names

__all__ = ["unfounded"]


def unfounded(text: str, sources: Sequence[str]) -> tuple[str, ...]:
    """Give the numbers, dates and proper names of a text that occur in none of its sources.

    A negation that no source has, and a denial that the text drops while every source has it,
    are unfounded too.

    Args:
        text: A merged, changed or new memory.
        sources: What it was made of: the memory before, the fact, and what goes with them.

    Returns:
        What is unfounded, as written; empty where everything rests on something.

    Example:
        >>> unfounded("Has 3 cats and lives with Eve", ["Has 2 cats", "Now has 3 cats"])
        ('Eve',)
    """
    given = "\n".join(sources)
    known = known_figures(given)
    made_up = [written for written, readings in figures(text).items() if not readings & known]
    names = proper_names(text, beside=given)
    made_up += [name for name in names if not knows_name(name, given)]
    if is_negated(text) and not is_negated(given):
        made_up.append("not")
    elif sources and all(map(is_negated, sources)) and not tells_change(text):
        made_up.append("a denial turned round")
    return tuple(dict.fromkeys(made_up))
