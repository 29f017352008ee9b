"""What ``stored/`` is of: files as spectui 0.5 left them on a user's disk, which stay readable."""

from pathlib import Path

from tests.support.architectures import write_qwen35
from tests.support.models import CLOSE_DRAFT, ROUGH_DRAFT, TARGET, Tiny, write_tiny

STORED = Path(__file__).parent / "stored"

PROMPTS = """\
{"id": "a", "category": "x", "prompt": "the rain on the other tin ring"}
{"id": "b", "category": "x", "prompt": "one to the other, then on"}
{"id": "c", "category": "y", "messages": [{"role": "user", "content": "there?"}]}
{"id": "d", "category": "y", "prompt": "all in one ring"}
{"id": "e", "category": "y", "prompt": "hello there"}
{"id": "f", "category": "x", "prompt": "in the tin on the ring"}
{"id": "g", "category": "z", "prompt": "the other one of the others"}
"""
PAIR = ("-m", "target.gguf", "-md", "draft.gguf")
HOW = ("-c", 256, "-t", 1, "--temp", 0, "--prompts", "prompts.jsonl")
COMMON = (*PAIR, *HOW)
SWEEP = (
    *("sweep", *COMMON, "-md", "other.gguf", "-n", 8, "--name", "stored"),
    *("--draft-max", "2,4", "--spec-type", "draft-simple", "--spec-type", "ngram-mod"),
    *("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", 2),
    *("--spec-ngram-simple-size-m", "6,9", "--spec-type", "ngram-cache,draft-simple"),
)
"""A draft among them has another vocabulary, so that its cells fail."""
TUNE = ("tune", *COMMON, "-n", 12, "--trials", 5, "--quiet")
TRACES = {
    "pair": (*COMMON, "-md", "rough.gguf", "-n", 24, "--keep-text", "--draft-max", 8),
    "bare": (*COMMON, "-n", 24, "--no-costs", "--temp", 0.8, "--seed", 3, "--draft-max", 4),
    "mtp": ("-m", "mtp.gguf", *HOW, "-n", 16, "--keep-text", "--draft-max", 4),
    "no-draft": ("-m", "target.gguf", *HOW, "-n", 48, "--keep-text"),
}


def write_models(folder: Path) -> None:
    """The models of all that is stored; equal recipes give equal files."""
    recipes = {
        "target": TARGET,
        "draft": CLOSE_DRAFT,
        "rough": ROUGH_DRAFT,
        "other": Tiny(n_extra=3, is_reversed=True),
    }
    for name, recipe in recipes.items():
        write_tiny(recipe, folder / f"{name}.gguf")
    write_qwen35(Tiny(), folder / "mtp.gguf", n_mtp=1)
    (folder / "prompts.jsonl").write_text(PROMPTS, "utf-8")
