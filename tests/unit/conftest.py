"""Fixtures of the unit tests."""

from collections.abc import Iterator
from typing import Any

import pytest

from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.worker import Worker
from tests.support.scripted_model import ScriptedModel
from tests.support.scripted_worker import Start


@pytest.fixture
def start() -> Iterator[Start]:
    """Start workers over scripted models; all are closed at the end."""
    workers: list[Worker] = []

    def make(script: Any, **spec: Any) -> tuple[Worker, ScriptedModel]:
        model = ScriptedModel(script)
        described = ModelSpec(base_url="http://localhost:1/v1", model="m", **spec)
        workers.append(Worker(described, model=model))
        return workers[-1], model

    yield make
    for worker in workers:
        worker.close()
