# ruff: noqa: E501 - as the programs print it
"""Programs that answer ``--help`` and ``--version`` as llama-servers of several times do."""

import sys
from pathlib import Path

CURRENT = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
--version                               show version and build info
-t,    --threads N                      number of CPU threads to use during generation (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-c,    --ctx-size N                     size of the prompt context (default: 0, 0 = loaded from model)
                                        (env: LLAMA_ARG_CTX_SIZE)
-b,    --batch-size N                   logical maximum batch size (default: 2048)
                                        (env: LLAMA_ARG_BATCH)
-ub,   --ubatch-size N                  physical maximum batch size (default: 512)
                                        (env: LLAMA_ARG_UBATCH)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
                                        (env: LLAMA_ARG_FLASH_ATTN)
-lm,   --load-mode MODE                 model loading mode (default: auto)
                                        - auto: mmap, unless a device does not support it
                                        - none: no special loading mode
                                        (env: LLAMA_ARG_LOAD_MODE)
-ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers to store in VRAM, either an exact number,
                                        'auto', or 'all' (default: auto)
                                        (env: LLAMA_ARG_N_GPU_LAYERS)
-m,    --model FNAME                    model path to load
                                        (env: LLAMA_ARG_MODEL)

----- speculative params -----

--spec-draft-n-max N                    number of tokens to draft for speculative decoding (default: 3)
                                        (env: LLAMA_ARG_SPEC_DRAFT_N_MAX)
--spec-draft-n-min N                    minimum number of draft tokens to use for speculative decoding
                                        (default: 0)
                                        (env: LLAMA_ARG_SPEC_DRAFT_N_MIN)
--spec-draft-p-min, --draft-p-min P     minimum speculative decoding probability (greedy) (default: 0.00)
                                        (env: LLAMA_ARG_SPEC_DRAFT_P_MIN)
--spec-draft-ngl, -ngld, --gpu-layers-draft, --n-gpu-layers-draft N
                                        max. number of draft model layers to store in VRAM
                                        (env: LLAMA_ARG_N_GPU_LAYERS_DRAFT)
--spec-draft-model, -md, --model-draft FNAME
                                        draft model for speculative decoding (default: unused)
                                        (env: LLAMA_ARG_SPEC_DRAFT_MODEL)
--spec-type none,draft-simple,draft-mtp,ngram-simple
                                        comma-separated list of types of speculative decoding to use
                                        (default: none)
                                        (env: LLAMA_ARG_SPEC_TYPE)
--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max or
                                        --spec-ngram-mod-n-max
                                        (env: LLAMA_ARG_DRAFT_MAX)

----- example-specific params -----

--port PORT                             port to listen (default: 8080)
                                        (env: LLAMA_ARG_PORT)
--models-preset PATH                    path to INI file containing model presets for the router server
                                        (env: LLAMA_ARG_MODELS_PRESET)
"""
"""What the build that spectui is made for prints of the options that matter here."""

BETWEEN = CURRENT.replace(
    "--spec-type none,draft-simple,draft-mtp,ngram-simple\n",
    "--spec-type [none|mtp|ngram-simple]\n",
).replace(
    "-lm,   --load-mode MODE                 model loading mode (default: auto)",
    "--no-mmap                               do not memory-map model",
)
"""Of the weeks in which llama.cpp renamed its options: some are new, some are not."""

LEGACY = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
--version                               show version and build info
-t,    --threads N                      number of CPU threads to use during generation (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-c,    --ctx-size N                     size of the prompt context (default: 4096, 0 = loaded from model)
                                        (env: LLAMA_ARG_CTX_SIZE)
-b,    --batch-size N                   logical maximum batch size (default: 2048)
                                        (env: LLAMA_ARG_BATCH)
-ub,   --ubatch-size N                  physical maximum batch size (default: 512)
                                        (env: LLAMA_ARG_UBATCH)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
                                        (env: LLAMA_ARG_FLASH_ATTN)
--no-mmap                               do not memory-map model (slower load but may reduce pageouts if not
                                        using mlock)
                                        (env: LLAMA_ARG_NO_MMAP)
-ngl,  --gpu-layers, --n-gpu-layers N   number of layers to store in VRAM
                                        (env: LLAMA_ARG_N_GPU_LAYERS)
-m,    --model FNAME                    model path (default: `models/$filename` with filename from `--hf-file`)
                                        (env: LLAMA_ARG_MODEL)

----- example-specific params -----

--port PORT                             port to listen (default: 8080)
                                        (env: LLAMA_ARG_PORT)
--draft-max, --draft, --draft-n N       number of tokens to draft for speculative decoding (default: 16)
                                        (env: LLAMA_ARG_DRAFT_MAX)
--draft-min, --draft-n-min N            minimum number of draft tokens to use for speculative decoding
                                        (default: 0)
                                        (env: LLAMA_ARG_DRAFT_MIN)
--draft-p-min P                         minimum speculative decoding probability (greedy) (default: 0.8)
                                        (env: LLAMA_ARG_DRAFT_P_MIN)
-ngld, --gpu-layers-draft, --n-gpu-layers-draft N
                                        number of layers to store in VRAM for the draft model
                                        (env: LLAMA_ARG_N_GPU_LAYERS_DRAFT)
-md,   --model-draft FNAME              draft model for speculative decoding (default: unused)
                                        (env: LLAMA_ARG_MODEL_DRAFT)
"""

OLDEST = LEGACY.replace(
    "-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')",
    "-fa,   --flash-attn                     enable Flash Attention (default: disabled)",
)
"""Before autumn 2025."""

IK = """\
usage: ./llama-server [options]

general:

  -h,    --help, --usage          print usage and exit
         --version                show version and build info
  -t,    --threads N              number of threads to use during generation (default: 8)
  -c,    --ctx-size N             size of the prompt context (default: 0, 0 = loaded from model)
  -ctx-ckpt N, --ctx-checkpoints N
                                  max number of context checkpoints to create per slot (default: 32)
  -b,    --batch-size N           logical maximum batch size (default: 2048)
  -ub,   --ubatch-size N          physical maximum batch size (default: 512)
  -fa, --flash-attn (auto|on|off|0|1)
                                  set Flash Attention (default: on)
  -mla,  --mla-use                enable MLA (default: 3)
  -rtr,   --run-time-repack       repack tensors if interleaved variant is available
  -m,    --model FNAME            model path (default: models/$filename with filename from --hf-file
                                  or --model-url if set, otherwise models/7B/ggml-model-f16.gguf)
  -md,   --model-draft FNAME      draft model for speculative decoding (default: unused)
  --spec-type SPEC[:k=v,...]      canonical speculative stage entry; repeat for a supported two-stage chain.
                                  types: none, draft, mtp, ngram-simple
                                  examples: --spec-type mtp:n_max=1,p_min=0.0
                                  legacy --spec-stage, --draft-*, --spec-ngram-* flags are rejected

server:

         --host HOST              ip address to listen (default: 127.0.0.1)
         --port PORT              port to listen (default: 8080)
         --embedding(s)           restrict to only support embedding use case (default: disabled)
"""

OLD_IK = IK.replace(
    "  --spec-type SPEC[:k=v,...]      canonical speculative stage entry; repeat for a supported",
    "         --draft-max, --draft, --draft-n N\n"
    "                                  number of tokens to draft (default: 16)\n"
    "         --draft-min, --draft-n-min N\n"
    "                                  minimum number of draft tokens (default: 0)\n"
    "         --draft-p-min P          minimum speculative decoding probability (default: 0.8)\n"
    "                                  a supported",
)
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
    """An executable file."""
    path.write_text(source, "utf-8")
    path.chmod(0o755)
    return path
