"""Commands and options of earlier versions, each with a sentence on the way that is left."""

_COUNTS = (
    "verify compares speedups alone and loads no models a second time, so that --counts and "
    "--no-counts are gone; leave them out, and compare counts with benchmarks/draft_counts.py of a "
    "clone"
)
COMMANDS = {
    "probe": (
        "probe experts is gone; spectui doctor says what batches cost if tokens were routed at "
        "random, and spectui tune measures what they cost on your prompts"
    ),
    "worker": (
        "spectui worker is gone; run the same spectui tune with --study NAME and --storage URL, a "
        "PostgreSQL database, on each machine"
    ),
    "studies repair": (
        "studies repair is gone: whichever command finds the file damaged moves it aside; studies "
        "export and studies import keep copies of studies"
    ),
}
"""By their words behind ``spectui``."""
OPTIONS = {
    "counts": _COUNTS,
    "no-counts": _COUNTS,
    "costs": "replay draws no costs any more, so that its --costs is gone; --json has them",
    "monitor-replay": (
        "the screen shows this machine's readings alone, so that --monitor-replay is gone; leave "
        "it out"
    ),
    "sampler": "tune chooses settings with Optuna's TPE alone; leave out --sampler",
    "schedule": "every round does llama-server's work, so that --schedule is gone; leave it out",
    "server-url": (
        "--server-url: llama-server takes no speculative parameters per request, so a server that "
        "runs cannot be searched on; give its binary with --backend server --server-bin PATH, or "
        "measure it as it stands with spectui bench"
    ),
}
"""By their long names without dashes, as in presets; only commands that lack them ask."""
