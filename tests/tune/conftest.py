"""What tests of searches share."""

from collections import defaultdict

import optuna
import pytest


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep studies in memory: SQL took four fifths of a search's time on scripted speeds."""
    opened: defaultdict[str, optuna.storages.InMemoryStorage] = defaultdict(
        optuna.storages.InMemoryStorage
    )
    monkeypatch.setattr("spectui.tune.studies.storage.open_storage", lambda url: opened[url])
