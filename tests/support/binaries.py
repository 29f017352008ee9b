"""Programs that answer ``--help`` and ``--version`` as llama-servers of several times do."""

import sys
from pathlib import Path

_HELP = Path(__file__).parents[1] / "data" / "help"
CURRENT = (_HELP / "current.txt").read_text("utf-8")
"""What the build that spectui is made for prints of the options that matter here."""
BETWEEN = (_HELP / "between.txt").read_text("utf-8")
"""Of the weeks in which llama.cpp renamed its options: some are new, some are not."""
LEGACY = (_HELP / "legacy.txt").read_text("utf-8")
OLDEST = (_HELP / "oldest.txt").read_text("utf-8")
"""Before autumn 2025."""
IK = (_HELP / "ik.txt").read_text("utf-8")
OLD_IK = (_HELP / "old-ik.txt").read_text("utf-8")
"""From before it took settings in its ``--spec-type``."""


def write_binary(path: Path, help_text: str, version: str = "version: 6945 (c0ffee12)") -> Path:
    """A program with these answers, which counts how often it was asked in ``path.asked``."""
    source = (
        f"#!{sys.executable} -S\n"
        "import sys\n"
        f"open({str(path) + '.asked'!r}, 'a').write(sys.argv[1] + '\\n')\n"
        f"if sys.argv[1] == '--help':\n    print({help_text!r})\n"
        f"else:\n    print({version!r}, file=sys.stderr)\n"
    )
    return write_script(path, source)


def write_script(path: Path, source: str) -> Path:
    path.write_text(source, "utf-8")
    path.chmod(0o755)
    return path
