"""Studies of a machine whose GPU's driver is updated, or lists the GPU no more."""

import pynvml
import pytest

from tests.support.cli import Run, Spectui
from tests.support.nvml import StandIn

pytest_plugins = [
    "tests.support.fixtures",
    "tests.support.cli_fixtures",
    "tests.support.nvml_fixtures",
]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]


def test_a_named_study_says_what_happened_to_its_gpu(
    spectui: Spectui, run: Run, nvml: StandIn
) -> None:
    tune = ("tune", "--spec-type", "draft-simple", "--trials", 1, "--study")
    nvml.add_gpu()
    nvml.update_driver("550.54")
    assert run(*tune, "mine") == 0, spectui.err
    nvml.update_driver("560.28")
    assert run(*tune, "mine") == 2
    assert spectui.err.splitlines()[-1] == (
        "error: the study mine was made with another GPU driver (550.54, here 560.28); its trials "
        "cannot be compared with new ones, so choose another --study"
    )
    nvml.rule("nvmlInit", code=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    assert run(*tune, "mine") == 2
    assert spectui.err.splitlines()[-1] == (
        "error: the study mine was made with this machine's GPUs, which the driver does not list "
        "now: the NVIDIA driver was updated while it ran; restart the machine; run this again "
        "once nvidia-smi lists them, or choose another --study"
    )
    assert "do not count" not in spectui.err
    assert run(*tune, "without") == 0
    assert "the NVIDIA GPUs do not count as part of this machine now" in spectui.err
