import pickle

import numpy as np
import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.logs.known import contains, pack_keys

ZEROS = [bytes(16), b"a" + bytes(15), b"a" * 15 + bytes(1), b"a" * 16, bytes(15) + b"a"]


def test_keys_that_end_in_zero_bytes_are_told_apart() -> None:
    for key in ZEROS:
        found = contains(pack_keys([key]), ZEROS)
        assert found.tolist() == [other == key for other in ZEROS]


def test_all_packed_keys_are_found_and_no_others() -> None:
    rng = np.random.default_rng(7)
    keys = [rng.bytes(14) + bytes(2) for _ in range(500)] + [rng.bytes(16) for _ in range(500)]
    packed = pack_keys(keys[::2])
    assert contains(packed, keys).tolist() == [True, False] * 500


def test_packing_sorts_and_drops_repeats() -> None:
    assert pack_keys([b"b" * 16, b"a" * 16, b"b" * 16]).tolist() == [b"a" * 16, b"b" * 16]


def test_packed_keys_keep_all_their_bytes() -> None:
    assert pack_keys(ZEROS).tolist() == sorted(ZEROS)


def test_packing_does_not_depend_on_order() -> None:
    assert pack_keys(ZEROS).tobytes() == pack_keys(ZEROS[::-1]).tobytes()


def test_an_empty_set_holds_nothing() -> None:
    assert contains(pack_keys([]), ZEROS).tolist() == [False] * len(ZEROS)
    assert contains(pack_keys(ZEROS), []).tolist() == []


def test_keys_survive_pickling() -> None:
    packed = pickle.loads(pickle.dumps(pack_keys(ZEROS)))  # noqa: S301  # our own bytes
    assert contains(packed, ZEROS).all()


@pytest.mark.parametrize("key", [b"", b"a" * 15, b"a" * 17])
def test_a_key_of_another_length_is_refused(key: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="16 bytes"):
        pack_keys([key])
    with pytest.raises(InvalidArgumentError, match="16 bytes"):
        contains(pack_keys([]), [key])
