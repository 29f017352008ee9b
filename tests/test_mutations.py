"""The list of mutations keeps up with the code that they change."""

from pathlib import Path

from tools.mutations import MUTATIONS, ROOT


def test_each_stands_once_in_its_module() -> None:
    for module, changes in MUTATIONS.items():
        text = (Path(ROOT) / "spectui" / f"{module}.py").read_text("utf-8")
        assert [text.count(old) for old, _ in changes] == [1] * len(changes), module
