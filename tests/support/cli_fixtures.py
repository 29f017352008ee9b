"""The command line as fixtures. Test modules take them with ``pytest_plugins``."""

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from tests.support.cli import PROMPTS, Run, Searched, Spectui, searched
from tests.support.kept_planner import end_planners, keeping_planners
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep a run's files below a folder of its own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("SPECTUI_HOME", str(folder))
    return folder


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(PROMPTS))
    return path


@pytest.fixture(scope="session")
def _planners() -> Iterator[None]:
    yield
    end_planners()


@pytest.fixture
def spectui(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], _planners: None
) -> Iterator[Spectui]:
    """The command line, below ``home``; what plans for it stays for the next one."""
    assert home.parent.is_dir()
    with keeping_planners():
        yield Spectui(monkeypatch, capsys)


@pytest.fixture
def pair(tiny: TinyPath) -> list[object]:
    """Options of a run on tiny models that takes a second."""
    return ["-m", tiny(TARGET), "-md", tiny(CLOSE_DRAFT), "-c", 256, "-t", 1, "-n", 12, "--temp", 0]


@pytest.fixture(scope="session")
def one_search(tiny: TinyPath, tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """The search of the tiny pair that many tests look at: its study is ``mine``."""
    folder = tmp_path_factory.mktemp("searched")
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(PROMPTS))
    models = ("-m", tiny(TARGET), "-md", tiny(CLOSE_DRAFT), "-c", 256, "-t", 1, "-n", 12)
    drafts = ("--spec-type", "draft-simple", "--trials", 3, "--study", "mine")
    return searched(folder, path, *models, "--temp", 0, *drafts)


@pytest.fixture
def study(one_search: Searched, home: Path) -> Searched:
    copytree(one_search.data, home / "data", dirs_exist_ok=True)
    return one_search


@pytest.fixture
def run(spectui: Spectui, pair: list[object], prompts: Path) -> Run:
    return Run(spectui, [*pair, "--prompts", prompts])
