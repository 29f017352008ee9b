"""GPUs through the real ``pynvml``, over a stand-in for NVIDIA's library that fails on demand."""

import ctypes
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pynvml
import pytest

from spectui.documents import Known
from spectui.errors import UsageError
from spectui.monitor.machine import this_machine
from spectui.monitor.metrics import RETRY_S, SlowMeter
from spectui.monitor.nvml import NvidiaGpus
from spectui.monitor.readings import GpuReading, GpuSource, Reading, Throttle, pci_address
from spectui.tune.studies.records import check_same
from tests.support.nvml import StandIn, environment, until

pytest_plugins = ("tests.support.nvml_fixtures",)

GIB = 1 << 30


def slow_threads() -> int:
    return sum(thread.name == "spectui-pcie" for thread in threading.enumerate())


READINGS = [field.name for field in fields(GpuReading) if field.type is Reading]


class Monitored(StandIn):
    """The stand-in's GPUs under a clock that moves only when told."""

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__(library)
        self.now_s = 100.0
        self.gpus = NvidiaGpus()

    def after(self, seconds: float = 0.25) -> tuple[GpuReading, ...]:
        self.now_s += seconds
        return self.gpus.read(self.now_s)[0]

    def reason(self, seconds: float = 0.25) -> str | None:
        self.now_s += seconds
        return self.gpus.read(self.now_s)[1]


@pytest.fixture
def driver(nvml: StandIn) -> Iterator[Monitored]:
    assert nvml.sessions() == 0
    driver = Monitored(nvml.library)
    yield driver
    driver.gpus.close()
    assert nvml.sessions() == 0


def traffic(gpu: GpuReading) -> tuple[float | None, float | None]:
    return gpu.pcie_rx_bytes_per_s.value, gpu.pcie_tx_bytes_per_s.value


def test_every_reading_arrives_in_its_unit(driver: Monitored) -> None:
    driver.add_gpu(received_kib_per_s=600_000, sent_kib_per_s=100_000)
    until(lambda: driver.after()[0].pcie_rx_bytes_per_s.value is not None)
    (reading,) = driver.after()
    assert reading == GpuReading(
        index=0,
        name="Stand-in 0",
        source=GpuSource.NVML,
        address="0000:01:00.0",
        memory_used_bytes=Reading(1 * GIB),
        memory_total_bytes=Reading(24 * GIB),
        utilisation=Reading(0.3),
        power_w=Reading(95.5),
        temperature_c=Reading(51),
        throttled_by=Known(()),
        pcie_generation=Reading(3),
        pcie_width=Reading(16),
        pcie_limit_bytes_per_s=Reading(984.6e6 * 16),
        pcie_rx_bytes_per_s=Reading(600_000 * 1024),
        pcie_tx_bytes_per_s=Reading(100_000 * 1024),
    )


def test_the_limit_follows_a_link_that_wakes_up(driver: Monitored) -> None:
    gpu = driver.add_gpu(generation=1)
    unknown = Reading(None, "the speed of PCIe generation 9 is not known")
    for gpu.generation, gpu.width, limit in ((1, 16, 4e9), (3, 8, 7.8768e9), (9, 8, None)):
        found = driver.after(2.0)[0].pcie_limit_bytes_per_s
        assert found == unknown if limit is None else found.value == pytest.approx(limit, rel=1e-3)


def test_a_refused_number_says_why_and_the_others_go_on(
    driver: Monitored, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.add_gpu()
    for function, field, what in (
        ("nvmlDeviceGetMemoryInfo", "memory_used_bytes", "memory"),
        ("nvmlDeviceGetUtilizationRates", "utilisation", "utilisation"),
        ("nvmlDeviceGetPowerUsage", "power_w", "power"),
        ("nvmlDeviceGetTemperature", "temperature_c", "temperature"),
        ("nvmlDeviceGetCurrPcieLinkWidth", "pcie_width", "the PCIe width"),
        ("nvmlDeviceGetCurrPcieLinkWidth", "pcie_limit_bytes_per_s", "the PCIe width"),
    ):
        for code, reason in (
            (pynvml.NVML_ERROR_NOT_SUPPORTED, "the driver does not report {}"),
            (pynvml.NVML_ERROR_NO_PERMISSION, "no permission: the driver hides {} from this user"),
            (pynvml.NVML_ERROR_UNKNOWN, 'NVML could not tell {}: "Unknown Error"'),
            (77, 'NVML could not tell {}: "stand-in error 77"'),
        ):
            driver.rule(function, code=code)
            (gpu,) = driver.after(30.0)
            assert getattr(gpu, field) == Reading(None, reason.format(what))
            others = {"memory_used_bytes", "power_w"} - {field}
            assert all(getattr(gpu, other).value is not None for other in others)
        driver.rule(function)
        driver.after(30.0)
    # What is refused for good is rarely asked again.
    n_calls = driver.calls("nvmlDeviceGetUtilizationRates")
    driver.rule("nvmlDeviceGetUtilizationRates", code=pynvml.NVML_ERROR_NO_PERMISSION)
    for _sample in range(100):
        driver.after(0.25)
    assert driver.calls("nvmlDeviceGetUtilizationRates") == n_calls + 1
    driver.rule("nvmlDeviceGetUtilizationRates")
    assert driver.after(30.0)[0].utilisation == Reading(0.3)

    class OldLibrary:
        def __getattr__(self, name: str) -> object:
            if name == "nvmlDeviceGetPowerUsage":
                raise AttributeError(name)
            return getattr(driver.library, name)

    monkeypatch.setattr(pynvml, "nvmlLib", OldLibrary())
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    assert driver.after(30.0)[0].power_w == Reading(
        None, "this NVIDIA driver is too old to report power"
    )


def test_what_holds_the_clocks_back_is_told_in_words(driver: Monitored) -> None:
    gpu = driver.add_gpu()
    slowdown = pynvml.nvmlClocksThrottleReasonHwSlowdown
    thermal = pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
    power = pynvml.nvmlClocksThrottleReasonSwPowerCap
    for gpu.throttle_reasons, told in (
        # Nothing to do, or a clock that the user has set.
        (pynvml.nvmlClocksThrottleReasonGpuIdle, ()),
        (pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting, ()),
        (power, (Throttle.POWER,)),
        (slowdown, (Throttle.HARDWARE,)),
        (
            slowdown + thermal + pynvml.nvmlClocksThrottleReasonSwThermalSlowdown,
            (Throttle.HEAT,),
        ),
        (
            power + pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
            (Throttle.SUPPLY, Throttle.POWER),
        ),
    ):
        assert driver.after(2.0)[0].throttled_by == Known(told)


def test_a_driver_that_lies_about_its_memory_is_not_believed(driver: Monitored) -> None:
    gpu = driver.add_gpu()
    more, no_size = "more memory in use than there is", "a memory of no size"
    for used, total, told in (
        (2, 1, (more, None)),
        (0, 0, (no_size, no_size)),
        (1, 1, (None,) * 2),
    ):
        gpu.memory_used_bytes, gpu.memory_total_bytes = used * GIB, total * GIB
        (found,) = driver.after(2.0)
        reasons = (found.memory_used_bytes.reason, found.memory_total_bytes.reason)
        assert reasons == tuple(why and f"the driver reports {why}" for why in told)
        assert (found.memory_used_bytes.value is None) == (told[0] is not None)


def test_one_address_is_written_in_one_way() -> None:
    for text, address in (
        ("00000000:01:00.0", "0000:01:00.0"),
        ("00010000:8A:00.1", "10000:8a:00.1"),
        # llama.cpp's second device on one card.
        ("0001:c1:00.0-v2", "0001:c1:00.0"),
        ("4294967700", None),
        ("", None),
        (None, None),
    ):
        assert pci_address(text) == address


def test_a_thread_makes_the_call_that_blocks(driver: Monitored) -> None:
    gpu = driver.add_gpu(received_kib_per_s=2000, sent_kib_per_s=500)
    # It does not hold up the other readings.
    driver.rule("nvmlDeviceGetPcieThroughput", gpu=0, hangs=True)
    driver.after()
    gpu.memory_used_bytes = 5 * GIB
    (reading,) = driver.after()
    assert reading.memory_used_bytes == Reading(5 * GIB)
    assert reading.pcie_rx_bytes_per_s.value is None
    driver.rule("nvmlDeviceGetPcieThroughput", gpu=0)
    until(lambda: traffic(driver.after()[0]) == (2000 * 1024, 500 * 1024))
    assert slow_threads() == 1
    driver.rule("nvmlDeviceGetPcieThroughput", code=pynvml.NVML_ERROR_NOT_SUPPORTED)
    wanted = Reading(None, "the driver does not report PCIe traffic")
    until(lambda: driver.after()[0].pcie_rx_bytes_per_s == wanted)
    driver.gpus.close()
    assert slow_threads() == 0


def test_a_measurement_that_never_ends_is_not_shown_for_ever(nvml: StandIn) -> None:
    hangs = threading.Event()
    meter = SlowMeter(lambda: (float(hangs.wait()), 0.0))
    readings = [meter.read()[0].reason for _sample in range(120)]
    assert readings[-1] == "the driver has stopped answering about PCIe traffic"
    hangs.set()
    meter.close()
    assert nvml.sessions() == 0


def test_a_driver_that_does_not_start_explains_itself_and_is_tried_again(driver: Monitored) -> None:
    for n, (code, reason) in enumerate(
        (
            (
                pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
                "no NVIDIA driver is loaded (its kernel module does not answer)",
            ),
            (
                pynvml.NVML_ERROR_NO_PERMISSION,
                "no permission: the driver hides the GPUs from this user",
            ),
            (
                pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
                "the NVIDIA driver was updated while it ran; restart the machine",
            ),
        ),
        start=1,
    ):
        driver.rule("nvmlInit", code=code)
        assert driver.reason(RETRY_S) == reason
        assert {driver.reason() for _sample in range(10)} == {reason}
        assert driver.calls("nvmlInit", gpu=-1) == n
    driver.rule("nvmlInit")
    assert driver.reason(RETRY_S) == "the NVIDIA driver finds no GPU"
    driver.add_gpu()
    assert len(driver.after(RETRY_S)) == 1
    assert driver.reason() is None


def test_a_gpu_that_fails_explains_every_reading_and_the_other_goes_on(driver: Monitored) -> None:
    lost, reset = "was lost; restart the driver", "needs a reset; restart the driver"
    driver.add_gpu()
    driver.add_gpu()
    driver.rule("nvmlDeviceGetHandleByIndex", gpu=1, code=pynvml.NVML_ERROR_NO_PERMISSION)
    driver.rule("nvmlDeviceGetPciInfo", gpu=0, code=pynvml.NVML_ERROR_NOT_SUPPORTED)
    other, closed = driver.after()
    assert (other.address, other.power_w) == (None, Reading(95.5))
    assert (closed.index, closed.name) == (1, "GPU 1")
    assert closed.power_w == Reading(None, "no permission: the driver hides GPU 1 from this user")
    driver.rule("nvmlDeviceGetHandleByIndex", gpu=1)
    for function, code, reason in (
        ("*", pynvml.NVML_ERROR_GPU_IS_LOST, lost),
        ("*", pynvml.NVML_ERROR_RESET_REQUIRED, reset),
    ):
        assert driver.after(RETRY_S)[1].memory_used_bytes == Reading(GIB)
        driver.rule(function, gpu=1, code=code)
        alive, failed = driver.after()
        assert alive.memory_used_bytes == Reading(GIB)
        told = Reading(None, f"GPU 1 {reason}")
        assert {getattr(failed, field) for field in READINGS} == {told}
        driver.rule(function, gpu=1)


def test_a_lost_gpu_is_read_again_when_it_comes_back(driver: Monitored) -> None:
    driver.add_gpu(power_mw=100_000)
    driver.add_gpu(power_mw=200_000)
    driver.after()
    driver.rule("*", gpu=1, code=pynvml.NVML_ERROR_GPU_IS_LOST)
    driver.after()
    # Between tries it is left alone.
    n_calls = driver.calls("nvmlDeviceGetMemoryInfo", gpu=1)
    for _sample in range(20):
        driver.after(0.25)
    assert driver.calls("nvmlDeviceGetMemoryInfo", gpu=1) == n_calls
    assert driver.calls("nvmlInit", gpu=-1) == 1
    # The driver finds the cards in another order.
    driver.rule("*", gpu=1)
    driver.reorder()
    readings = driver.after(RETRY_S)
    assert [gpu.name for gpu in readings] == ["Stand-in 0", "Stand-in 1"]
    assert [gpu.power_w.value for gpu in readings] == [100, 200]
    assert (driver.calls("nvmlInit", gpu=-1), driver.sessions()) == (2, 1)
    # A session that somebody else ended is begun again.
    pynvml.nvmlShutdown()
    ended = "NVML was shut down; it is started again shortly"
    assert driver.after()[0].utilisation == Reading(None, ended)
    assert driver.after(RETRY_S)[0].utilisation == Reading(0.3)
    # The driver dies as a whole.
    driver.rule("*", gpu=0, code=pynvml.NVML_ERROR_GPU_IS_LOST)
    driver.rule("nvmlInit", code=pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    driver.after()
    gpu, _other = driver.after(RETRY_S)
    assert gpu.power_w.reason == "no NVIDIA driver is loaded (its kernel module does not answer)"


def test_the_machine_names_its_gpus_and_their_driver(nvml: StandIn) -> None:
    nvml.update_driver("550.54")
    assert this_machine().driver is None
    assert "driver" not in this_machine().document()
    nvml.add_gpu()
    nvml.add_gpu(name="Größe".encode())
    machine = this_machine()
    assert machine.gpus == ("Stand-in 0", "Größe")
    assert machine.document()["driver"] == machine.conditions["driver"] == "550.54"
    nvml.update_driver("560.28")
    with pytest.raises(UsageError, match="with another GPU driver; its trials"):
        check_same("s", machine.conditions, this_machine().conditions)
    nvml.rule("nvmlSystemGetDriverVersion", code=pynvml.NVML_ERROR_UNKNOWN)
    untold = this_machine()
    assert (untold.gpus, untold.driver) == (machine.gpus, None)
    assert untold.fingerprint == machine.fingerprint
    assert "driver" not in untold.conditions
    nvml.rule("nvmlDeviceGetName", code=pynvml.NVML_ERROR_NO_PERMISSION)
    unnamed = this_machine()
    assert unnamed.gpus == ()
    assert unnamed.gpu_problem == "no permission: the driver hides its GPUs from this user"
    assert nvml.sessions() == 0


# -- the library itself, as a program of its own finds it

SHOW = """
import sys
from pathlib import Path
from spectui.monitor.sampler import LiveSource
source = LiveSource(root=Path(sys.argv[1]))
snapshot = source.read()
print([gpu.name for gpu in snapshot.gpus], snapshot.gpu_reason)
source.close()
"""


def test_the_library_is_found_by_its_name(nvml_library: Path, tmp_path: Path) -> None:
    # A broken file, so that the result is the same on a machine that has the real one.
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")
    missing = "no NVIDIA driver is loaded (libnvidia-ml.so.1 was not found)"
    for folder, told in (
        (nvml_library.parent, "['Stand-in GPU'] None"),
        (tmp_path, f"[] {missing}"),
    ):
        command = [sys.executable, "-c", SHOW, str(folder)]
        answer = subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment(folder)
        )
        assert answer.stdout.strip() == told
