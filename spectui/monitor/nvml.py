"""The choke point of NVML: every call of ``pynvml`` (``nvidia-ml-py``) goes through ``call``.

What NVML refuses becomes an ``NvmlError``, which can say in a short sentence why.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import pynvml

T = TypeVar("T")

_REASONS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "no NVIDIA driver is loaded (libnvidia-ml.so.1 was not found)"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "no NVIDIA driver is loaded (its kernel module does not answer)"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVIDIA driver was updated while it ran; restart the machine"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission: the driver hides {what} from this user",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "the driver does not report {what}",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "this NVIDIA driver is too old to report {what}",
    pynvml.NVML_ERROR_GPU_IS_LOST: "{gpu} was lost; restart the driver",
    pynvml.NVML_ERROR_RESET_REQUIRED: "{gpu} needs a reset; restart the driver",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "{gpu} is not there any more; restart the driver",
    pynvml.NVML_ERROR_NOT_FOUND: "{gpu} is not there any more; restart the driver",
    pynvml.NVML_ERROR_UNINITIALIZED: "NVML was shut down; it is started again shortly",
}
_PERMANENT = (
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
)
_LOST = (
    pynvml.NVML_ERROR_GPU_IS_LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED,
    pynvml.NVML_ERROR_GPU_NOT_FOUND,
    # Another part of this process ended the session: to us that is the same.
    pynvml.NVML_ERROR_UNINITIALIZED,
)


class NvmlError(Exception):
    """A call that NVML refused."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    @property
    def is_permanent(self) -> bool:
        """Whether asking again a moment later is pointless."""
        return self.code in _PERMANENT

    @property
    def is_lost(self) -> bool:
        """Whether the GPU answers nothing until a new session finds it again."""
        return self.code in _LOST

    def reason(self, what: str, gpu: str = "the GPU") -> str:
        """Return a short sentence for a panel; ``what`` was asked of ``gpu``."""
        form = _REASONS.get(self.code, 'NVML could not tell {what}: "{text}"')
        return form.format(what=what, gpu=gpu, text=self)


def call(function: Callable[..., T], *arguments: object) -> T:
    """Call a function of ``pynvml``.

    Raises:
        NvmlError: NVML refused.
    """
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise NvmlError(error.value, str(error)) from error


def start() -> None:
    """Begin a session. NVML counts them, and ends with the last.

    Raises:
        NvmlError: there is no driver, or it does not answer.
    """
    call(pynvml.nvmlInit)


def stop() -> None:
    """End a session; one that is over already is fine."""
    with suppress(NvmlError):
        call(pynvml.nvmlShutdown)


@contextmanager
def session() -> Iterator[None]:
    """Hold a session.

    Raises:
        NvmlError: there is no driver, or it does not answer.
    """
    start()
    try:
        yield
    finally:
        stop()
