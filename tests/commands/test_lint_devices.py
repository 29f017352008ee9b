"""Devices and buffers of a command, by the exact names that llama-server compares."""

from spectui.commands.lint.checking import fixed, lint
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.options.dialect import Dialect
from spectui.severity import Severity
from tests.support.tables import rules, table

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


@table("buffer", [*EVERYWHERE, *OF_LLAMA_CPP])
def test_the_buffer_of_each_device_is_taken(buffer: str) -> None:
    rpc = "--rpc 10.0.0.2:50052" if buffer.startswith("RPC") else ""
    assert found(f"{rpc} -ot 'exps={buffer}'") == []
    is_in_ik = buffer in EVERYWHERE
    assert (found(f"{rpc} -ot 'exps={buffer}'", IK) == []) == is_in_ik


@table(("buffer", "instead"), rules()["buffers"])
def test_another_spelling_is_corrected(buffer: str, instead: str) -> None:
    text = f"-ot attn=CUDA0,exps={buffer}"
    assert found(text) == [(Severity.ERROR, f"-ot attn=CUDA0,exps={instead}")]
    right = fixed(read_command(f"-m t -ngl 9 {text}"), Reader())
    assert right.value("override-tensor") == f"attn=CUDA0,exps={instead}"
