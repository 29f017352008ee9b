"""What a file says of a server besides its command, exported into a file of the same kind."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from spectui.commands.sources.presets import read_presets
from tests.support.cli import Spectui
from tests.support.tables import table

pytest_plugins = ["tests.support.cli_fixtures"]

DOCKER = """docker run -d --rm --name llama --gpus '"device=0,1"' --ulimit memlock=-1 --ipc=host \\
  -p 127.0.0.1:8081:8080 -v /srv/models:/models:ro -v cache:/root/.cache --log-driver none \\
  --restart always -e CUDA_LAUNCH=$$ -e LLAMA_ARG_CTX_SIZE=4096 --network llm \\
  ghcr.io/ggml-org/llama.cpp:server-cuda -m /models/a.gguf --no-mmap
"""


def in_file(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, "utf-8")
    return path


def composed(spectui: Spectui, command: object) -> dict[str, Any]:
    assert spectui("export", "--from", command, "--format", "compose") == 0, spectui.err
    tree = yaml.safe_load(spectui.out)
    assert isinstance(tree, dict)
    return tree


def test_docker_run_becomes_a_service_with_all_that_it_had(spectui: Spectui) -> None:
    tree = composed(spectui, DOCKER.replace("$$", "'$1'"))
    device = {"driver": "nvidia", "capabilities": ["gpu"], "device_ids": ["0", "1"]}
    assert tree == {
        "services": {
            "llama": {
                "image": "ghcr.io/ggml-org/llama.cpp:server-cuda",
                "container_name": "llama",
                "deploy": {"resources": {"reservations": {"devices": [device]}}},
                "ipc": "host",
                "ports": ["127.0.0.1:8081:8080"],
                "volumes": ["/srv/models:/models:ro", "cache:/root/.cache"],
                "restart": "always",
                "command": [
                    *("--ctx-size", "4096", "-m", "/models/a.gguf", "--load-mode", "none"),
                ],
                "environment": {"CUDA_LAUNCH": "$$1"},
            }
        },
        "volumes": {"cache": {"external": True}},
    }
    told = "# left out, since spectui knows no word of Compose for it: "
    assert spectui.out.startswith(f"{told}--ulimit, --log-driver, --network")


def test_secrets_stay_where_they_are(
    spectui: Spectui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    text = (
        "services: {a: {image: llama.cpp, command: -m /a, environment: [HF_TOKEN, CUDA_X=1, "
        "LLAMA_ARG_CTX_SIZE=5]}}"
    )
    [service] = composed(spectui, in_file(tmp_path, "a.yaml", text))["services"].values()
    assert "hf_secret" not in spectui.out
    assert service["environment"] == {"CUDA_X": "1", "HF_TOKEN": None}
    assert service["command"] == ["--ctx-size", "5", "-m", "/a"]
    composed(spectui, "docker run -e HF_TOKEN llama.cpp -m /a.gguf")
    assert "hf_secret" not in spectui.out


ROUTER = """version = 1
[*]
ctx-size = 8192
no-mmap = true
[Größe: my model]
model = /m/a.gguf
c = 512
stop-timeout = 5
load-on-startup = true
[ggml-org/gemma-3-4b-it-GGUF:Q4_K_M]
chat-template = chatml
model-draft = /m/d.gguf
[local]
jinja = true
"""


def sections(text: str) -> dict[str, dict[str, str]]:
    found = read_presets(text, Path("x.ini"))
    assert found is not None
    return {name: {one.key: one.value for one in keys} for name, keys in found.items()}


@table(
    ("section", "expected"),
    [
        (
            "Größe: my model",
            {
                "ctx-size": "512",
                "load-mode": "none",
                "model": "/m/a.gguf",
                "stop-timeout": "5",
                "load-on-startup": "true",
            },
        ),
        ("local", {"ctx-size": "8192", "load-mode": "none", "jinja": "true"}),
    ],
)
def test_a_section_keeps_its_name_and_what_the_router_reads(
    spectui: Spectui, tmp_path: Path, section: str, expected: dict[str, str]
) -> None:
    path = in_file(tmp_path, "models.ini", ROUTER)
    assert spectui("export", "--from", f"{path}:{section}", "--format", "ini") == 0
    assert sections(spectui.out)[section] == expected
    assert all(line.startswith("changed, since ") for line in spectui.err.splitlines())
