"""Holds what requirements.lock names against a service of known vulnerabilities.

Run with the Python of an environment that has pip-audit. Ends with 1 where the service knows a
vulnerability, and with 2 where the audit failed. Where the service cannot be reached, or knows a
package not, that is said and ends with 0.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "requirements.lock"
_UNREACHABLE = re.compile(
    r"^(?:ERROR:pip_audit\._cli:Could not connect to "
    r"|requests\.exceptions\.(?:ConnectionError|ProxyError|ConnectTimeout|ReadTimeout): )",
    re.MULTILINE,
)
"""What pip-audit 2.10 prints then: a timeout is a sentence, other reasons are a traceback."""


def main(arguments: list[str]) -> int:
    """Audit the lock, with further arguments for pip-audit; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lock", default=LOCK, help="file of requirements to audit")
    given, further = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "-r", given.lock]
        command = [sys.executable, "-m", "pip_audit", *options, "-f", "json", "-o", report]
        audit = subprocess.run(
            [*command, *further], capture_output=True, text=True, errors="replace", check=False
        )
        text = report.read_text(encoding="utf-8") if report.exists() else ""
    if text:
        return _told(json.loads(text)["dependencies"])
    last = (audit.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if _UNREACHABLE.search(audit.stderr):
        print(f"NOT FATAL: nothing was audited, the service cannot be reached ({last})")
        return 0
    print(audit.stderr, end="", file=sys.stderr)
    print(f"the audit failed: pip-audit ended with {audit.returncode} ({last})")
    return 2


def _told(packages: list[dict[str, Any]]) -> int:
    """Print what is known of the packages, and of which nothing is."""
    is_vulnerable = False
    for one in packages:
        for found in one.get("vulns", []):
            is_vulnerable = True
            fixed = ", ".join(found["fix_versions"]) or "no version yet"
            print(f"{one['name']} {one['version']}: {found['id']}, mended in {fixed}")
    left_out = [str(one["name"]) for one in packages if "vulns" not in one]
    print(f"{len(packages) - len(left_out)} of {len(packages)} packages were audited")
    if left_out:
        print(f"NOT FATAL: the service does not know {', '.join(left_out)}")
    return int(is_vulnerable)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
