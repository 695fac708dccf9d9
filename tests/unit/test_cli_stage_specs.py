"""What an option says goes before the file; limits are those of the whole run."""

from pathlib import Path
from typing import Any

import pytest

from memorypipe.cli.model_choice import EndpointModel, LocalModel, NamedEndpoints, OfflineModel
from memorypipe.cli.run_options import RunOptions
from memorypipe.cli.stage_specs import expression_arguments, stage_specs
from memorypipe.errors import InvalidArgumentError
from memorypipe.expressions.build_action import MemoryBuildAction
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.llm.endpoints import Endpoint
from memorypipe.llm.keys import NO_KEY
from memorypipe.llm.spec import ModelSpec, Prices

_AT_ADDRESS = EndpointModel(model="m", base_url="https://h/v1")
_FAST = Endpoint(
    name="fast",
    urls=("http://h/v1", "http://i/v1"),
    model="m",
    api_key="env:FAST_KEY",
    headers={"X-Team": "a"},
    max_qps=5.0,
    max_concurrency=10,
    max_tokens_per_minute=1_000,
    max_retries=2,
    prices=Prices(per_million_in=1, per_million_out=2),
    params={"temperature": 0, "seed": 1},
)
_GOOD = Endpoint(name="good", urls=("https://api.openai.com/v1",), model="l", api_key="env:K")
_BOTH_FAST = NamedEndpoints(extract=_FAST, decide=_FAST)
_DIFFERENT = NamedEndpoints(extract=_FAST, decide=_GOOD)


def _specs(choice: Any, **options: Any) -> tuple[ModelSpec, ModelSpec]:
    return stage_specs(RunOptions(logs=["log"], **options), choice, offline_model="rules")


def test_a_named_endpoint_is_called_as_the_file_says() -> None:
    extract, decide = _specs(_DIFFERENT)
    assert extract.urls == ("http://h/v1", "http://i/v1")
    assert (extract.endpoint, extract.api_key) == ("fast", "env:FAST_KEY")
    assert (extract.max_qps, extract.max_concurrency, extract.max_retries) == (5.0, 10, 2)
    assert extract.params == {"extra_headers": {"X-Team": "a"}, "temperature": 0, "seed": 1}
    assert extract.prices == Prices(per_million_in=1, per_million_out=2)
    assert (decide.endpoint, decide.model, decide.api_key) == ("good", "l", "env:K")
    assert (decide.max_qps, decide.max_retries) == (None, 5)


def test_an_option_goes_before_the_file() -> None:
    extract, decide = _specs(
        _DIFFERENT,
        max_qps=7.0,
        max_concurrency=3,
        max_tokens_per_minute=9,
        max_retries=0,
        price_in=3.0,
        price_out=4.0,
        param=["temperature=1"],
    )
    for spec in (extract, decide):
        assert (spec.max_qps, spec.max_concurrency, spec.max_retries) == (7.0, 3, 0)
        assert spec.max_tokens_per_minute == 9
        assert spec.prices == Prices(per_million_in=3.0, per_million_out=4.0)
    assert extract.params == {"extra_headers": {"X-Team": "a"}, "temperature": 1, "seed": 1}


@pytest.mark.parametrize("choice", [_AT_ADDRESS, _BOTH_FAST, LocalModel(path=None)])
def test_stages_at_one_endpoint_with_the_same_limits_share_them(choice: Any) -> None:
    extract, decide = _specs(choice, max_qps=1.0)
    assert extract == decide
    assert extract.limit_group is not None


def test_another_endpoint_or_another_limit_is_another_group() -> None:
    extract, decide = _specs(_DIFFERENT)
    assert extract.limit_group != decide.limit_group
    assert _specs(_BOTH_FAST, max_qps=1.0)[0].limit_group != extract.limit_group


def test_several_workers_share_the_whole_limit() -> None:
    extract, _ = _specs(_AT_ADDRESS, workers=4, max_qps=10.0, max_tokens_per_minute=3)
    assert (extract.max_qps, extract.max_tokens_per_minute) == (10.0, 3)
    assert extract.rate_scope == "cluster"
    assert _specs(_AT_ADDRESS, max_qps=10.0)[0].rate_scope == "worker"


def test_a_local_model_is_asked_little_at_a_time() -> None:
    assert _specs(LocalModel(path=None))[0].max_concurrency == 2
    assert _specs(LocalModel(path=None), max_concurrency=8)[0].max_concurrency == 8


def test_a_key_option_goes_before_the_file_where_there_is_one_endpoint() -> None:
    assert _specs(_BOTH_FAST, key_env="OTHER")[0].api_key == "env:OTHER"
    with pytest.raises(InvalidArgumentError, match="two endpoints, 'fast' and 'good'"):
        _specs(_DIFFERENT, key_env="OTHER")


def test_the_default_key_goes_to_its_own_host() -> None:
    home = EndpointModel(model="m", base_url="https://api.openai.com/v1")
    assert _specs(home)[0].api_key == "env:OPENAI_API_KEY"
    assert _specs(_AT_ADDRESS)[0].api_key == NO_KEY


@pytest.mark.parametrize("choice", [OfflineModel(), LocalModel(path=None)])
def test_a_key_option_without_an_endpoint_is_an_error(choice: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="go with --model and --base-url only"):
        _specs(choice, key_file="k")


def test_one_price_alone_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="--price-out is missing"):
        _specs(_AT_ADDRESS, price_in=1.0)


def test_the_expressions_get_the_very_spec() -> None:
    for spec in _specs(_DIFFERENT, workers=2):
        extract = MemoryExtract(**expression_arguments(spec)).limited_with(spec.limit_group)
        decide = MemoryBuildAction(**expression_arguments(spec)).limited_with(spec.limit_group)
        assert extract.spec == decide.spec == spec


def test_prices_and_journal_only_reach_the_spec(tmp_path: Path) -> None:
    made = MemoryExtract(
        base_url=["http://h/v1", "http://i/v1"],
        model="m",
        price_in=1,
        price_out=2,
        journal=str(tmp_path),
        journal_only=True,
    ).spec
    assert made.prices == Prices(per_million_in=1, per_million_out=2)
    assert made.journal_only
    assert made.urls == ("http://h/v1", "http://i/v1")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"price_in": 1}, "price_out is missing"),
        ({"price_out": 1}, "price_in is missing"),
        ({"journal_only": True}, "needs journal"),
        ({"base_url": []}, "a list of them"),
        ({"base_url": 7}, "base_url must start with"),
    ],
)
def test_what_an_expression_cannot_work_with_is_named(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told):
        MemoryExtract(**{"base_url": "http://h/v1", "model": "m", **given})
