"""Rules for the devices that a command names, and for their buffers in ``-ot``.

``-ot`` takes the buffer that each device has by default, by its exact name
(``parse_tensor_buffer_overrides`` of common/arg.cpp), and ``-dev`` a device in any case.
"""

import re
from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.items import Item
from spectui.commands.lint.finding import Finding, error, warning
from spectui.commands.lint.regexes import fault_of
from spectui.commands.reader import Reader
from spectui.options.dialect import Dialect

_BACKENDS = (
    *("CUDA", "ROCm", "HIP", "MUSA", "Vulkan", "SYCL", "CANN", "Metal", "MTL", "RPC", "OpenCL"),
    *("GPUOpenCL", "Kompute", "WebGPU", "BLAS", "HTP", "OPENVINO", "VirtGPU", "ZDNN", "Accelerate"),
)
"""Beginnings of the names of llama.cpp's devices."""
_DEVICE = re.compile(rf"(?:{'|'.join(_BACKENDS)})[\w.\[\]:-]*", re.IGNORECASE)
_NUMBERED = ("CUDA", "ROCm", "MUSA", "Vulkan", "SYCL", "CANN")
"""Backends whose buffers are called after them in every dialect, with a number."""
_BUFFERS = rf"CPU|(?:{'|'.join(_NUMBERED)})\d+|RPC\d+\[.+\]"
_OF_LLAMA_CPP = (
    rf"{_BUFFERS}|MTL\d+(?:_Private)?|OPENVINO\d+|HTP\d+(?::\d+)?|OpenCL|WebGPU|zDNN|ET"
    r"|\[virtgpu\] .+"
)
_EXACT = {
    Dialect.LLAMA_CPP: re.compile(_OF_LLAMA_CPP),
    # An Apple GPU had no number until the end of 2025.
    Dialect.LEGACY: re.compile(rf"{_OF_LLAMA_CPP}|Metal"),
    Dialect.IK: re.compile(rf"{_BUFFERS}|Metal"),
}
"""Names of the buffers that devices have by default."""
_SPELLINGS = ("CPU", *_NUMBERED, "MTL", "RPC", "OPENVINO", "HTP", "OpenCL", "WebGPU", "zDNN")
_CASED = {one.casefold(): one for one in _SPELLINGS}
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_ON_HOST = re.compile(r"(?:CPU|AMX|[A-Za-z]+_Host)(?:_\w+)?", re.IGNORECASE)
"""Buffers in RAM that a backend chooses by itself."""
_BESIDE = re.compile(rf"((?:{'|'.join(_NUMBERED)}|MTL)\d*)_(?:Split|Mapped)")
"""Other buffers on a device; without its number they are on several."""
_REMOTE = re.compile(r"RPC\d+")
_OVERRIDES = ("override-tensor", "override-tensor-draft")
_VISIBLE = {
    "CUDA_VISIBLE_DEVICES": "CUDA",
    "HIP_VISIBLE_DEVICES": "ROCm",
    "ROCR_VISIBLE_DEVICES": "ROCm",
    "GGML_VK_VISIBLE_DEVICES": "Vulkan",
}
"""Variables that list the devices which a backend sees."""


def devices_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on devices and buffers that no backend of llama.cpp has."""
    for found in command.all("device", "spec-draft-device", "device-draft"):
        for name in found[1].value.split(","):
            if name != "none" and not _DEVICE.fullmatch(name) and name:
                yield _no_device(found, name, reader)
            yield from _hidden(found, name, command, reader)
    for found in command.all(*_OVERRIDES):
        is_unread = found[1].variable is not None and reader.reads(found[1].variable) is False
        if not is_unread and found[1].values:
            yield from _overrides(found, command, reader)


def _no_device(found: tuple[int, Item], name: str, reader: Reader) -> Finding:
    """Find a device of no backend; what ik_llama.cpp refuses altogether is told by its values."""
    if reader.dialect is Dialect.IK:
        return warning(
            found,
            f"no backend of ik_llama.cpp has a device called {name}",
            "it says so in its log and goes on without it; without any device it runs on the CPU "
            "alone",
        )
    return error(
        found,
        f"no backend of llama.cpp has a device called {name}",
        f"{reader.name} stops at it; llama-server --list-devices says their names, such as CUDA0, "
        "ROCm0 or Vulkan0",
    )


def _hidden(
    found: tuple[int, Item], name: str, command: ServerCommand, reader: Reader
) -> Iterator[Finding]:
    """Find a device that a variable of the command hides."""
    for variable, value in command.start.environment:
        kind = _VISIBLE.get(variable)
        own = None if kind is None else re.fullmatch(rf"{kind}(\d+)", name, re.IGNORECASE)
        n_visible = len([one for one in value.split(",") if one.strip()])
        if own is not None and int(own[1]) >= n_visible:
            last = f"the last is {kind}{n_visible - 1}" if n_visible else "there is none"
            is_passed_over = reader.dialect is Dialect.IK and found[1].name not in _OVERRIDES
            yield (warning if is_passed_over else error)(
                found,
                f"{variable}={value} leaves no {name}",
                f"devices are counted anew from 0 among those that it names, so that {last}, and "
                f"{reader.name} {'passes over' if is_passed_over else 'stops at'} any other",
            )


def _overrides(
    found: tuple[int, Item], command: ServerCommand, reader: Reader
) -> Iterator[Finding]:
    at, item = found
    for part in item.value.split(","):
        pattern, separator, buffer = part.partition("=")
        if not separator or not buffer:
            yield error(
                found,
                f"{item.flag} {part} is no PATTERN=BUFFER",
                f"{reader.name} splits at commas first, and stops at a part without '='",
            )
            continue
        if _EXACT[reader.dialect].fullmatch(buffer) is None:
            yield _no_buffer((at, item), part, reader)
        elif buffer.endswith("_Private"):
            yield warning(
                found,
                f"only Macs whose GPU has memory of its own have {buffer}",
                f"{reader.name} stops at it on all others, whose buffer is "
                f"{buffer.removesuffix('_Private')}",
            )
        yield from _hidden(found, buffer, command, reader)
        fault = fault_of(pattern)
        if fault is not None:
            yield error(
                found,
                f"{item.flag} {part} is no pattern that compiles",
                f"it has {fault}, and {reader.name} stops when it loads the model",
            )


def _no_buffer(found: tuple[int, Item], part: str, reader: Reader) -> Finding:
    """Find a name that is no device's own buffer, and what it stands for."""
    item = found[1]
    pattern, _, buffer = part.partition("=")
    exact = _EXACT[reader.dialect]
    cased = _WORD.sub(lambda word: _CASED.get(word[0].casefold(), word[0]), buffer)
    if exact.fullmatch(cased):
        return error(
            found,
            f"{reader.name} has no buffer called {buffer}",
            f"names are compared letter by letter, and this one is {cased}",
            fix=_written(item, part, f"{pattern}={cased}"),
        )
    if _REMOTE.fullmatch(buffer):
        return error(
            found,
            f"{buffer} is a device, and its buffer has another name",
            f"that of an RPC server's device is called {buffer}[HOST:PORT], and {reader.name} "
            "stops at anything else",
        )
    if buffer in {"Metal", "MTL0"}:
        other = "Metal" if buffer == "MTL0" else "MTL0"
        return error(
            found,
            f"{reader.name} has no buffer called {buffer}",
            f"that of an Apple GPU is called {other} in it",
            fix=_written(item, part, f"{pattern}={other}"),
        )
    is_on_host, beside = _ON_HOST.fullmatch(buffer), _BESIDE.fullmatch(buffer)
    if is_on_host or beside:
        return _chosen_by_itself(found, part, reader, beside and beside[1])
    return error(
        found,
        f"no backend of llama.cpp has a buffer called {buffer}",
        f"{reader.name} stops at it; there are CPU, and names of devices such as CUDA0, ROCm0 or "
        "Vulkan0",
    )


def _chosen_by_itself(
    found: tuple[int, Item], part: str, reader: Reader, device: str | None
) -> Finding:
    """Find a buffer that no option names: in RAM, or on a device."""
    item = found[1]
    pattern, _, buffer = part.partition("=")
    instead = "CPU" if device is None else device if device[-1].isdigit() else None
    by_itself = "; it takes pinned or repacked memory of itself where CPU is named"
    return error(
        found,
        f"{buffer} is no buffer that {item.flag} can name",
        f"{reader.name} takes the default buffer of each device alone, and stops at all others"
        f"{by_itself if device is None and reader.is_current else ''}",
        write=None if instead is None else _written(item, part, f"{pattern}={instead}"),
    )


def _written(item: Item, part: str, instead: str) -> tuple[str, str]:
    """The option with another text in place of one part."""
    parts = (instead if one == part else one for one in item.value.split(","))
    return (item.flag, ",".join(parts))
