"""Studies of a machine whose GPU's driver is updated, or lists the GPU no more."""

import json
from pathlib import Path

import pynvml
import pytest

from tests.support.cli import Spectui
from tests.support.nvml import StandIn

pytest_plugins = [
    "tests.support.fixtures",
    "tests.support.cli_fixtures",
    "tests.support.nvml_fixtures",
]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]


class Tuned:
    """``tune`` with one trial."""

    def __init__(self, spectui: Spectui, arguments: list[object]) -> None:
        self.spectui = spectui
        self._arguments = [*arguments, "--spec-type", "draft-simple", "--trials", 1, "--json", "-"]

    def study(self, *more: object) -> str:
        """Name of the study of a run that succeeds."""
        assert self.spectui("tune", *self._arguments, *more) == 0, self.spectui.err
        return str(json.loads(self.spectui.out)["study"])

    def refusal(self, *more: object) -> str:
        """Sentence that a run is refused with."""
        assert self.spectui("tune", *self._arguments, *more) == 2
        return self.spectui.err.splitlines()[-1]


@pytest.fixture
def tuned(spectui: Spectui, pair: list[object], prompts: Path, nvml: StandIn) -> Tuned:
    nvml.add_gpu()
    return Tuned(spectui, [*pair, "--prompts", prompts])


def test_a_study_of_before_drivers_were_kept_goes_on(tuned: Tuned, nvml: StandIn) -> None:
    older = tuned.study()
    nvml.update_driver("550.54")
    assert tuned.study() == older
    assert "resuming a study with 1 trial" in tuned.spectui.err
    nvml.update_driver("560.28")
    assert tuned.study() == older


def test_a_named_study_says_what_happened_to_its_gpu(tuned: Tuned, nvml: StandIn) -> None:
    nvml.update_driver("550.54")
    assert tuned.study("--study", "mine") == "mine"
    nvml.update_driver("560.28")
    assert tuned.refusal("--study", "mine") == (
        "error: the study mine was made with another GPU driver (550.54, here 560.28); its trials "
        "cannot be compared with new ones, so choose another --study"
    )
    nvml.rule("nvmlInit", code=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    assert tuned.refusal("--study", "mine") == (
        "error: the study mine was made with this machine's GPUs, which the driver does not list "
        "now: the NVIDIA driver was updated while it ran; restart the machine; run this again "
        "once nvidia-smi lists them, or choose another --study"
    )
    assert "do not count" not in tuned.spectui.err
    assert tuned.study("--study", "without") == "without"
    assert "the NVIDIA GPUs do not count as part of this machine now" in tuned.spectui.err
