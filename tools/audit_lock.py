"""Holds what requirements.lock names against a service of known vulnerabilities.

Run with the Python of an environment that has pip-audit. Ends with 1 where the service knows a
vulnerability. Where it cannot be asked, or knows no package, that is said and ends with 0.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements.lock"


def main(arguments: list[str]) -> int:
    """Audit the lock, with further arguments for pip-audit; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        given = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "-r", str(LOCK)]
        command = [sys.executable, "-m", "pip_audit", *given, "-f", "json", "-o", str(report)]
        audit = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, errors="replace", check=False
        )
        text = report.read_text(encoding="utf-8") if report.exists() else ""
    if not text:
        last = (audit.stderr.strip().splitlines() or ["it said nothing"])[-1]
        print(f"NOT FATAL: nothing was audited, the service did not answer ({last})")
        return 0
    packages = json.loads(text)["dependencies"]
    audited = [one for one in packages if "vulns" in one]
    for one in audited:
        for found in one["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no version yet"
            print(f"{one['name']} {one['version']}: {found['id']}, mended in {fixed}")
    if not audited:
        print("NOT FATAL: nothing was audited, the service knows none of the packages")
    else:
        print(f"{len(audited)} of {len(packages)} packages were audited")
    return int(any(one["vulns"] for one in audited))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
