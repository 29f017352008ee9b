"""Commands with one mutation each: lint against the real llama-server, which reads them itself."""

import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Severity
from spectui.commands.items import divide
from spectui.commands.lint.checking import lint
from spectui.commands.reader import Reader
from spectui.errors import BadInputError
from spectui.server.binary import examine
from spectui.server.judge import reader_of

pytest_plugins = ["tests.support.fixtures"]

pytestmark = [pytest.mark.server, pytest.mark.ci]
N_LINES = 200
TAKEN = """
    -c 0|4096|131072; -b 64|2048; -ub 64|512; -t 4|8; -tb 4; -np 1|4; -n -1|256; --keep 8; -s 42
    -ngl 0|99|auto|all; -ngld 0|99|all; -ncmoe 10; --n-cpu-moe-draft 4; -sm none|layer|row|tensor
    -ts 3,1|0.5,0.5; -mg 0|1; -dev none; -devd none; -ot exps=CPU|blk.1.=CPU,exps=CPU; -fit on|off
    -fitt 1024|512,512; -fitc 4096; -lm mmap|none|mlock|dio|auto; --numa distribute|isolate
    -fa on|off|auto; -ctk f16|q8_0|q4_0|bf16; -ctv f32|q5_1|iq4_nl; -ctkd q8_0; -ctvd f16
    --rope-scaling none|linear|yarn; --rope-freq-base 10000.5; --yarn-ext-factor 1.0
    --spec-type draft-mtp|ngram-simple|ngram-mod|ngram-mod,ngram-simple; --spec-draft-n-max 8|16
    --spec-draft-n-min 1; --spec-draft-p-min 0.6|0; --spec-ngram-mod-n-max 64; -md draft.gguf
    --temp 0|0.7; --top-k 40; --top-p 0.95; --min-p 0.05; --repeat-penalty 1.1; --mirostat 0|2
    --samplers top_k;temperature; --logit-bias 5+1|7-0.5; --dry-multiplier 0.8; -l 3+1
    --port 8081; --host 0.0.0.0|::1; --timeout 600; --threads-http 2; --alias a,b; -a name
    --cache-reuse 256; -cram 0|8192|-1; --ctx-checkpoints 4; -sps 0.5; --slot-prompt-similarity 0
    --reasoning-format none|deepseek|auto; --reasoning-budget 0|-1; --chat-template chatml|llama3
    --chat-template-kwargs {"a":true}|{}; -j {}|{"type":"string"}; --override-kv a.b=int:3
    --pooling none|mean|cls; --prio 0|3; --poll 50; -lv 3; --log-colors on|off|auto
    --embd-normalize 2; --kv-unified; --swa-full; --jinja; --no-jinja; --metrics; --slots
    --no-slots; --no-warmup; --no-context-shift; --no-mmproj; --no-op-offload; -nkvo; -cmoe; -v
    --ignore-eos; --no-cont-batching; --spec-default; --log-prefix; -nr
"""
"""Options with values that the pinned llama-server takes."""
_WORDS = ("x", "", "on", "ON", "-1", "0", "99999999999", "1e999", "4k", "1,5", "yes", "--", "0x10")
_TYPES = ("q6_0", "q9_0", "Q8_0", "fp16", "q8-0", "int4", "f16 ", "auto")
_DEVICES = ("GPU", "cuda", "CUDA", "all", "gpu,cpu", "CPU", "None", "")
_TEXTS = ('{"a":', "{a: 1}", "{'a': 1}", '{"a": True}', "[1", "{}}", "")
_PLACED = ("exps", "exps=", "exps=GPU", "a=CPU,b", "exps=cpu", "exps=CUDA", "=CPU,")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutated:
    """A command of which one option was mutated, and what the real server makes of it."""

    words: tuple[str, ...]
    option: tuple[str, ...]
    """The words of the mutated option."""
    is_refused: bool

    def errors(self, reader: Reader) -> list[str]:
        """What lint says is refused, or why the command cannot be read at all."""
        try:
            command = ServerCommand.of(divide(self.words))
        except BadInputError as fault:
            return [str(fault)]
        found = lint(command, reader)
        return [one.what for one in found if one.severity is Severity.ERROR]


def _taken() -> list[list[tuple[str, ...]]]:
    found: list[list[tuple[str, ...]]] = []
    for text in TAKEN.replace("\n", ";").split("; "):
        for one in text.split(";    "):
            flag, _, values = one.strip(" ;").partition(" ")
            if flag:
                found.append([(flag, value) if value else (flag,) for value in values.split("|")])
    return found


def _misspelt(flag: str, chance: random.Random) -> str:
    at = chance.randrange(2, len(flag)) if len(flag) > 2 else 1
    return chance.choice(
        [
            flag[:at] + flag[at + 1 :],
            flag[:at] + flag[at] + flag[at:],
            flag[: at - 1] + flag[at] + flag[at - 1] + flag[at + 1 :],
            f"{flag}=1",
            flag.upper(),
            flag.replace("-", "\N{EN DASH}", 1),
            flag.replace("--", "-", 1),
        ]
    )


def _mutation(option: tuple[str, ...], chance: random.Random) -> tuple[str, ...]:
    flag, value = option[0], option[1:]
    if not value or chance.random() < 0.2:
        return (_misspelt(flag, chance), *value)
    for names, others in (
        (("-ctk", "-ctv", "-ctkd", "-ctvd"), _TYPES),
        (("-dev", "-devd"), _DEVICES),
        (("-j", "--chat-template-kwargs"), _TEXTS),
        (("-ot",), _PLACED),
    ):
        if flag in names:
            return (flag, chance.choice(others))
    return (flag, chance.choice((*_WORDS, value[0] + "x", value[0].upper(), value[0][:-1])))


def _command(chance: random.Random) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of a command, and those of its mutated option."""
    options = [chance.choice(one) for one in chance.sample(_taken(), chance.randrange(3, 9))]
    at = chance.randrange(len(options))
    options[at] = _mutation(options[at], chance)
    return ("-m", "a.gguf", *(word for option in options for word in option)), options[at]


@pytest.fixture(name="lines", scope="module")
def real_lines(llama_server_binary: Path) -> list[Mutated]:
    chance = random.Random(42)  # noqa: S311 - the same in every run
    found = []
    for words, option in (_command(chance) for _ in range(N_LINES)):
        # They name nothing that it would open, connect to, or fetch.
        asked = subprocess.run(
            [llama_server_binary, "--help", *words], capture_output=True, check=False
        )
        found.append(Mutated(words=words, option=option, is_refused=asked.returncode != 0))
    return found


def test_with_the_server_lint_refuses_what_it_refuses(
    lines: list[Mutated],
    llama_server_binary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    reader = reader_of(examine(str(llama_server_binary)))
    assert N_LINES * 0.5 < sum(one.is_refused for one in lines) < N_LINES * 0.9
    assert [one for one in lines if bool(one.errors(reader)) is not one.is_refused] == []


def test_without_it_no_error_is_one_that_the_server_does_not_make(lines: list[Mutated]) -> None:
    assert [one for one in lines if one.errors(Reader()) and not one.is_refused] == []
