"""The examples for schedulers: they parse, and every option in them is one of the command."""

import ast
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from memorypipe.cli.app import app
from memorypipe.cli.exit_codes import ExitCode

FOLDER = Path(__file__).parents[2] / "examples" / "scheduling"


def options() -> set[str]:
    command: Any = typer.main.get_command(app)
    return {name for each in command.commands["backfill"].params for name in each.opts}


def constants(tree: ast.AST) -> set[str]:
    return {
        str(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_the_dag_parses_and_asks_for_what_there_is() -> None:
    tree = ast.parse((FOLDER / "airflow_nightly.py").read_text())
    compile(tree, "airflow_nightly.py", "exec")
    asked = {word for word in constants(tree) if re.fullmatch(r"--[a-z-]+", word)}
    assert {"--since", "--until", "--json", "--budget"} <= asked <= options()


def test_the_dag_covers_an_interval_and_goes_on_where_a_run_can() -> None:
    tree = ast.parse((FOLDER / "airflow_nightly.py").read_text())
    wanted = {"GO_ON", "LOGS", "TABLE"}
    kept: list[ast.stmt] = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name == "command")
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in wanted)
    ]
    names: dict[str, Any] = {}
    exec(compile(ast.Module(kept, []), "dag", "exec"), names)  # noqa: S102  # our own example
    words = names["command"]("2025-01-01T00:00:00+00:00", "2025-01-02T00:00:00+00:00")
    assert words[:2] == ["memorypipe", "backfill"]
    assert words[words.index("--until") + 1] == "2025-01-02T00:00:00+00:00"
    assert words[words.index("--budget") + 1] == "2025-01"
    assert names["GO_ON"] == {ExitCode.INCOMPLETE, ExitCode.STOPPED}


def test_the_script_of_cron_parses_and_asks_for_what_there_is() -> None:
    script = FOLDER / "nightly.sh"
    asked = set(re.findall(r"(?<= )--[a-z-]+", script.read_text()))
    assert {"--since", "--budget", "--json"} <= asked <= options()
    if (shell := shutil.which("sh")) is None:
        pytest.skip("there is no shell here")
    subprocess.run([shell, "-n", str(script)], check=True)  # noqa: S603  # our own script
    assert script.stat().st_mode & 0o100, "it can be run"


@pytest.mark.parametrize("code", [0, 3, 4, 5, 1])
def test_the_script_hands_on_exit_code_and_record(code: int, tmp_path: Path) -> None:
    """A stand-in for the command tells what it was called with."""
    shell = shutil.which("sh")
    if shell is None:
        pytest.skip("there is no shell here")
    stand_in = tmp_path / "memorypipe"
    stand_in.write_text(f'#!{shell}\necho "$@"\nexit {code}\n')
    stand_in.chmod(0o755)
    done = subprocess.run(  # noqa: S603  # our own script
        [shell, str(FOLDER / "nightly.sh"), "a b.jsonl"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "MEMORYPIPE_NIGHTLY_OPTIONS": "--offline"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert re.search(r"backfill a b.jsonl --since \d{4}-\d\d-\d\d --label night=", done.stdout)
    assert done.stdout.strip().endswith("--json --offline")
    assert bool(done.stderr) is (code != 0)


def test_the_crontab_calls_the_script() -> None:
    (line,) = re.findall(r"^\d+ \d+ \* \* \* (.*)$", (FOLDER / "crontab").read_text(), re.MULTILINE)
    assert line.split()[0].endswith("examples/scheduling/nightly.sh")
