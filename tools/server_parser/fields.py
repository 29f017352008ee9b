"""Write fields.h: functions that visit every field of a header's structs.

    python tools/server_parser/fields.py fields.h HEADER...

C++ cannot list the fields of a struct, and a list by hand would miss what a new release adds.
Standard library only: this runs before anything is installed.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_STRUCT = re.compile(r"^struct (\w+)(?: *: *(\w+))? *\{$(.*?)^\};", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^    (?!return|using|static|typedef|friend)[A-Za-z][\w:<>*, ]*?[ *&>]"
    r"(\w+) *(?:\[\w+\])? *(?:[=;{]|$)"
)
_METHODS = re.compile(r"^    [^\n]*\)[^\n]*\{$.*?^    \}", re.MULTILINE | re.DOTALL)
_SCOPED = ("common_", "gpt_params", "llama_lora_adapter_info", "llama_control_vector_load_info")
_NO_VALUES = ("_result", "_sampler", "_checkpoint", "_batch", "_memory", "_threadpools", "_meas")


def structs(header: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each struct of arguments, with the names of its fields."""
    for name, base, body in _STRUCT.findall(header):
        if name.startswith(_SCOPED) and not name.endswith(_NO_VALUES) and not base:
            lines = _METHODS.sub("", body).splitlines()
            yield name, [found[1] for line in lines if (found := _FIELD.match(line))]


def written(headers: Sequence[str]) -> str:
    """Return fields.h for the texts of these headers."""
    found = [struct for header in headers for struct in structs(header)]
    head = "template <class Visit> void each(Visit & visit, const std::string & in, const {} & of)"
    lines = [head.format(name) + ";" for name, _ in found]
    for name, fields in found:
        visits = "".join(f'    visit(in + "{field}", of.{field});\n' for field in fields)
        lines.append(f"{head.format(name)} {{\n{visits}    (void) in; (void) of;\n}}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    target, *headers = map(Path, sys.argv[1:])
    target.write_text(written([header.read_text("utf-8") for header in headers]), "utf-8")
