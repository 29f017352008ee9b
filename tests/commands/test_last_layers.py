"""``-ncmoe`` of ik_llama.cpp, which counts from the last layer with experts."""

import shlex
from pathlib import Path

import pytest

from spectui.cli.taken import of_llama_cpp
from spectui.commands.last_layers import counts_from_last, from_first
from spectui.commands.sources.reading import read_command
from tests.support.models import MOE, write_tiny
from tests.support.tables import table

OWN = "-mla 3"
"""An option of ik_llama.cpp alone."""
# A dense first layer, and one that predicts.
NAMES = (
    "blk.0.ffn_down.weight",
    *(f"blk.{layer}.ffn_down_exps.weight" for layer in range(1, 12)),
    *(f"blk.{layer}.ffn_up_exps.weight" for layer in range(1, 12)),
    "blk.11.nextn.eh_proj.weight",
)


@table(
    ("given", "left"),
    [
        ("-ncmoe 2", r"-ot blk\.(9|10)\.{}=CPU"),
        ("-cmoe -ncmoe 1", r"-ot blk\.(10)\.{}=CPU"),
        # Behind every -ot, wherever it stands.
        ("-ncmoe 1 -ot exps=CUDA0", r"-ot exps=CUDA0 -ot blk\.(10)\.{}=CPU"),
        ("--n-cpu-moe 99", r"-ot blk\.(1|2|3|4|5|6|7|8|9|10)\.{}=CPU"),
    ],
)
def test_the_last_layers_with_experts_get_a_pattern(given: str, left: str) -> None:
    command = read_command(f"llama-server -m m {OWN} {given}")
    assert counts_from_last(command)
    expected = left.format(r"ffn_(up|down|gate|gate_up)_exps\.")
    found = from_first(command, NAMES).arguments
    assert " ".join(found) == f"-m m {OWN} {expected}"


def test_what_is_measured_has_the_layers_of_its_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tiny(MOE, tmp_path / "moe.gguf")
    path = shlex.quote(str(tmp_path / "moe.gguf"))
    found = of_llama_cpp(read_command(f"llama-server -m {path} {OWN} -ncmoe 1"))
    assert found.arguments[-2:] == ("-ot", r"blk\.(1)\.ffn_(up|down|gate|gate_up)_exps\.=CPU")
    assert "mind that -ncmoe 1 is ik_llama.cpp's" in capsys.readouterr().err
