"""``--help`` of every command, as 80 columns show it."""

import re

from tests.golden.conftest import Golden
from tests.golden.support import Place

_COMMANDS = re.compile(r"^Commands:\n((?:  .*\n)+)", re.MULTILINE)
_NAME = re.compile(r"^  (\S+)", re.MULTILINE)


def test_help(golden: Golden, place: Place) -> None:
    texts: dict[str, str] = {}
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        command = waiting.pop()
        said = place.run(*command, "--help")
        texts[f"{'-'.join(command) or 'spectui'}.txt"] = said.text
        if listed := _COMMANDS.search(said.out):
            waiting += [(*command, name) for name in _NAME.findall(listed[1])]
    assert len(texts) > 20
    golden("help", texts)
