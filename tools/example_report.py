"""Search the demo pair, and keep the report of that as docs/example-report.html.

    python -m tools.example_report

Takes some ten minutes, in which nothing else should run on the machine.
"""

import subprocess
import sys

from tools.demo_folder import HOME, PAIR, ROOT, demo_folder

PAGE = ROOT / "docs" / "example-report.html"
_SPECTUI = (sys.executable, "-m", "spectui")
_SEARCH = (*PAIR, "-c", "2048", "--request", "512+256", "--time-budget", "10m", "--quiet")


def main() -> None:
    """Search, and write the page."""
    with demo_folder() as folder:
        for words in (("tune", *_SEARCH), ("report", "--out", "report.html")):
            subprocess.run([*_SPECTUI, *words], cwd=folder.path, env=folder.environment, check=True)
        # Studies keep whole paths; those of this machine are nobody's business.
        page = (folder.path / "report.html").read_text("utf-8").replace(str(folder.path), HOME)
        folder.check(PAGE.name, page)
    PAGE.write_text(page, "utf-8")
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
