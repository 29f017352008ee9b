"""Each command ends with the next one, which can be copied and runs."""

import shlex
from pathlib import Path

import pytest

from spectui.paths import STORAGE_VARIABLE
from spectui.secret import printable_word
from tests.support.cli import Spectui
from tests.support.models import TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]


def next_words(spectui: Spectui) -> list[str]:
    """The first command of the last lines, without the program's name."""
    lines = spectui.out.splitlines()
    at = max(n for n, line in enumerate(lines) if line.startswith("Next: "))
    program, *words = shlex.split(lines[at + 1])
    assert program == "spectui"
    return words


def test_doctor_names_a_scan_and_then_the_search(
    spectui: Spectui, tiny: TinyPath, pair: list[object]
) -> None:
    assert spectui("doctor") == 0
    assert next_words(spectui) == ["models", "scan"]
    target = str(tiny(TARGET))
    assert spectui("doctor", *pair[:2], "-c", 256) == 0
    assert next_words(spectui) == ["models", "scan", "-m", target]
    assert spectui("doctor", *pair[:4], "-c", 256, "--draft-max", 4) == 0
    words = next_words(spectui)
    assert words == ["tune", *map(str, pair[:4]), "-c", "256"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("llama-server -m a.gguf -np 1", ["tune", "--from", "llama-server -m a.gguf -np 1"]),
        ("llama-server -m a.gguf --draft-max", None),
        ("llama-server -hf a/b", None),
        ("llama-server -m ''", None),
        ("llama-server -m a.gguf -c 4k", None),
        ("serve.sh", ["tune", "--from", "serve.sh"]),
    ],
)
def test_lint_names_the_search_from_what_it_has_corrected(
    spectui: Spectui,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    words: list[str] | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "serve.sh").write_text("llama-server -m a.gguf --draft-max 8\n")
    spectui("lint", command, "--no-models")
    assert ("Next: " in spectui.out) is (words is not None)
    assert words is None or next_words(spectui) == words


KEPT = "s3cr3t"
SECRETS = (
    f"llama-server -m a.gguf --api-key {KEPT} -c 64",
    f"llama-server -m a.gguf --api-key={KEPT} -c 64",
    f"llama-server -m a.gguf --api-key '{KEPT} {KEPT}' -c 64",
    f"llama-server -m a.gguf --api-key -{KEPT} -c 64",
    f"llama-server -m a.gguf \\\n  --api-key \\\n  {KEPT} \\\n  -c 64",
    f"llama-server -m a.gguf -hft {KEPT} -c 64",
    f"LLAMA_API_KEY={KEPT} llama-server -m a.gguf -c 64",
    f'LLAMA_API_KEY="{KEPT} {KEPT}" llama-server -m a.gguf -c 64',
    f"env HF_TOKEN={KEPT} llama-server -m a.gguf -c 64",
    f"export HF_TOKEN={KEPT}; llama-server -m a.gguf -c 64",
    f"export A=1\nexport LLAMA_API_KEY='{KEPT}'\nllama-server -m a.gguf -c 64",
    f"docker run -e LLAMA_API_KEY={KEPT} llama.cpp -m a.gguf -c 64",
    f"docker run -e 'LLAMA_API_KEY={KEPT}' llama.cpp -m a.gguf -c 64",
    f"docker run --env=LLAMA_API_KEY={KEPT} llama.cpp -m a.gguf -c 64",
    f"sh -c 'llama-server -m a.gguf --api-key {KEPT}'",
    f"llama-server -m a.gguf --mmproj-url https://u:{KEPT}@h/p -c 64",
    f"llama-server -m a.gguf --mmproj-url 'https://h/p?token={KEPT}&n=1' -c 64",
    f"""llama-server -m a.gguf --webui-config '{{"apiKey": "{KEPT}"}}' -c 64""",
    f"llama-server -m 'a.gguf --api-key {KEPT}",
)
"""Commands with secrets, as they are pasted behind ``--from``."""


@pytest.mark.parametrize("text", SECRETS)
def test_a_command_to_copy_has_no_secret(text: str) -> None:
    shown = printable_word(text)
    assert KEPT not in shown
    # What is there is the command still, whatever a shell makes of it.
    assert printable_word(shown) == shown
    assert [one for one in ("a.gguf", "-m", "-c 64") if one in text and one not in shown] in (
        [],
        # Of a text in a text nothing is kept behind a secret.
        ["-c 64"] * ("sh -c" in text),
    )


@pytest.mark.parametrize(
    "text",
    [
        "llama-server -m 'my model.gguf' --api-key-file keys.txt -n 3",
        "llama-server -m a.gguf --override-kv tokenizer.ggml.add_bos_token=bool:false &",
        "export A='b c'\nllama-server -m api-key \\\n  --draft-max 8",
        'llama-server -m "a b.gguf" --n-tokens 8 # it\'s mine',
        "postgresql://me@host/studies",
    ],
)
def test_a_command_without_secrets_is_repeated_as_it_was_typed(text: str) -> None:
    assert printable_word(text) == text


@pytest.mark.parametrize("text", SECRETS)
def test_what_is_printed_of_a_command_has_no_secret(
    spectui: Spectui, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", KEPT)
    monkeypatch.setenv(STORAGE_VARIABLE, f"postgresql://u:{KEPT}@localhost:1/studies")
    for command in (("lint", "--no-models", text), ("tune", "--from", text)):
        spectui(*command)
        assert KEPT not in spectui.out + spectui.err


def test_the_next_step_can_be_run_with_what_stands_for_a_secret(
    spectui: Spectui, pair: list[object], prompts: Path
) -> None:
    words = shlex.join(["llama-server", *map(str, pair)])
    given = ("--from", f"export HF_TOKEN={KEPT}; LLAMA_API_KEY={KEPT} {words} --api-key {KEPT}")
    limits = ("--prompts", prompts, "-n", 4)
    assert spectui("bench", *given, *limits) == 0, spectui.err
    assert KEPT not in spectui.out + spectui.err
    again = next_words(spectui)
    assert again[0] == "tune"
    assert spectui("bench", *again[1:]) == 0, spectui.err
    assert KEPT not in spectui.out + spectui.err
