"""The export of every kind of setup in every dialect, and of some in every format."""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.golden.commands_support import DIALECTS, FORMATS, exported
from tests.golden.conftest import Golden

Plain = dict[str, Any]

TARGET: Plain = {"path": "/models/My Target.gguf"}
DRAFT: Plain = {"path": "/drafts/draft.gguf"}
MODEL: Plain = {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75}
SIMPLE: Plain = {"draft_max": 12, "ngram": {"kind": "ngram-simple", "size_n": 4}}
MAP_K: Plain = {"draft_max": 24, "ngram": {"kind": "ngram-map-k", "size_n": 8}}
MAP_K4V: Plain = {"draft_max": 32, "ngram": {"kind": "ngram-map-k4v", "size_n": 6, "min_hits": 2}}
MOD: Plain = {"draft_max": 40, "ngram": {"kind": "ngram-mod", "n_match": 20, "n_min": 4}}
CACHE: Plain = {"draft_max": 8, "ngram": {"kind": "ngram-cache"}}
MTP: Plain = {"draft_max": 2, "draft_p_min": 0.5, "mtp": True}
EXPERTS: Plain = {"pattern": "exps", "buffer": "CPU"}
ON_GPU: Plain = {"pattern": r"blk\.[0-3]\.ffn_.*", "buffer": "CUDA0"}


def setup(**fields: object) -> Plain:
    """A pair with a draft model, but for ``fields``: in the words of a stored outcome."""
    usual = {"target": TARGET, "draft": DRAFT, "speculation": MODEL}
    return {**usual, **fields}


def target(**fields: object) -> Plain:
    return {**TARGET, **fields}


def draft(**fields: object) -> Plain:
    return {**DRAFT, **fields}


SETUPS: dict[str, Plain] = {
    "draft-model": setup(),
    "draft-model-defaults": setup(speculation={}),
    "draft-model-of-a-sampler": setup(speculation={**MODEL, "draft_p_min": 0.15000000000000002}),
    "draft-that-reads-hidden-states": setup(speculation={**MODEL, "reader": "draft-eagle3"}),
    "off": setup(speculation=None, draft=None),
    "off-with-a-draft-and-drafting-words": setup(
        speculation=None,
        extra=["--jinja", "--spec-draft-threads", "2", "-devd", "CUDA1", "--cpu-moe-draft"],
    ),
    "mtp": setup(draft=None, speculation=MTP),
    "ngram-simple": setup(draft=None, speculation=SIMPLE),
    "ngram-map-k": setup(draft=None, speculation=MAP_K),
    "ngram-map-k4v": setup(draft=None, speculation=MAP_K4V),
    "ngram-mod": setup(draft=None, speculation=MOD),
    "ngram-cache": setup(draft=None, speculation=CACHE),
    "ngram-simple-beside-a-draft": setup(speculation=SIMPLE),
    "chain-ngram-and-model": setup(speculation={**MODEL, "ahead": [SIMPLE]}),
    "chain-two-ngrams-and-model": setup(speculation={**MODEL, "ahead": [MAP_K, MOD]}),
    "chain-ngrams-alone": setup(draft=None, speculation={**CACHE, "ahead": [SIMPLE, MAP_K4V]}),
    "chain-ngram-and-mtp": setup(draft=None, speculation={**MTP, "ahead": [MOD]}),
    "moe-override-tensor": setup(target=target(override_tensor=[EXPERTS])),
    "moe-two-overrides": setup(target=target(override_tensor=[ON_GPU, EXPERTS])),
    "moe-cpu-moe": setup(target=target(cpu_moe=True)),
    "moe-n-cpu-moe": setup(target=target(n_cpu_moe=3)),
    "moe-n-cpu-moe-and-override": setup(target=target(n_cpu_moe=2, override_tensor=[ON_GPU])),
    "moe-draft-placed": setup(draft=draft(n_cpu_moe=2, override_tensor=[EXPERTS])),
    "moe-draft-cpu-moe": setup(draft=draft(cpu_moe=True)),
    "layers": setup(target=target(n_gpu_layers=20), draft=draft(n_gpu_layers=0)),
    "without-a-gpu": setup(
        target=target(n_gpu_layers=0), draft=draft(n_gpu_layers=0), has_gpu=False
    ),
    "layers-without-a-gpu": setup(has_gpu=False),
    "caches-of-both": setup(
        target=target(cache_type_k="q8_0", cache_type_v="q4_0"),
        draft=draft(cache_type_k="q8_0", cache_type_v="q8_0"),
        context={"flash_attn": "on"},
    ),
    "caches-of-the-target": setup(target=target(cache_type_k="q8_0", cache_type_v="q8_0")),
    "no-mmap": setup(target=target(mmap=False)),
    "no-mmap-of-the-draft": setup(draft=draft(mmap=False)),
    "swa-full": setup(context={"swa_full": True}),
    "threads-and-loading": setup(
        target=target(
            mmap=False, mlock=True, lazy_mode="off", repack=False, no_host=True, n_cpu_ffn=2
        ),
        context={
            "threads_batch": 4,
            "threads_draft": 1,
            "cpu": {"cpus": [0, 2], "strict": True, "prio": 2, "poll": 0},
            "cpu_batch": {"cpus": [1, 3], "prio": 1},
            "numa": "distribute",
        },
    ),
    "direct-io": setup(target=target(direct_io=True)),
    "context": setup(
        context={
            "ctx_size": 32768,
            "batch_size": 1024,
            "ubatch_size": 256,
            "flash_attn": "off",
            "threads": 6,
            "threads_batch": 8,
        }
    ),
    "override-kv": setup(
        target=target(
            override_kv=[
                {"key": "qwen3moe.expert_used_count", "value": 4},
                {"key": "tokenizer.ggml.add_bos_token", "value": False},
                {"key": "general.name", "value": "a name"},
                {"key": "llama.rope.freq_base", "value": 10000.5},
            ]
        )
    ),
    "extra": setup(
        extra=["--jinja", "-np", "1", "--host", "::1", "--port", "9", "--alias", "it's $5"]
    ),
    "extra-old-and-foreign-names": setup(
        extra=["--mlock", "-fmoe", "--no-warmup", "--newfangled", "3"]
    ),
    "extra-layers-left-to-the-server": setup(extra=["-ngl", "auto", "-ngld", "auto", "--jinja"]),
    "extra-twice": setup(extra=["-np", "1", "-np", "2"]),
    "extra-line-end": setup(extra=["--alias", "a\nb ${c} ; #"]),
    "given-few": setup(given=["model", "model-draft", "ctx-size"]),
    "given-none": setup(given=[]),
    "given-few-ngram": setup(draft=None, speculation=MAP_K4V, given=["model", "ctx-size"]),
    "given-few-chain": setup(speculation={**MODEL, "ahead": [MOD]}, given=["model", "ctx-size"]),
    "given-few-mtp": setup(draft=None, speculation=MTP, given=["model", "ctx-size"]),
    "given-few-off": setup(draft=None, speculation=None, given=["model", "ctx-size"]),
    "given-placement": setup(
        target=target(n_cpu_moe=3, mmap=False, n_gpu_layers=99),
        given=["model", "gpu-layers", "n-cpu-moe", "load-mode", "flash-attn", "threads"],
        context={"threads": 4},
    ),
    "start-with-variables": setup(
        start={"environment": [["CUDA_VISIBLE_DEVICES", "0,1"], ["LLAMA_API_KEY", "a b"]]}
    ),
    "start-with-wrappers": setup(
        start={
            "environment": [["OMP_NUM_THREADS", "1"]],
            "program": ["numactl", "-N", "0", "/opt/llama.cpp/llama-server"],
        }
    ),
    "start-of-the-unified-program": setup(start={"program": ["/opt/llama", "serve"]}),
    "everything": setup(
        target=target(
            n_gpu_layers=60,
            override_tensor=[EXPERTS],
            mmap=False,
            cache_type_k="q8_0",
            cache_type_v="q8_0",
            override_kv=[{"key": "qwen3moe.expert_used_count", "value": 4}],
        ),
        draft=draft(n_gpu_layers=12, cache_type_k="q8_0", cache_type_v="q8_0"),
        context={"ctx_size": 16384, "flash_attn": "on", "threads": 8, "threads_batch": 16},
        speculation={**MODEL, "ahead": [MOD]},
        extra=["--jinja", "--metrics", "--alias", "all"],
        start={"environment": [["CUDA_VISIBLE_DEVICES", "1"]], "program": ["nice", "llama-server"]},
    ),
}


WHOLE = ("draft-model", "extra", "everything", "start-with-wrappers", "without-a-gpu")
"""In every format of today's dialect; the others as a command, which each format writes."""


def written(setup: Plain, formats: Sequence[str], dialects: Sequence[str]) -> Iterator[str]:
    """Formats below each other; what dialects have in common is told once."""
    for format_ in formats:
        by_text: dict[str, list[str]] = {}
        for dialect in dialects:
            by_text.setdefault(exported(setup, dialect, format_), []).append(dialect)
        for text, same in by_text.items():
            yield f"== {format_}: {', '.join(same)}"
            yield from (f"   {line}".rstrip() for line in text.removesuffix("\n").split("\n"))
            yield ""


def test_every_setup(golden: Golden) -> None:
    command, *others = FORMATS
    texts = {
        f"{name}.txt": "\n".join(written(SETUPS[name], others, DIALECTS[:1])) for name in WHOLE
    }
    lines = [
        line
        for name, one in SETUPS.items()
        for line in (f"# {name}", *written(one, (command,), DIALECTS))
    ]
    golden("export", {**texts, "setups.txt": "\n".join(lines)})
