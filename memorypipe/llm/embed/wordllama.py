"""Static embeddings whose weights come inside a package: no network, no graphics card.

Each token has one vector, and a text the mean of its tokens'. Only the files of the package
`wordllama` are used: its code sets up logging for the whole process, and pads every text to the
longest beside it.
"""

import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from memorypipe.errors import ModelError
from memorypipe.llm.embed.types import Matrix

__all__ = ["WORDLLAMA_NAME", "WordLlamaEmbedder", "has_wordllama"]

WORDLLAMA_NAME = "wordllama/l2_supercat/256"
"""Names the vectors: the weights, and how many of their dimensions."""

_PACKAGE = "wordllama"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_TOKENS, _DIM = 32_000, 256

# Any length could be taken; this bounds the memory that one text takes.
_MAX_CHARS = 16_384
# Where the vectors of a batch still fit into the processor's cache.
_BATCH_TEXTS = 512


def has_wordllama() -> bool:
    """Tell whether the extra ``embed`` is installed."""
    return importlib.util.find_spec(_PACKAGE) is not None


@dataclass(frozen=True)
class WordLlamaEmbedder:
    """Embeds with the static vectors of the package `wordllama`, extra ``embed``.

    The weights (32 MB of memory) are loaded by the first text, once per process. A text's vector
    does not depend on the texts beside it.

    Example:
        >>> from memorypipe.llm.embed.unit_vectors import embed_texts
        >>> tea, drink, car = embed_texts(WordLlamaEmbedder(), ["tea", "a hot drink", "my car"])
        >>> bool(tea @ drink > tea @ car)
        True
    """

    @property
    def name(self) -> str:
        """See `Embedder`."""
        return WORDLLAMA_NAME

    @property
    def dim(self) -> int:
        """See `Embedder`."""
        return _DIM

    @property
    def max_chars(self) -> int | None:
        """See `Embedder`."""
        return _MAX_CHARS

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder`.

        Raises:
            ModelError: Where the package is not installed, or another version than is known.
        """
        model = _load()
        vectors = np.empty((len(texts), _DIM), np.float32)
        for start in range(0, len(texts), _BATCH_TEXTS):
            batch = list(texts[start : start + _BATCH_TEXTS])
            vectors[start : start + len(batch)] = _sum_tokens(model, batch)
        return vectors


@dataclass(frozen=True, kw_only=True)
class _Model:
    tokenizer: Any
    weights: Matrix


_lock = threading.Lock()
_loaded: list[_Model] = []


def _load() -> _Model:
    with _lock:
        if not _loaded:
            _loaded.append(_read_model())
        return _loaded[0]


def _read_model() -> _Model:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelError(
            f"Embedder {WORDLLAMA_NAME!r} needs the package {_PACKAGE!r}: install "
            "memorypipe[embed], or choose another embedder."
        )
    # A fifth of a second that only those who embed need.
    from safetensors.numpy import load_file  # noqa: PLC0415  # see above
    from tokenizers import Tokenizer  # noqa: PLC0415  # see above

    folder = Path(spec.origin).parent
    try:
        weights = load_file(str(folder / _WEIGHTS))["embedding.weight"].astype(np.float32)
        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    except Exception as error:  # the tokenizer library raises bare exceptions
        raise ModelError(
            f"The installed package {_PACKAGE!r} lacks the files of embedder {WORDLLAMA_NAME!r}: "
            f"{error}. Install the version that memorypipe[embed] asks for."
        ) from error
    if weights.shape != (_TOKENS, _DIM):
        raise ModelError(
            f"The installed package {_PACKAGE!r} has weights of shape {weights.shape!r}, not "
            f"{(_TOKENS, _DIM)!r}. Install the version that memorypipe[embed] asks for."
        )
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _Model(tokenizer=tokenizer, weights=weights)


def _sum_tokens(model: _Model, texts: list[str]) -> Matrix:
    """Add up the vectors of each text's tokens, the first tokens of all texts first."""
    # A lone surrogate, half an emoji, is no text that a tokenizer takes.
    texts = [text.encode(errors="replace").decode() for text in texts]
    encoded = model.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    tokens = [each.ids for each in encoded]
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    longest_first = np.argsort(-lengths, kind="stable")
    flat = np.fromiter(chain.from_iterable(tokens), np.int64, lengths.sum())
    starts = (np.cumsum(lengths) - lengths)[longest_first]
    lengths = lengths[longest_first]
    sums = np.zeros((len(texts), _DIM), np.float32)
    for place in range(int(lengths[0])):
        # Of all texts that have so many tokens; they stand at the front.
        count = int(np.searchsorted(-lengths, -place, side="left"))
        sums[:count] += model.weights[flat[starts[:count] + place]]
    vectors = np.empty_like(sums)
    vectors[longest_first] = sums
    return vectors
