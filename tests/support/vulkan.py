"""Vulkan devices where there is no GPU: the backend as a library, and Mesa's software driver."""

import os
from dataclasses import dataclass
from pathlib import Path

from tests.support.rpc import built

DEVICES = ("Vulkan0", "Vulkan1")
"""Names of two devices, which are one driver twice."""


@dataclass(frozen=True, kw_only=True)
class VulkanBuild:
    """What ``tools/build_llama_server.py vulkan`` made."""

    folder: Path
    server: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which engine and llama-server have ``DEVICES``."""
        return {
            **os.environ,
            "GGML_BACKEND_PATH": str(self.folder / "libggml-vulkan.so"),
            "VK_DRIVER_FILES": str(self.folder / "driver.json"),
            "GGML_VK_VISIBLE_DEVICES": ",".join("0" for _ in DEVICES),
            # With fused operations, models beyond tiny ones end in the queue thread of Mesa 22.3.6.
            "GGML_VK_DISABLE_FUSION": "1",
            # The first use of a shader compiles it for this processor, which takes its time.
            "MESA_SHADER_CACHE_DIR": str(self.folder / "shaders"),
        }

    def llama_server(self, _folder: Path) -> Path:
        """The llama-server that has these devices in ``environment``."""
        return self.server


def vulkan_build() -> VulkanBuild | None:
    """What was built; None where it was not, in CI too: it is made of one system's packages."""
    folder, server = built("vulkan", optional=True), built("server")
    return VulkanBuild(folder=folder, server=server) if folder and server else None
