"""Checks for commands that name no local model, with advice."""

from collections.abc import Sequence

from spectui.errors import BadInputError
from spectui.export.server_options import canonical
from spectui.export.words import Given

_HUB = frozenset({"-hf", "-hfr", "--hf-repo", "-dr", "--docker-repo"})
_HUB_DRAFT = frozenset({"-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf"})
_ROUTER = frozenset({"--models-dir", "--models-preset"})
_SERVED = frozenset({"model", "model-url", "hf-repo", "docker-repo", "models-dir", "models-preset"})
_BUNDLES = ("--fim-qwen-", "--gpt-oss-", "--vision-gemma-", "--embd-")
"""Prefixes of switches that stand for a model of the hub and its settings."""


def check_serves(command: Sequence[Given]) -> None:
    """Make sure that the command names a model, wherever it is.

    Raises:
        BadInputError: it names neither a model nor where models are.
    """
    if not any(
        given.name in _SERVED or canonical(given.flag).startswith(_BUNDLES) for given in command
    ):
        raise BadInputError(
            "the command names no model; add -m FILE, -hf REPOSITORY or --models-dir FOLDER, or "
            "give the part that starts llama-server alone"
        )


def check_local(command: Sequence[Given]) -> None:
    """Make sure that the models are local files.

    Raises:
        BadInputError: one comes from the hub, the server is a router, or there is no model.
    """
    has_model = False
    for given in command:
        flag, shown = canonical(given.flag), " ".join(given.words)
        if flag in _HUB or flag in _HUB_DRAFT:
            needed = "-m FILE" if flag in _HUB else "-md FILE"
            raise BadInputError(
                f"the command takes a model from the hub ({shown}), and spectui reads local GGUF "
                f"files; write {needed} instead, with the file that llama-server keeps in the "
                f"Hugging Face cache"
            )
        if flag.startswith(_BUNDLES) and not given.values:
            raise BadInputError(
                f"{flag} stands for a model of the hub and its settings; write them out, with "
                f"-m FILE"
            )
        has_model = has_model or (given.option is not None and given.option.name == "model")
    if has_model:
        return
    router = next((given for given in command if canonical(given.flag) in _ROUTER), None)
    if router is not None:
        raise BadInputError(
            f"the command starts a router ({' '.join(router.words)}), which has several models; "
            f"give one of them: its own command, or FILE:SECTION of a models preset file"
        )
    raise BadInputError(
        "the command names no model file; spectui reads local GGUF files, so add -m FILE"
    )
