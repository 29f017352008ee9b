"""``--json -`` writes to stdout what ``--json FILE`` writes to the file, and nothing else."""

import shutil

import pytest

from tests.golden.support import Place

RUN = ("-c", 256, "-t", 1, "-n", 6, "--temp", 0, "--prompts", "prompts.jsonl")
PAIR = ("-m", "target.gguf", "-md", "close.gguf", *RUN)
COMMANDS: list[tuple[object, ...]] = [
    ("bench", *PAIR),
    ("tune", *PAIR, "--trials", 2, "--study", "mine"),
    ("sweep", *PAIR, "--draft-max", 2, "--name", "mine"),
    ("trace", *PAIR, "--out", "a.gz"),
    ("replay", "a.gz"),
    ("verify", "--server-bin", "./llama-server", "mine"),
    ("doctor", "-m", "target.gguf", "-c", 256),
    ("models", "scan", ".", "-m", "moe.gguf"),
    ("lint", "--no-models", "llama-server -m t.gguf -np 1"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_stdout_and_file(place: Place, command: tuple[object, ...]) -> None:
    place.server("llama-server")
    if command[0] == "replay":
        assert place.run("trace", *PAIR, "--out", "a.gz").code == 0
    if command[0] == "verify":
        assert place.run(*COMMANDS[1]).code == 0
    texts = place.both("found", *command)
    if command[0] in {"tune", "sweep"}:
        # The study or sweep would be resumed.
        shutil.rmtree(place.folder / "home")
    said = place.run(*command, "--json", "-")
    assert said.code in {0, 3}, said.err
    assert said.document == texts["found.json"]
