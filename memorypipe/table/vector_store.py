"""Vectors on disk, by text: what was embedded once need not be embedded again."""

import tempfile
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from memorypipe.llm.embed.types import Embedder, Matrix
from memorypipe.llm.embed.unit_vectors import embed_texts

__all__ = ["VectorStore"]

_KEY_BYTES = 16


class VectorStore:
    """Embeds texts, and keeps their vectors in a file until it is closed.

    The file lies where the system keeps temporary ones (`TMPDIR`), without a name; in memory
    there are some 150 bytes per text.

    Args:
        embedder: What makes the vectors.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._rows: dict[bytes, int] = {}
        self._file = tempfile.TemporaryFile(prefix="memorypipe-")  # noqa: SIM115  # see `close`

    def close(self) -> None:
        """Drop the file."""
        self._file.close()

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Give the vectors of texts, as `embed_texts` does.

        Raises:
            ModelError: Where the embedder fails.
        """
        keys = [_key(text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._rows}
        if new:
            self._append(list(new), embed_texts(self._embedder, list(new.values())))
        shape = (len(self._rows), self._embedder.dim)
        every = np.memmap(self._file, np.float32, "r", shape=shape)
        return np.asarray(every[[self._rows[key] for key in keys]])

    def _append(self, keys: list[bytes], vectors: Matrix) -> None:
        self._file.seek(len(self._rows) * self._embedder.dim * vectors.itemsize)
        self._file.write(vectors.tobytes())
        self._file.flush()
        self._rows |= {key: len(self._rows) + number for number, key in enumerate(keys)}


def _key(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=_KEY_BYTES).digest()
