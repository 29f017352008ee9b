"""What takes too long for every change: run it at night, or before a release.

    python -m tests.long    # half an hour on two cores

Runs the tests marked ``long``, then the property tests on new examples. A find of the latter is
written as an ``@example`` beside its mending. Exits with 1 if either fails.
"""

import os
import subprocess
import sys

_PYTEST = (sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal")


def main() -> int:
    """Run both."""
    marked = subprocess.run([*_PYTEST, "-m", "long", "--durations=20"], check=False)
    random = subprocess.run(
        [*_PYTEST, "-m", "hypothesis and not long"],
        check=False,
        env=os.environ | {"HYPOTHESIS_PROFILE": "random"},
    )
    return int(bool(marked.returncode or random.returncode))


if __name__ == "__main__":
    sys.exit(main())
