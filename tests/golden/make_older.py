"""Makes ``stored/studies-optuna-*.sql``: a study as older versions of Optuna keep it.

Run once a version, with a Python that has that Optuna and no spectui::

    python tests/golden/make_older.py STUDY.json

``STUDY.json`` is what ``spectui studies export target-8f7363ae`` writes of ``stored/studies.sql``.
"""

import json
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import json_to_distribution
from optuna.trial import TrialState, create_trial

_STORED = Path(__file__).parent / "stored"
_OWNER = {"host": "host", "pid": 999999999}


def main() -> None:
    """Keep the study with the Optuna that there is, and write its tables as statements."""
    kept = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "studies.sqlite3"
        study = optuna.create_study(
            study_name=kept["name"], storage=f"sqlite:///{path}", direction="maximize"
        )
        for key, value in kept["attributes"].items():
            study.set_user_attr(key, value)
        for one in kept["trials"]:
            _add(study, one)
        # One that is measured, whose process is gone, and one that waits.
        running = study.ask()
        running.set_user_attr("owner", _OWNER)
        study.enqueue_trial(kept["trials"][0]["params"])
        with closing(sqlite3.connect(path)) as connection:
            statements = "".join(f"{line}\n" for line in connection.iterdump())
    out = _STORED / f"studies-optuna-{optuna.__version__}.sql"
    out.write_text(statements.replace(os.uname().nodename, "host"), "utf-8")


def _add(study: optuna.Study, one: "dict[str, Any]") -> None:
    states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}
    state = states.get(one["state"], TrialState.FAIL)
    study.add_trial(
        create_trial(
            state=state,
            value=one["value"] if state is TrialState.COMPLETE else None,
            params=one["params"],
            distributions={
                name: _distribution(told) for name, told in one["distributions"].items()
            },
            user_attrs=one["attributes"],
        )
    )


def _distribution(told: "dict[str, Any]") -> optuna.distributions.BaseDistribution:
    """As Optuna 2 has it as well, whose classes have other names."""
    if hasattr(optuna.distributions, "IntDistribution"):
        return json_to_distribution(json.dumps(told))
    name, given = told["name"], dict(told["attributes"])
    if name == "CategoricalDistribution":
        return optuna.distributions.CategoricalDistribution(given["choices"])
    is_log, step = given["log"], given["step"]
    low, high = given["low"], given["high"]
    if name == "IntDistribution":
        if is_log:
            return optuna.distributions.IntLogUniformDistribution(low, high)
        return optuna.distributions.IntUniformDistribution(low, high, step)
    if is_log:
        return optuna.distributions.LogUniformDistribution(low, high)
    if step is not None:
        return optuna.distributions.DiscreteUniformDistribution(low, high, step)
    return optuna.distributions.UniformDistribution(low, high)


if __name__ == "__main__":
    main()
