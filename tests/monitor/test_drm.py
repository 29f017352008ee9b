"""GPUs that the kernel describes, from trees of sysfs in ``tests/data/gpu-trees.json``."""

import errno
import json
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from spectui.documents import Known
from spectui.monitor.drm import KernelError, KernelGpus
from spectui.monitor.metrics import RETRY_S
from spectui.monitor.readings import GpuReading, GpuSource, Reading, Snapshot
from spectui.monitor.sampler import LiveSource
from tests.support.nvml import StandIn

pytest_plugins = ("tests.support.nvml_fixtures",)

GIB = 1 << 30
TREES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "data" / "gpu-trees.json").read_bytes()
)["trees"]
AMD_CARD = "amdgpu: a card behind its own bridge"
AMD_PROCESSOR = "amdgpu: a processor's GPU"
NO_TRAFFIC = Reading(None, "the kernel does not report PCIe traffic")


class Tree:
    """A tree of sysfs, the GPUs that it describes, and a clock that moves only when told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_s = 100.0
        self.gpus = KernelGpus(root=root)

    def add(self, name: str, **renamed: str) -> None:
        """Plug a card in; ``renamed`` gives other names for parts of its paths."""
        for path, content in TREES[name].items():
            for old, new in renamed.items():
                path = path.replace(old.replace("_", ":"), new)  # noqa: PLW2901 - piece by piece
                if isinstance(content, dict) and "link" in content:
                    content = {"link": content["link"].replace(old.replace("_", ":"), new)}  # noqa: PLW2901
            self._write(self.root / path, content)

    def _write(self, path: Path, content: Any) -> None:  # noqa: ANN401 - as the data file has it
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content)
        elif "hex" in content:
            path.write_bytes(bytes.fromhex(content["hex"]))
        elif not path.is_symlink():
            path.symlink_to(f"{self.root}{content['link']}")

    def file(self, name: str) -> Path:
        """The one file of this name, of those below the cards' own folders the deepest."""
        found = [path for path in self.root.rglob(name) if "class" not in path.parts]
        return max(found, key=lambda path: len(path.parts))

    def after(self, seconds: float = 2.0) -> tuple[GpuReading, ...]:
        self.now_s += seconds
        return self.gpus.read(self.now_s)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_an_amd_card_tells_everything(tree: Tree) -> None:
    tree.add(AMD_CARD)
    (gpu,) = tree.after()
    assert gpu == GpuReading(
        index=0,
        name="AMD GPU 744c",
        source=GpuSource.AMDGPU,
        address="0000:03:00.0",
        in_ram=False,
        memory_used_bytes=Reading(9 * GIB),
        memory_total_bytes=Reading(25_753_026_560),
        utilisation=Reading(0.37),
        power_w=Reading(187),
        temperature_c=Reading(61),
        throttled_by=Known(None, "the kernel does not report why the clock is low"),
        pcie_generation=NO_TRAFFIC,
        pcie_width=NO_TRAFFIC,
        pcie_limit_bytes_per_s=NO_TRAFFIC,
        pcie_rx_bytes_per_s=NO_TRAFFIC,
        pcie_tx_bytes_per_s=NO_TRAFFIC,
    )


def test_the_gpu_of_an_amd_processor_has_the_ram_that_it_may_take(tree: Tree) -> None:
    tree.add(AMD_PROCESSOR)
    (gpu,) = tree.after()
    assert gpu.in_ram
    assert gpu.memory_total_bytes == Reading(536_870_912 + 32_212_254_720)
    assert gpu.memory_used_bytes == Reading(402_653_184 + 6 * GIB)
    assert gpu.power_w == Reading(28)
    assert gpu.pcie_rx_bytes_per_s == NO_TRAFFIC
    assert gpu.pcie_width == NO_TRAFFIC


CONTENTS = (b"", b"\n", b"N/A\n", b"-1\n", b"\xff\x00\xfe", b"9" * 9000, None)


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ("mem_info_vram_used", "memory_used_bytes"),
        ("gpu_busy_percent", "utilisation"),
        ("power1_average", "power_w"),
    ],
)
def test_what_is_no_number_is_a_reason_and_the_rest_goes_on(
    tree: Tree, file: str, field: str
) -> None:
    tree.add(AMD_CARD)
    path = tree.file(file)
    for content in CONTENTS:
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        (gpu,) = KernelGpus(root=tree.root).read(tree.now_s)
        reading = getattr(gpu, field)
        assert reading.value is None
        if content is None:
            assert reading.reason.startswith("the kernel does not report")
        else:
            assert reading.reason.endswith("in a form that is not known here")
        others = {"memory_total_bytes", "temperature_c"} - {field}
        assert all(getattr(gpu, other).value is not None for other in others)


def test_a_file_that_fails_or_lies_is_not_believed(tree: Tree) -> None:
    tree.add(AMD_CARD)
    path = tree.file("gpu_busy_percent")
    path.unlink()
    path.mkdir()
    tree.file("mem_info_vram_used").write_text(f"{30 * GIB}\n")
    (gpu,) = tree.after()
    fails = 'the kernel could not tell utilisation: "Is a directory"'
    lies = "the driver reports more memory in use than there is"
    assert gpu.utilisation == Reading(None, fails)
    assert gpu.memory_used_bytes == Reading(None, lies)
    # Root, who may run the tests, may read everything.
    error = KernelError(errno.EACCES)
    assert error.reason("power") == "no permission: the kernel hides power from this user"
    assert (error.is_permanent, error.is_lost) == (True, False)


def test_a_card_that_sleeps_is_not_woken(tree: Tree) -> None:
    tree.add(AMD_CARD)
    tree.file("runtime_status").write_text("suspended\n")
    (gpu,) = tree.after()
    asleep = Reading(None, "the GPU sleeps; to ask it would wake it")
    assert (gpu.memory_used_bytes, gpu.utilisation) == (asleep, asleep)
    assert not [thread for thread in threading.enumerate() if thread.name == "spectui-pcie"]
    tree.file("runtime_status").write_text("active\n")
    assert tree.after()[0].utilisation == Reading(0.37)


def test_a_card_that_goes_away_explains_itself_and_may_come_back(
    tree: Tree, tmp_path: Path
) -> None:
    assert tree.after() == ()
    tree.add(AMD_CARD)
    assert tree.after(RETRY_S)[0].utilisation == Reading(0.37)
    tree.add(AMD_PROCESSOR)
    assert len(tree.after(1.0)) == 1
    # The one that was there keeps its number.
    assert [gpu.in_ram for gpu in tree.after(RETRY_S)] == [False, True]
    device = tree.file("mem_info_vram_used").parent
    device.rename(tmp_path / "elsewhere")
    gone, other = tree.after()
    reason = Reading(None, "GPU 0 is not there any more; it is looked for again")
    assert (gone.index, gone.name, gone.address) == (0, "AMD GPU 744c", "0000:03:00.0")
    assert (gone.memory_used_bytes, gone.pcie_rx_bytes_per_s) == (reason, reason)
    assert gone.throttled_by.reason == reason.reason
    assert other.power_w == Reading(28)
    (tmp_path / "elsewhere").rename(device)
    assert tree.after(RETRY_S)[0].utilisation == Reading(0.37)


def test_equal_cards_are_numbered_by_their_addresses(tree: Tree) -> None:
    for slot in (3, 1, 2):
        names = {"0000_03_00.0": f"0000:{slot}3:00.0", "0000_00_01.1": f"0000:00:0{slot}.1"}
        tree.add(AMD_CARD, **names, card1=f"card{9 - slot}")
    found = [(gpu.index, gpu.address) for gpu in tree.after()]
    assert found == [(slot - 1, f"0000:{slot}3:00.0") for slot in (1, 2, 3)]


def test_devices_of_other_drivers_and_without_an_address_are_none_of_ours(tree: Tree) -> None:
    tree.add(AMD_CARD, amdgpu="nouveau")
    (tree.root / "sys/class/drm/card7").mkdir()
    (tree.root / "sys/class/drm/version").write_text("drm 1.1.0\n")
    (tree.root / "sys/class/drm/card8").symlink_to("card8")
    platform = tree.root / "sys/devices/platform/amdgpu_xcp_1"
    platform.mkdir(parents=True)
    (platform / "driver").symlink_to(tree.root / "sys/bus/pci/drivers/nouveau")
    (tree.root / "sys/class/drm/card9").mkdir()
    (tree.root / "sys/class/drm/card9/device").symlink_to(platform)
    assert tree.after() == ()


def test_all_sources_are_numbered_together(nvml: StandIn, tmp_path: Path) -> None:
    def read() -> Snapshot:
        with closing(LiveSource(root=tmp_path)) as source:
            return source.read()

    tree = Tree(tmp_path)
    nvml.rule("nvmlInit", code=9)
    assert read().gpu_reason is not None
    # A missing NVIDIA driver is no reason beside another GPU.
    tree.add(AMD_CARD)
    assert (len(read().gpus), read().gpu_reason) == (1, None)
    nvml.rule("nvmlInit")
    nvml.add_gpu()
    nvml.add_gpu()
    sources = (GpuSource.NVML, GpuSource.NVML, GpuSource.AMDGPU)
    assert [(gpu.index, gpu.source) for gpu in read().gpus] == list(enumerate(sources))
