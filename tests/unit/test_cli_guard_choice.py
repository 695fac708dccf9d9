"""What may be deleted is read whole, and what cannot be is refused with the choices."""

import pytest

from memorypipe.cli.guard_choice import (
    commit_settings,
    guard_settings,
    parse_max_retired,
    parse_scope_keys,
)
from memorypipe.cli.guard_options import CommitOptions
from memorypipe.errors import InvalidArgumentError


def test_the_options_become_arguments_of_apply() -> None:
    usual = {"max_retired": "auto", "accept_guards": (), "commit_every": None}
    assert guard_settings(CommitOptions(run="r")) == usual
    assert commit_settings(CommitOptions(run="r")) == {**usual, "sample": None, "seed": 0}
    options = CommitOptions(
        run="r",
        max_retired="none",
        accept_guard=["user_id=u1"],
        commit_every=9,
        sample="0.5%",
        seed=3,
    )
    assert commit_settings(options) == {
        "max_retired": None,
        "accept_guards": ('[["user_id","u1"]]',),
        "commit_every": 9,
        "sample": 0.005,
        "seed": 3,
    }


@pytest.mark.parametrize("wrong", ["-1", "half", "", "1.5", "²"])
def test_a_limit_is_a_count_or_a_word(wrong: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"--max-retired.*'none'.*'auto'"):
        parse_max_retired(wrong)


@pytest.mark.parametrize("wrong", ["u1", "", '[["user_id"]]', "[1]", "[", '[["a","*"]]', "a=1,a=2"])
def test_a_scope_is_pairs_or_its_key(wrong: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_scope_keys([wrong])


def test_the_scope_of_memories_without_one_has_a_key_too() -> None:
    assert parse_scope_keys(["[]"]) == ("[]",)
