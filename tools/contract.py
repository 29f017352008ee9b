"""What the reference says of every command: exit codes, and environment variables."""

EXIT_CODES = {
    0: "Done.",
    1: "A defect, of spectui or of llama.cpp.",
    2: "The command was used wrongly.",
    3: "A file, model, prompt, preset, study or command cannot be used as it is; lint found "
    "errors; doctor found no draft that can serve.",
    4: "The models do not fit in memory, or memory ran out.",
    5: "A llama-server or a hub failed, or cannot be asked.",
    129: "The terminal was closed (SIGHUP).",
    130: "Interrupted (Ctrl-C); what was measured is kept.",
    141: "Whoever read the output has gone, as head does.",
    143: "Terminated (SIGTERM); what was measured is kept.",
}
"""Meaning of each exit code."""

VARIABLES = {
    "SPECTUI_HOME": "Folder for all that spectui keeps (data, config and cache below it), in place "
    "of the platform's own folders.",
    "SPECTUI_STORAGE": "Where studies are, as --storage has it; an address with a password belongs "
    "here.",
    "SPECTUI_API_KEY": "Key of the llama-server that attach asks.",
    "LLAMA_API_KEY": "The same, where SPECTUI_API_KEY is not set.",
    "SPECTUI_PATIENCE": "Seconds in which a process that neither computes nor reads counts as hung "
    "(300); a slow network's file system may need more.",
    "LLAMA_CPP_LIB_PATH": "Folder of a llama.cpp library that comes before all that are found "
    "(`spectui doctor` says which is used).",
    "HF_HOME, HF_HUB_CACHE, LLAMA_CACHE": "Folders in which models are looked for, beside the "
    "usual ones.",
    "HF_ENDPOINT, HF_TOKEN": "The hub that models find asks, and the token for it, as "
    "huggingface_hub has them.",
    "GGML_BACKEND_PATH": "A backend that llama.cpp loads as well, such as one for CUDA.",
    "NO_COLOR": "Print without colours.",
}
"""Environment variables by name."""
