"""Start and memory of folders of other projects: `python -m tests.checkpoints.measure start FOLDER`.

Not a test: figures depend on the machine, and mean something only where nothing else runs.

start FOLDER    seconds from the start of a process to its first answer: the command of regard, regard.load,
                and from_pretrained of transformers, in turns
memory FOLDER   the largest memory of a process that loads a folder and writes one token, and its ratio to
                the size of the weights
make SHAPE OUT  a random folder: gpt2 (GPT-2 small), or llama (1.1 billion parameters in float16)
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

TEXT = "The animal was too tired"
ROUNDS = 7
OURS = """import sys, regard
model = regard.load(sys.argv[1])
model.embed(sys.argv[2]) if isinstance(model, regard.Reader) else model.complete(
    sys.argv[2], top_k=1, max_tokens=1)"""
THEIRS = """import sys, torch, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
reads = "Bert" in transformers.AutoConfig.from_pretrained(sys.argv[1]).architectures[0]
kind = transformers.AutoModel if reads else transformers.AutoModelForCausalLM
model, row = kind.from_pretrained(sys.argv[1]), tokenizer(sys.argv[2], return_tensors="pt")
with torch.inference_mode():
    model(**row) if reads else model.generate(**row, max_new_tokens=1, do_sample=False)"""
SHAPES = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {}),
    "llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
             num_key_value_heads=4, vocab_size=32000, max_position_embeddings=2048),
    ),
}  # fmt: skip


def start(folder: Path) -> None:
    """Print the median seconds of each way to start, and the ratios to transformers within a round."""
    reads = '"BertModel"' in (folder / "config.json").read_text(encoding="utf-8")
    command = ["embed", str(folder), TEXT] if reads else ["complete", str(folder), TEXT, "--max-tokens", "1"]
    python = [sys.executable, "-c"]
    ways = {
        "command": [sys.executable, "-m", "regard", *command],
        "regard.load": [*python, OURS, str(folder), TEXT],
        "transformers": [*python, THEIRS, str(folder), TEXT],
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for call in ways.values():
        _seconds(call)  # files come into the cache of the system
    for _ in range(ROUNDS):
        for name, call in ways.items():
            seconds[name].append(_seconds(call))
    for name, measured in seconds.items():
        ratios = sorted(b / a for a, b in zip(measured, seconds["transformers"], strict=True))
        print(f"{name:14}{median(measured):6.2f} s, transformers {median(ratios):.1f} times as long "
              f"({ratios[0]:.1f} to {ratios[-1]:.1f})")  # fmt: skip


def _seconds(call: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(call, check=True, capture_output=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    return time.perf_counter() - began


def memory(folder: Path) -> None:
    """Print the largest memory of a process that loads the folder and answers."""
    subprocess.run([sys.executable, "-c", OURS, str(folder), TEXT], check=True, capture_output=True)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # bytes, on Linux
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    print(f"weights {size / 1e9:.2f} GB, memory {most / 1e9:.2f} GB, ratio {most / size:.2f}")


def make(shape: str, out: Path) -> None:
    """Write a random folder with a tokenizer of bytes."""
    import torch
    import transformers

    from tests.checkpoints.test_huggingface import byte_pairs

    architecture, config, values = SHAPES[shape]
    torch.set_default_dtype(torch.float16 if shape == "llama" else torch.float32)
    model = getattr(transformers, architecture)(getattr(transformers, config)(**values))
    model.save_pretrained(out, max_shard_size="1GB")
    inner = byte_pairs(["<|endoftext|>"])
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|endoftext|>").save_pretrained(
        out
    )


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], Path(sys.argv[3]))
    else:
        {"start": start, "memory": memory}[sys.argv[1]](Path(sys.argv[2]))
