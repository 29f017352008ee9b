"""Exit codes and messages of what is refused: ``wrong_uses.txt`` has the commands."""

import shlex
from pathlib import Path

from tests.golden.conftest import Golden
from tests.golden.support import Place

_COMMANDS = Path(__file__).with_name("wrong_uses.txt")
_PAIR = "-m target.gguf -md close.gguf -c 256 -t 1 -n 4"


def test_wrong_uses(golden: Golden, place: Place) -> None:
    place.write_bad_files()
    place.server("llama-server")
    texts, accepted = [], []
    for line in _COMMANDS.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        said = place.run(*shlex.split(line.replace("PAIR", _PAIR)))
        if said.code not in {2, 3, 5} or "Traceback" in said.err:
            accepted.append(said.text)
        parts = [
            f"$ {line}",
            f"exit code {said.code}",
            said.out.rstrip("\n"),
            said.err.rstrip("\n"),
        ]
        texts.append("\n".join(filter(None, parts)))
    assert not accepted, "\n".join(accepted)
    golden("wrong-uses", {"refused.txt": "\n\n".join(texts) + "\n"})
