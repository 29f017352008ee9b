"""What ``--fit`` chooses, in commands: it is left to the server."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from spectui.commands.arguments import server_arguments
from spectui.commands.launch import ExportSetup
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.errors import UsageError
from spectui.options import catalogue
from spectui.options.option import Dialect
from spectui.options.reading import fit_of, read_options
from spectui.options.setup import ContextOptions, Devices, Fit, ModelOptions, TensorOverride
from tests.support.commands import arguments_of as words_of_setup

GIVEN = ModelOptions(path=Path("t.gguf"))
FITTED = replace(
    GIVEN,
    n_gpu_layers=31,
    devices=Devices(split=(6.0, 25.0)),
    override_tensor=(TensorOverride(pattern=r"blk\.7\.ffn_down", buffer="CPU"),),
    fit=Fit(),
)
EXPORT = ExportSetup(
    target=FITTED, draft=None, context=ContextOptions(), speculation=None, name="t"
)
PLACED_SO = {"-ngl": "31", "-ts": "6,25", "-ot": r"blk\.7\.ffn_down=CPU"}
PLACEMENT = ("-ngl", "-ts", "-ot", "--fit-target", "--fit-ctx")


def placement(arguments: list[str]) -> dict[str, str]:
    pairs = pairwise(arguments)
    return {flag: value for flag, value in pairs if flag in PLACEMENT}


def arguments_of(target: ModelOptions, dialect: Dialect = Dialect.LLAMA_CPP) -> dict[str, str]:
    return placement(server_arguments(target, None, ContextOptions(), None, dialect=dialect))


def test_what_was_fitted_is_left_to_a_server_that_fits_itself() -> None:
    assert arguments_of(GIVEN) == {"-ngl": "all"}
    assert arguments_of(FITTED) == {}
    own = replace(FITTED, fit=Fit(targets_mib=(512, 0), min_ctx=8192))
    assert arguments_of(own) == {"--fit-target": "512,0", "--fit-ctx": "8192"}
    for dialect in (Dialect.LEGACY, Dialect.IK):
        assert arguments_of(FITTED, dialect) == PLACED_SO
    # Margins of a command are not written twice, and stay with -fit off.
    own = replace(FITTED, fit=Fit(targets_mib=(511,)))
    words = words_of_setup(replace(EXPORT, target=own, extra=("-fitt", "511")))
    assert words.count("511") == 1
    words = ["-fit", "off", "-fitt", "512", "-fitc", "9"]
    taken = take_over(read_command(f"llama-server -m t.gguf {' '.join(words)}"))
    assert list(taken.extra) == words


def fit_in(command: str) -> Fit | None:
    taken = take_over(read_command(f"llama-server -m t.gguf {command}"))
    return fit_of(read_options(taken.options, catalogue.RUN))


PLACED = ("-ngl 99", "-ngl all", "-ngl -2", "-ngl 0", "-fit off", "-fit disabled", "-ts 3,1")


def test_a_command_leaves_its_placement_open_unless_it_has_one() -> None:
    for command in ("", "-ngl auto", "-ngl -1", "-fit on", "-fit 1", "-c 8192"):
        assert fit_in(command) == Fit(), command
    for command in (*PLACED, "-ot exps=CPU", "--cpu-moe", "--n-cpu-moe 3"):
        assert fit_in(command) is None, command


def test_margins_and_the_shortest_context_are_read() -> None:
    found = fit_in("-fitt 512,0 -fitc 8192")
    assert found == Fit(targets_mib=(512, 0), min_ctx=8192)
    for text in ("much", "-3"):
        with pytest.raises(UsageError, match="write MiB for each device"):
            fit_in(f"--fit-target {text}")
