"""Random setups over all that an export can say, and what the real server's log says of each."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spectui.commands.launch import ExportSetup
from spectui.cores import default_threads
from spectui.options.drafters import (
    NGRAMS,
    DrafterSetting,
    DraftMtp,
    DraftSimple,
    ModelDrafter,
    Ngram,
    NgramCache,
    NgramMapK,
    NgramMapK4V,
    NgramMod,
    NgramSimple,
)
from spectui.options.setup import (
    CACHE_TYPES,
    ContextOptions,
    FlashAttention,
    KvOverride,
    ModelOptions,
    Numa,
    TensorOverride,
)
from spectui.options.speculation import Speculation

_PLAIN = ("f32", "f16", "bf16")
"""Cache types that V may have without flash attention."""
_PATTERNS = (r"blk\.0\.", "exps", r"ffn_(up|down)_exps", "attn_k", "nothing like it", "模|'\"$")
_OVERRIDES = (
    KvOverride(key="tokenizer.ggml.add_bos_token", value=False),
    KvOverride(key="general.name", value="a, b \"c\" = 'd' $HOME"),
    KvOverride(key="tokenizer.ggml.add_eos_token", value=True),
)
_EXTRAS = (
    *((), ("--jinja",), ("--no-webui",), ("--temp", "0.7"), ("-a", "it's $HOME; `id` 模\n-x")),
    *(("--no-perf",), ("--cache-ram", "0"), ("--chat-template", "chatml"), ("-np", "1")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The models that setups name, which need not be there."""

    target: Path
    draft: Path
    mtp: Path
    """A target with MTP layers."""


def random_setup(seed: int, files: Files) -> ExportSetup:
    """One of very many; equal seeds give equal setups."""
    draw = random.Random(seed)  # noqa: S311 - for variety
    speculation = _speculation(draw)
    is_mtp = speculation is not None and speculation.is_mtp
    context = _context(draw)
    # The engine refuses a quantised V without flash attention, as llama.cpp does.
    types = CACHE_TYPES if context.flash_attn is FlashAttention.ON else _PLAIN
    target = _model(draw, files.mtp if is_mtp else files.target, types)
    draft = _draft(draw, files.draft, types, target)
    if is_mtp:
        target = replace(
            target, cache_type_k_mtp=draft.cache_type_k, cache_type_v_mtp=draft.cache_type_v
        )
    return ExportSetup(
        target=target,
        # A file beside it would have to be one of MTP layers.
        draft=None if is_mtp else draft,
        context=context,
        speculation=speculation,
        extra=tuple(w for words in draw.sample(_EXTRAS, draw.randrange(3)) for w in words),
        name="any",
    )


def _model(draw: random.Random, path: Path, types: tuple[str, ...]) -> ModelOptions:
    patterns = draw.sample(_PATTERNS, draw.choice((0, 0, 1, 2)))
    return ModelOptions(
        path=path,
        n_gpu_layers=draw.choice((-1, 0, 1, 17, 99)),
        override_tensor=tuple(TensorOverride(pattern=p, buffer="CPU") for p in patterns),
        cpu_moe=draw.random() < 0.2,
        n_cpu_moe=draw.choice((0, 0, 1, 2, 40)),
        override_kv=tuple(draw.sample(_OVERRIDES, draw.choice((0, 0, 1, 2)))),
        mmap=draw.random() < 0.7,
        cache_type_k=draw.choice(types),
        cache_type_v=draw.choice(types),
        **_loading(draw),
    )


def _loading(draw: random.Random) -> dict[str, Any]:
    """How weights come into RAM, mostly as by default."""
    return {
        "mlock": draw.random() < 0.1,
        "direct_io": draw.random() < 0.1,
        "repack": draw.random() < 0.9,
    }


def _draft(
    draw: random.Random, path: Path, types: tuple[str, ...], target: ModelOptions
) -> ModelOptions:
    found = replace(_model(draw, path, types), override_kv=())
    # One way of loading serves both.
    return replace(found, **{name: getattr(target, name) for name in _loading(draw)})


def _context(draw: random.Random) -> ContextOptions:
    batch_size = draw.choice((32, 128, 512, 2048))
    return ContextOptions(
        ctx_size=draw.choice((256, 512, 1024, 2048)),
        batch_size=batch_size,
        ubatch_size=draw.choice([size for size in (32, 64, 512) if size <= batch_size]),
        flash_attn=draw.choice(list(FlashAttention)),
        threads=draw.choice((0, 1, 2)),
        threads_batch=draw.choice((0, 1, 2)),
        threads_draft=draw.choice((0, 0, 1, 2)),
        threads_batch_draft=draw.choice((0, 0, 1, 2)),
        numa=draw.choice((None, None, *Numa)),
        swa_full=draw.random() < 0.2,
    )


def _speculation(draw: random.Random) -> Speculation | None:
    drafter = draw.choice(("off", "model", "model", "mtp", "ngram", "ngram"))
    if drafter == "off":
        return None
    kinds = draw.sample(NGRAMS, draw.choice((0, 0, 1, 2)))
    if drafter == "ngram":
        kinds = kinds or [draw.choice(NGRAMS)]
    ngrams = [_ngram(draw, kind) for kind in NGRAMS if kind in kinds]
    if drafter == "ngram":
        *ahead, own = ngrams
        return Speculation(own, tuple(ahead))
    longest = draw.choice((1, 3, 5, 8, 16))
    model = DraftMtp if drafter == "mtp" else DraftSimple
    setting = model(
        draft_max=longest,
        draft_min=draw.randrange(min(longest, 5)),
        draft_p_min=draw.choice((0.0, 0.05, 1 / 3, 0.15000000000000002, 0.75, 1.0)),
    )
    return Speculation(setting, tuple(ngrams))


def _ngram(draw: random.Random, kind: type[Ngram]) -> Ngram:
    size_n = draw.choice((2, 4, 12))
    found: dict[type[Ngram], Ngram] = {
        NgramSimple: NgramSimple(size_n=size_n, size_m=size_n + draw.randrange(20)),
        NgramMapK: NgramMapK(size_n=size_n, size_m=16, min_hits=draw.choice((1, 2))),
        NgramMapK4V: NgramMapK4V(size_n=size_n, size_m=9, min_hits=draw.choice((1, 3))),
        NgramMod: NgramMod(n_match=16 + draw.randrange(9), n_min=2, n_max=33),
        NgramCache: NgramCache(),
    }
    return found[kind]


VERBOSE = ("-lv", "5")
"""Lets the server tell what ``unconfirmed`` looks for."""


def unconfirmed(setup: ExportSetup, log: str) -> list[str]:
    """What a server's log does not bear out; empty if it took every value."""
    # Each line has a time and a letter in front.
    text = "\n".join(re.sub(r"^\S+ [IDWE] ", "", line) for line in log.splitlines())
    return [line for line in _expected(setup) if re.search(line, text, re.MULTILINE) is None]


def _expected(setup: ExportSetup) -> Iterator[str]:
    """Patterns of lines that have to be there."""
    context, target = setup.context, setup.target
    threads = context.threads or default_threads()
    batch = context.threads_batch or threads
    yield rf"system_info: n_threads = {threads} \(n_threads_batch = {batch}\)"
    mode = {"auto": "mmap"}.get(target.load_mode, target.load_mode)
    yield rf"load_mode = {re.escape(mode)}\)"
    yield rf"llama_context: n_ctx +=? ?= {context.ctx_size}$"
    # No batch is larger than the context.
    batch_size = min(context.batch_size, context.ctx_size)
    yield rf"llama_context: n_batch +=? ?= {batch_size}$"
    yield rf"llama_context: n_ubatch +=? ?= {min(context.ubatch_size, batch_size)}$"
    flash = {"on": "enabled", "off": "disabled", "auto": "auto"}[context.flash_attn]
    yield rf"llama_context: flash_attn +=? ?= {flash}$"
    yield rf"K \({target.cache_type_k}\): .* V \({target.cache_type_v}\): "
    yield from _placed(target)
    for override in target.override_kv:
        yield f"validate_override: Using metadata override .*'{re.escape(override.key)}' = "
    yield from _drafters(setup)


def _placed(target: ModelOptions) -> Iterator[str]:
    """Of the tensors that tiny mixtures of experts and MTP targets have."""
    patterns = {override.pattern for override in target.override_tensor}
    if "attn_k" in patterns:
        yield r"^tensor blk\.\d+\.attn_k\.weight .* buffer type overridden to CPU"
    if r"blk\.0\." in patterns:
        yield r"^tensor blk\.0\.attn_norm\.weight .* buffer type overridden to CPU"
    n_layers = 2 if target.cpu_moe or "exps" in patterns else min(target.n_cpu_moe, 2)
    if n_layers and "mtp" not in target.path.name:
        layer = n_layers - 1
        yield rf"^tensor blk\.{layer}\.ffn_up_exps\.weight .* buffer type overridden to CPU"


def _drafters(setup: ExportSetup) -> Iterator[str]:
    speculation = setup.speculation
    for one in () if speculation is None else speculation.chain:
        yield rf"adding speculative implementation '{one.kind}'\n.*- {_numbers(one)}"
        if isinstance(one, ModelDrafter):
            yield from _draft_cache(setup)


def _numbers(one: DrafterSetting) -> str:
    match one:
        case ModelDrafter(draft_max=longest, draft_min=shortest, draft_p_min=floor):
            p_min = f"{floor:.2f}" if isinstance(one, DraftMtp) else f"{floor:f}"
            return f"n_max={longest}, n_min={shortest}, p_min={p_min}(,|$)"
        case NgramSimple(size_n=size_n, size_m=size_m):
            return f"size_n={size_n}, size_m={size_m}, "
        case NgramMapK(size_n=size_n, size_m=size_m, min_hits=min_hits):
            return f"size_key={size_n}, size_value={size_m}, key_only=1, min_hits={min_hits}$"
        case NgramMapK4V(size_n=size_n, size_m=size_m, min_hits=min_hits):
            return f"size_key={size_n}, size_value={size_m}, key_only=0, min_hits={min_hits}$"
        case NgramMod(n_match=n_match, n_min=n_min, n_max=n_max):
            return f"n_match={n_match}, n_max={n_max}, n_min={n_min}$"
        case NgramCache():
            return ""


def _draft_cache(setup: ExportSetup) -> Iterator[str]:
    draft, target = setup.used_draft, setup.target
    if draft is None:
        yield rf" cache_k={target.cache_type_k_mtp}, cache_v={target.cache_type_v_mtp},"
    else:
        layers = "-?[0-9]+" if draft.n_gpu_layers < 0 else str(draft.n_gpu_layers)
        yield (
            rf"- gpu_layers={layers}, cache_k={draft.cache_type_k}, cache_v={draft.cache_type_v},"
        )
