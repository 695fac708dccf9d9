"""Words of the command line become values, or an error that says what they should look like."""

import pytest

from memorypipe.cli.values import (
    attach_local_model,
    parse_names,
    parse_params,
    parse_scope,
    parse_scope_columns,
)
from memorypipe.errors import InvalidArgumentError


def test_a_gguf_file_after_local_model_is_its_value() -> None:
    words = ["backfill", "--local-model", "Some.GGUF", "log.jsonl"]
    assert attach_local_model(words) == ["backfill", "--local-model=Some.GGUF", "log.jsonl"]


@pytest.mark.parametrize("after", [["log.jsonl"], ["--json"], []])
def test_anything_else_after_local_model_is_not_its_value(after: list[str]) -> None:
    assert attach_local_model(["--local-model", *after]) == ["--local-model=", *after]


def test_a_value_that_is_tied_already_stays() -> None:
    assert attach_local_model(["--local-model=m.bin"]) == ["--local-model=m.bin"]


def test_after_two_dashes_nothing_is_an_option() -> None:
    assert attach_local_model(["--", "--local-model", "m.gguf"]) == [
        "--",
        "--local-model",
        "m.gguf",
    ]


def test_a_scope_is_pairs_of_name_and_value() -> None:
    assert parse_scope(["user_id=u1", "agent_id=a"]) == {"user_id": "u1", "agent_id": "a"}
    assert parse_scope([]) is None


def test_a_scope_column_that_begins_with_an_equals_sign_is_a_constant() -> None:
    assert parse_scope_columns(["user_id==u1", "org=o"]) == {"user_id": "=u1", "org": "o"}


@pytest.mark.parametrize("pair", ["user_id", "user_id=", "=u1", " =u1"])
def test_a_scope_that_is_no_pair_is_an_error_with_an_example(pair: str) -> None:
    with pytest.raises(InvalidArgumentError, match="for example user_id=u1"):
        parse_scope([pair])


def test_a_name_given_twice_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="'user_id' twice"):
        parse_scope(["user_id=a", "user_id=b"])


def test_parameters_of_the_call_are_json() -> None:
    given = ["temperature=0.5", 'stop=["a=b"]', "logprobs=true", "seed=null"]
    assert parse_params(given) == {
        "temperature": 0.5,
        "stop": ["a=b"],
        "logprobs": True,
        "seed": None,
    }


def test_a_parameter_that_is_no_json_is_an_error_without_its_value() -> None:
    with pytest.raises(InvalidArgumentError, match="--param user=") as caught:
        parse_params(["user=secret-word"])
    assert "secret-word" not in str(caught.value)


def test_names_come_by_commas_or_one_option_each() -> None:
    assert parse_names("--keep", ["a, b", "c"]) == ("a", "b", "c")
    assert parse_names("--keep", []) == ()


def test_a_blank_name_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="--keep must be names"):
        parse_names("--keep", ["a,,b"])
