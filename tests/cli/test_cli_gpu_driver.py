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


def test_a_named_study_is_not_gone_on_with_by_another_driver_or_without_the_gpu(
    spectui: Spectui, run: Run, nvml: StandIn
) -> None:
    tune = ("tune", "--spec-type", "draft-simple", "--trials", 1, "--study")
    nvml.add_gpu()
    nvml.update_driver("550.54")
    assert run(*tune, "mine") == 0, spectui.err
    nvml.update_driver("560.28")
    assert run(*tune, "mine") == 2
    assert spectui.err.splitlines()[-1] == (
        "error: the study mine was made with another GPU driver; its trials cannot be compared "
        "with new ones, so choose another --study"
    )
    nvml.rule("nvmlInit", code=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    assert run(*tune, "mine") == 2
    assert spectui.err.splitlines()[-1] == (
        "error: the study mine was made on another machine; its trials cannot be compared with new "
        "ones, so choose another --study"
    )
    assert "do not count" not in spectui.err
    assert run(*tune, "without") == 0
    assert "the NVIDIA GPUs do not count as part of this machine now" in spectui.err
