"""Exactly one model answers each stage of a run."""

from typing import Any

import pytest

from memorypipe.cli.model_choice import (
    EndpointModel,
    LocalModel,
    NamedEndpoints,
    OfflineModel,
    choose_model,
)
from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.endpoints import Endpoint

_FAST = Endpoint(name="fast", urls=("http://h/v1",), model="m", api_key="NOT_SET")
_NAMED = NamedEndpoints(extract=_FAST, decide=_FAST)

_NOTHING: dict[str, Any] = {"model": None, "base_url": None, "offline": False, "local_model": None}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"model": "m", "base_url": "u"}, EndpointModel(model="m", base_url="u")),
        ({"offline": True}, OfflineModel()),
        ({"local_model": ""}, LocalModel(path=None)),
        ({"local_model": "m.gguf"}, LocalModel(path="m.gguf")),
    ],
)
def test_each_way_chooses_its_model(given: dict[str, Any], wanted: Any) -> None:
    assert choose_model(**{**_NOTHING, **given}) == wanted


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "got none"),
        ({"offline": True, "model": "m"}, "got --model/--base-url and --offline"),
        ({"offline": True, "local_model": ""}, "got --offline and --local-model"),
        ({"model": "m"}, "needs --base-url too"),
        ({"base_url": "u"}, "needs --model too"),
        ({"base_url": "u", "model": "m", "endpoint_options": ["--endpoint"]}, "and --endpoint"),
        ({"offline": True, "endpoint_options": ["--endpoint"]}, "--endpoint and --offline"),
    ],
)
def test_no_way_or_two_ways_is_an_error_that_shows_them(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told) as caught:
        choose_model(**{**_NOTHING, **given})
    for way in (
        "--model NAME --base-url URL",
        "--endpoint NAME",
        "--offline",
        "--local-model [FILE.gguf]",
    ):
        assert way in str(caught.value)


def _unread() -> NamedEndpoints | None:
    raise AssertionError("The file of endpoints was read although an option chose another way.")


@pytest.mark.parametrize(
    "given", [{"model": "m", "base_url": "u"}, {"offline": True}, {"local_model": ""}]
)
def test_an_option_goes_before_a_file_which_is_not_even_read(given: dict[str, Any]) -> None:
    assert not isinstance(choose_model(**{**_NOTHING, **given}, named=_unread), NamedEndpoints)


def test_endpoints_that_are_named_answer_where_no_option_says_otherwise() -> None:
    assert choose_model(**_NOTHING, named=lambda: _NAMED) == _NAMED


def test_a_model_alone_is_another_model_at_the_named_endpoint() -> None:
    choice = choose_model(**{**_NOTHING, "model": "m2"}, named=lambda: _NAMED)
    assert isinstance(choice, NamedEndpoints)
    assert (choice.extract.model, choice.decide.model) == ("m2", "m2")
    assert choice.extract.urls == _FAST.urls
