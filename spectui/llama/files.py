"""What can be said of a model's file without llama.cpp."""

from pathlib import Path

from spectui.errors import BadInputError
from spectui.models.header import check_header

_MAGIC = b"GGUF"


def check_file(path: Path) -> None:
    """Refuse what is obviously no model before llama.cpp sees it.

    Raises:
        BadInputError: missing, no file, unreadable, empty, not a GGUF, or its header is broken.
    """
    hint = "give the path of a GGUF model"
    try:
        if not path.exists():
            raise BadInputError(f"{path}: no such file; {hint}")
        if not path.is_file():
            raise BadInputError(f"{path} is not a file; {hint}")
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
        if magic == _MAGIC:
            check_header(path)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}); {hint}") from error
    if not magic:
        raise BadInputError(f"{path} is empty; download it again")
    if magic != _MAGIC:
        raise BadInputError(f"{path} is not a GGUF file (it starts with {magic!r}); {hint}")
