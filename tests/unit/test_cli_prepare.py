"""Options become checked settings before Ray, network and table are touched."""

from pathlib import Path
from typing import Any

import pytest

from memorypipe.cli.prepare import Prepared, prepare
from memorypipe.cli.run_options import RunOptions
from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.batch.settings import BatchSettings
from memorypipe.llm.keys import KeyFile
from memorypipe.llm.spec import OFFLINE_URL
from memorypipe.rank.lookup import Lookup


def _prepare(**options: Any) -> Prepared:
    if not {"model", "local_model"} & options.keys():
        options.setdefault("offline", True)
    return prepare(RunOptions(logs=["log"], **options), offline_model="rules", environ={})


def test_the_rules_need_no_address_and_see_all_memories() -> None:
    prepared = _prepare()
    assert (prepared.extract_spec.base_url, prepared.extract_spec.model) == (OFFLINE_URL, "rules")
    assert prepared.settings["lookup"] == Lookup(strategy="all", max_memories=None)


def test_an_endpoint_is_called_as_the_options_say() -> None:
    prepared = _prepare(
        model="m",
        base_url="https://host/v1",
        workers=2,
        max_qps=3.0,
        max_concurrency=10,
        max_retries=1,
        param=["temperature=0"],
    )
    assert prepared.workers == 2
    (spec,) = prepared.specs
    assert (spec.max_qps, spec.max_concurrency) == (3.0, 10)
    assert (spec.max_retries, spec.params) == (1, {"temperature": 0})
    assert prepared.settings["lookup"] == Lookup()


def test_a_new_table_may_be_plain_parquet() -> None:
    assert _prepare(backend="parquet").settings["backend"] == "parquet"


def test_requests_are_tried_again_five_times_unless_told_otherwise() -> None:
    assert _prepare().extract_spec.max_retries == 5


def test_a_local_model_keeps_its_name_in_the_journal_whatever_its_port() -> None:
    prepared = _prepare(local_model="").at(
        base_url="http://127.0.0.1:4711/v1", model="small", defaults={"seed": 7}
    )
    assert prepared.extract_spec.base_url == "http://127.0.0.1:4711/v1"
    assert (prepared.extract_spec.endpoint, prepared.extract_spec.model) == ("local", "small")
    assert prepared.extract_spec.max_concurrency == 2


@pytest.mark.parametrize("name", ["hint", "model", "journal", "foo"])
def test_a_parameter_that_is_none_of_the_call_is_an_error(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"--param {name}=… is no argument"):
        _prepare(param=[f"{name}=1"])


def test_a_key_option_without_an_endpoint_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="go with --model and --base-url only"):
        _prepare(key_env="A_KEY")


def test_a_key_option_reaches_the_spec(tmp_path: Path) -> None:
    prepared = _prepare(model="m", base_url="http://h/v1", key_file=str(tmp_path / "key"))
    assert prepared.decide_spec.api_key == KeyFile(str(tmp_path / "key"))


def test_a_hint_is_appended_for_both_stages(tmp_path: Path) -> None:
    (tmp_path / "hint").write_text("Only food.\n")
    prepared = _prepare(hint=str(tmp_path / "hint"))
    wanted = {"hint": "Only food.", "hint_mode": "append"}
    assert (prepared.extract_hint, prepared.decide_hint) == (wanted, wanted)


def test_a_hint_that_replaces_leaves_the_decisions_theirs(tmp_path: Path) -> None:
    (tmp_path / "hint").write_text("Only food.\n")
    prepared = _prepare(hint=str(tmp_path / "hint"), hint_mode="replace")
    assert prepared.extract_hint == {"hint": "Only food.", "hint_mode": "replace"}
    assert prepared.decide_hint == {}


def test_a_hint_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be read: No such file"):
        _prepare(hint=str(tmp_path / "none"))
    (tmp_path / "blank").write_text(" \n")
    with pytest.raises(InvalidArgumentError, match="is empty"):
        _prepare(hint=str(tmp_path / "blank"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidArgumentError, match="no UTF-8 text"):
        _prepare(hint=str(tmp_path / "bytes"))


def test_replacing_by_nothing_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="needs --hint FILE"):
        _prepare(hint_mode="replace")


def test_the_log_is_read_as_the_options_say() -> None:
    prepared = _prepare(scope=["user_id==u1"], keep=["a,b"], limit=3, format="openai")
    assert prepared.reading == {
        "format": "openai",
        "scope": {"user_id": "=u1"},
        "keep": ("a", "b"),
        "map": None,
        "roles": None,
        "timezone": None,
        "layout": "conversations",
        "group_by": None,
        "order_by": None,
        "limit": 3,
    }


def test_a_log_of_any_shape_is_read_as_the_options_say() -> None:
    reading = _prepare(
        map=["content=body", "role==user"],
        roles=["customer=user,agent=assistant", "bot 2=tool"],
        timezone="Europe/Berlin",
        layout="messages",
        group_by="chat",
        order_by="at",
    ).reading
    assert reading["map"] == {"content": "body", "role": "=user"}
    assert reading["roles"] == {"customer": "user", "agent": "assistant", "bot 2": "tool"}
    assert [reading[name] for name in ("timezone", "layout", "group_by", "order_by")] == [
        "Europe/Berlin",
        "messages",
        "chat",
        "at",
    ]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"map": ["massages=log"]}, "'massages'.*messages, conversation_id"),
        ({"map": ["messages"]}, "--map must look like.*'messages'"),
        ({"roles": ["customer=boss"]}, "'customer'.*'boss'.*assistant, system, tool, user"),
        ({"roles": ["customer"]}, "--roles must look like"),
        ({"layout": "messages"}, "--group-by"),
        ({"order_by": "at"}, "'at'.*--layout messages"),
        ({"format": "locomo", "map": ["messages=log"]}, "'locomo'.*exclude"),
    ],
)
def test_readings_that_cannot_work_are_usage_errors_before_anything_starts(
    options: dict[str, Any], names: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=names):
        _prepare(**options)


def test_batches_are_for_an_endpoint_and_go_with_no_bound() -> None:
    assert _prepare().settings["batch"] is None
    endpoint = {"model": "m", "base_url": "https://host/v1", "batch_api": True}
    assert _prepare(**endpoint).settings["batch"] == BatchSettings()
    with pytest.raises(InvalidArgumentError, match="--base-url"):
        _prepare(batch_api=True)
    with pytest.raises(InvalidArgumentError, match="--max-calls"):
        _prepare(**endpoint, max_calls=3)


@pytest.mark.parametrize("journal", ["http://host/j", "s3://me:secret@bucket/j"])
def test_a_journal_that_cannot_work_is_a_usage_error_before_anything_starts(journal: str) -> None:
    with pytest.raises(InvalidArgumentError, match="journal must be") as caught:
        _prepare(journal=journal)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("run_id", ["a/b", ".hidden", " "])
def test_a_run_id_that_names_no_folder_is_a_usage_error_before_anything_starts(run_id: str) -> None:
    with pytest.raises(InvalidArgumentError, match="a name without slashes"):
        _prepare(run_id=run_id)
