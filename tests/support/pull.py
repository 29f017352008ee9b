"""What pulls are tested with: a preset of one's own, and the command that fetches it."""

import re
from pathlib import Path

from tests.support.cli import Spectui

MIB = 1 << 20
FIRST, SECOND = "Q8_0/Target-00001-of-00002.gguf", "Q8_0/Target-00002-of-00002.gguf"
TARGET, DRAFT = "them/Target-GGUF", "them/Draft-GGUF"
PRESET = f"""
[target]
repo = "{TARGET}"
files = ["Target-*.gguf"]

[[draft]]
repo = "{DRAFT}"
files = ["Draft.gguf"]
"""
SMALL = b"GGUF draft"
BIG = bytes(range(256)) * (3 * MIB // 256) + b"!"
MINE = "hf_mine"
_AMBIENT = re.compile(
    r"HF_.*|HUGGING_FACE_HUB_TOKEN|TRANSFORMERS_OFFLINE|.*_PROXY|SSL_CERT_.*|GITHUB_ACTIONS",
    re.IGNORECASE,
)


class Pull(Spectui):
    """``spectui models pull`` in this process."""

    def __call__(self, *arguments: object) -> int:
        return super().__call__("models", "pull", *arguments)

    @property
    def error(self) -> str:
        return last_error(self.err)


def is_ambient(variable: str) -> bool:
    """Whether it would let the machine that tests run on decide what they find."""
    return _AMBIENT.fullmatch(variable) is not None


def last_error(err: str) -> str:
    """The one sentence at the end of stderr."""
    assert "Traceback" not in err
    [error] = [line for line in err.splitlines() if line.startswith("error: ")]
    assert err.endswith(f"{error}\n")
    return error


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
