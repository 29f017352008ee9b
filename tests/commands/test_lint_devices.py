"""Devices and buffers of a command, by the exact names that llama-server compares."""

import pytest

from spectui.commands.lint.checking import fixed, lint
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.options.dialect import Dialect
from spectui.severity import Severity

OURS, OLDER, IK = Dialect
EVERYWHERE = (
    *("CPU", "CUDA0", "CUDA11", "ROCm0", "MUSA0", "Vulkan1", "SYCL0", "CANN0"),
    "RPC0[10.0.0.2:50052]",
)
OF_LLAMA_CPP = (
    *("MTL0", "OPENVINO0", "HTP0", "HTP1:2", "OpenCL", "WebGPU", "zDNN", "[virtgpu] CUDA0"),
)


def found(text: str, dialect: Dialect = OURS) -> list[tuple[Severity, str | None]]:
    """Severity and replacement of what is said of an option."""
    findings = lint(read_command(f"-m t -ngl 9 {text}"), Reader(dialect=dialect))
    options = {"-ot", "-otd", "-dev"}
    return [(one.severity, one.replacement) for one in findings if one.flag in options]


@pytest.mark.parametrize("buffer", [*EVERYWHERE, *OF_LLAMA_CPP])
def test_the_buffer_of_each_device_is_taken(buffer: str) -> None:
    rpc = "--rpc 10.0.0.2:50052" if buffer.startswith("RPC") else ""
    assert found(f"{rpc} -ot 'exps={buffer}'") == []
    is_in_ik = buffer in EVERYWHERE
    assert (found(f"{rpc} -ot 'exps={buffer}'", IK) == []) == is_in_ik


@pytest.mark.parametrize(
    ("buffer", "instead"),
    [
        ("cpu", "CPU"),
        ("cuda1", "CUDA1"),
        ("VULKAN0", "Vulkan0"),
        ("rocm0", "ROCm0"),
        ("opencl", "OpenCL"),
        # An Apple GPU has a number today.
        ("Metal", "MTL0"),
    ],
)
def test_another_spelling_is_corrected(buffer: str, instead: str) -> None:
    text = f"-ot attn=CUDA0,exps={buffer}"
    assert found(text) == [(Severity.ERROR, f"-ot attn=CUDA0,exps={instead}")]
    right = fixed(read_command(f"-m t -ngl 9 {text}"), Reader())
    assert right.value("override-tensor") == f"attn=CUDA0,exps={instead}"


@pytest.mark.parametrize(
    ("buffer", "instead"),
    [
        ("CUDA_Host", "CPU"),
        ("Vulkan_Host", "CPU"),
        ("CPU_REPACK", "CPU"),
        ("CPU_Mapped", "CPU"),
        ("AMX", "CPU"),
        ("CUDA0_Split", "CUDA0"),
        ("MTL0_Mapped", "MTL0"),
        ("CUDA_Split", None),
        ("RPC0", None),
        ("GPU0", None),
        ("DRAM", None),
        ("CUDA", None),
        ("", None),
    ],
)
def test_a_buffer_that_no_option_names_stops_the_server(buffer: str, instead: str | None) -> None:
    text = f"--rpc h:1 -ot exps={buffer}"
    written = None if instead is None else f"-ot exps={instead}"
    assert found(text) == [(Severity.ERROR, written)]
    # Which one is meant, its author has to say.
    assert (
        fixed(read_command(f"-m t {text}"), Reader()).value("override-tensor") == f"exps={buffer}"
    )


def test_a_buffer_that_few_machines_have_is_a_warning() -> None:
    assert found("-ot exps=MTL0_Private") == [(Severity.WARNING, None)]


def test_names_of_older_builds_are_theirs() -> None:
    assert found("-ot exps=Metal", OLDER) == found("-ot exps=Metal", IK) == []
    assert found("-ot exps=MTL0", OLDER) == []
    assert found("-ot exps=MTL0", IK) == [(Severity.ERROR, "-ot exps=Metal")]


def test_an_empty_pattern_is_one() -> None:
    assert found("-ot =CPU") == []
    assert found("-ot a=CPU,") == [(Severity.ERROR, None)]


@pytest.mark.parametrize("option", ["-ot 'exps(=CPU'", "-otd '*=CPU' -md d"])
def test_a_pattern_that_does_not_compile_stops_the_server(option: str) -> None:
    assert found(option) == [(Severity.ERROR, None)]


@pytest.mark.parametrize(
    ("text", "n_errors"),
    [
        ("CUDA_VISIBLE_DEVICES=1 llama-server -m t -ngl 9 -ot exps=CUDA1", 1),
        ("CUDA_VISIBLE_DEVICES=1 llama-server -m t -ngl 9 -ot exps=CUDA0", 0),
        ("CUDA_VISIBLE_DEVICES=0,2 llama-server -m t -ngl 9 -dev CUDA0,CUDA2", 1),
        ("CUDA_VISIBLE_DEVICES= llama-server -m t -ngl 9 -dev cuda0", 1),
        ("export HIP_VISIBLE_DEVICES=0; llama-server -m t -ngl 9 -dev ROCm1", 1),
        ("GGML_VK_VISIBLE_DEVICES=0,1 llama-server -m t -ngl 9 -dev Vulkan1,CUDA7", 0),
        ("CUDA_VISIBLE_DEVICES=0 llama-server -m t -ngl 9 -ot exps=CPU,a=Vulkan3", 0),
    ],
)
def test_devices_that_the_command_hides(text: str, n_errors: int) -> None:
    errors = [one for one in lint(read_command(text), Reader()) if one.severity is Severity.ERROR]
    assert len(errors) == n_errors
