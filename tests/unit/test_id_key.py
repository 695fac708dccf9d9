import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.id_key import NO_ID_KEY, fingerprint, read_id_key
from memorypipe.logs.keyed import keyed_names
from memorypipe.schema import CONVERSATIONS
from memorypipe.table.id_keys import TableKey
from memorypipe.table.text_hashes import text_hashes

SECRET = "correct horse battery staple"
KEY = read_id_key("env:K", {"K": SECRET})


def test_ids_and_hashes_depend_on_the_key_and_on_nothing_else() -> None:
    other = read_id_key("env:K", {"K": SECRET + "!"})
    made = [ids.memory_id("memory", "s", "Likes tea", key=key) for key in (NO_ID_KEY, KEY, other)]
    assert len(set(made)) == 3
    assert made[1] == ids.memory_id("memory", "s", " likes  TEA", key=KEY)
    hashed = [ids.text_hash("Likes tea", key=key) for key in (NO_ID_KEY, KEY, other)]
    assert len(set(hashed)) == 3


@pytest.mark.parametrize("text", ["Likes tea", "Mag Käse sehr", 'says "hi"', "two  spaces"])
def test_a_column_of_texts_has_the_hashes_of_its_texts(text: str) -> None:
    (found,) = text_hashes(pa.array([text]), KEY).to_pylist()
    assert found == ids.text_hash(text, key=KEY)


def test_a_key_is_read_from_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(SECRET + "\n")
    assert read_id_key(f"file:{path}") == read_id_key(lambda: SECRET) == KEY


@pytest.mark.parametrize("source", [SECRET, "env:", "file: ", "", 7])
def test_the_key_itself_is_refused_and_not_repeated(source: str) -> None:
    with pytest.raises(InvalidArgumentError, match="where it comes from") as caught:
        read_id_key(source, {})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("environ", [{}, {"K": "  "}, {"K": "too short"}])
def test_no_key_and_a_short_one_are_errors_that_do_not_repeat_it(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'env:K' gives .* at least 16") as caught:
        read_id_key("env:K", environ)
    assert "too short" not in str(caught.value)


def test_a_source_that_fails_tells_its_class_alone() -> None:
    def fail() -> str:
        raise RuntimeError(SECRET)

    with pytest.raises(InvalidArgumentError, match="raised RuntimeError") as caught:
        read_id_key(fail)
    assert SECRET not in str(caught.value)


def test_a_table_knows_a_key_by_its_fingerprint_and_never_holds_it() -> None:
    name = fingerprint(KEY)
    assert name is not None
    assert fingerprint(NO_ID_KEY) is None
    held = pickle.dumps(TableKey(uri="t", fingerprint=name, source="env:K"))
    assert SECRET.encode() not in held
    assert KEY not in held


def _conversation(name: str, *message_ids: str) -> pa.Table:
    messages = [{"role": "user", "content": "hi", "id": each} for each in message_ids]
    row = {"scope": [("u", "1")], "scope_key": "k", "conversation_id": name, "messages": messages}
    return pa.Table.from_pylist([row], schema=CONVERSATIONS)


def test_names_made_of_what_was_said_are_made_anew_and_given_ones_stay() -> None:
    made, conv = ids.message_id("user", None, "hi"), "conv_" + "0" * 24
    given = ["m1", "msg_01ABCdef", "a~b"]
    keyed = keyed_names(_conversation(conv, made, f"m1~{'0' * 8}", *given), KEY)
    found = [message["id"] for message in keyed["messages"][0].as_py()]
    assert found[2:] == given
    assert found[0].startswith("msg_")
    assert found[0] != made
    assert found[1].startswith("m1~")
    assert found[1] != f"m1~{'0' * 8}"
    assert keyed["conversation_id"][0].as_py() not in {conv, ""}
    assert keyed.schema == CONVERSATIONS
    assert keyed_names(_conversation("c1", "m1"), KEY) == _conversation("c1", "m1")
    assert keyed_names(_conversation(conv, made), NO_ID_KEY) == _conversation(conv, made)
