"""The pair that is run beside the real llama-server, and the engine that runs it."""

from collections.abc import Iterator

import pytest

from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.driver import Engine
from spectui.options.setup import ModelOptions
from tests.support.beside_server import CONTEXT


@pytest.fixture(scope="module")
def served_pair() -> tuple[ModelOptions, ModelOptions]:
    """SmolLM2 and a thinned one: a fast target whose draft is often wrong."""
    built = ensure_demo_models((DemoModel.DRAFT, DemoModel.DRAFT_THIN))
    target, draft = built[DemoModel.DRAFT], built[DemoModel.DRAFT_THIN]
    return ModelOptions(path=target), ModelOptions(path=draft)


@pytest.fixture(scope="module")
def served_engine(served_pair: tuple[ModelOptions, ModelOptions]) -> Iterator[Engine]:
    target, draft = served_pair
    with Engine() as engine:
        engine.load_target(target, CONTEXT, max_draft=16)
        engine.load_draft(draft)
        yield engine
