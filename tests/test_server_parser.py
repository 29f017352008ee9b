"""tools/server_parser/fields.py: the fields of a header's structs."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "server_parser" / "fields.py"

HEADER = """
struct common_inner {
    std::vector<std::pair<int, float>> rules;

    bool empty() const { return rules.empty(); }
};

struct common_params {
    common_params() = default;

    bool is_set() const {
        return n_ctx != 0;
    }

    int32_t n_ctx = 0; // how (many)
    float   tensor_split[128] = {0};
    struct common_inner inner;
    std::vector<std::string> breakers = {"a", ":"};
    enum ggml_type type = GGML_TYPE_F16;
    llama_context * context = nullptr;
    std::map<std::string, std::string> kwargs;
    bool (*callback)(int) = nullptr;
};

struct common_init_result {
    int unrelated;
};

struct another {
    int unrelated;
};
"""


@pytest.fixture
def written(tmp_path: Path) -> str:
    header, target = tmp_path / "common.h", tmp_path / "fields.h"
    header.write_text(HEADER)
    subprocess.run([sys.executable, str(TOOL), target, header], check=True)
    return target.read_text()


def test_every_field_is_visited_once(written: str) -> None:
    names = ["n_ctx", "tensor_split", "inner", "breakers", "type", "context", "kwargs"]
    visits = [line.strip() for line in written.splitlines() if line.startswith("    visit(")]
    assert visits == [f'visit(in + "{name}", of.{name});' for name in ["rules", *names]]


def test_only_structs_of_arguments_are_described(written: str) -> None:
    assert "const common_params & of" in written
    assert "const common_inner & of" in written
    assert "common_init_result" not in written
    assert "another" not in written
