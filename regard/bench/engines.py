"""Engines: each turns a DecodingTask into a function that runs it in one library and returns the output.

They run in worker processes. Each engine imports only its own library, so CTranslate2 runs without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

Work = Callable[[], Any]


@dataclass(frozen=True)
class DecodingTask:
    """Rows of ids to decode to a fixed length, or to encode.

    `compute`, `workers` and `threads` are CTranslate2's compute_type, inter_threads and intra_threads.
    onnxruntime and llama.cpp have `compute` and `threads` too, the native engine `threads`.
    """

    kind: str  # "translation", "generation" or "encoding"
    folder: str
    rows: list[list[int]]  # sources, prompts or sentences
    start: int  # the start id of a translation
    end: int  # the end id, which is banned until the length is reached
    length: int = 0  # of every output
    beams: int = 1
    compute: str = "float32"
    workers: int = 1
    threads: int = 0


def regard_torch(task: DecodingTask) -> Work:
    """Regard's search over the torch model."""
    from regard.checkpoints.folder import load_model
    from regard.engine.torch_stepper import TorchStepper
    from regard.inference.scoring import vectors
    from regard.model.transformer import EncoderOnly

    model = load_model(task.folder).eval()
    if isinstance(model, EncoderOnly):
        return lambda: _means(vectors(model, task.rows))
    return _search(task, lambda: TorchStepper(model))


def regard_native(task: DecodingTask, dtype: str = "float32") -> Work:
    """Regard's search over the native engine."""
    from regard.checkpoints.folder import read_folder
    from regard.engine.native_stepper import NativeModel, NativeStepper

    folder = read_folder(task.folder)
    weights = {name: folder.weights[name] for name in folder.weights}
    model = NativeModel(folder.config, weights, task.threads, dtype)
    if folder.config.family == "encoder-only":
        return lambda: _means(model.encode(task.rows))
    return _search(task, lambda: NativeStepper(model))


def _search(task: DecodingTask, stepper: Callable[[], Any]) -> Work:
    from regard.inference.search.beam import Beam, BeamSettings
    from regard.inference.search.constraints import Constraints
    from regard.inference.search.requests import Request, run
    from regard.inference.search.sampling import Sampling

    length: dict[str, Any] = dict(min_length=task.length, max_length=task.length, end=task.end)
    limits = BeamSettings(beams=task.beams, **length) if task.beams > 1 else Constraints(**length)
    search = Beam if task.beams > 1 else Sampling
    if task.kind == "translation":
        requests = [Request(np.array([task.start]), limits, np.array(row)) for row in task.rows]
    else:
        requests = [Request(np.array(row), limits) for row in task.rows]
    return lambda: [answer.best.ids.tolist() for answer in run(search(stepper()), requests)]


def transformers(task: DecodingTask) -> Work:
    """transformers' generate, or its encoder's forward."""
    import torch
    import transformers as library

    names = {"translation": "MarianMTModel", "generation": "GPT2LMHeadModel", "encoding": "BertModel"}
    model = getattr(library, names[task.kind]).from_pretrained(task.folder).eval()
    ids = torch.tensor(task.rows)
    prompt = 1 if task.kind == "translation" else ids.shape[1]  # a translation includes its start id
    options = dict(num_beams=task.beams, min_new_tokens=task.length, max_new_tokens=task.length)

    @torch.inference_mode()
    def generate() -> Any:
        output = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **options)
        return output[:, prompt:].tolist()

    @torch.inference_mode()
    def encode() -> Any:
        return _means(list(model(input_ids=ids).last_hidden_state.numpy()))

    return encode if task.kind == "encoding" else generate


def ctranslate2(task: DecodingTask) -> Work:
    """CTranslate2 with the compute type and threads of the task."""
    import ctranslate2 as library  # pyright: ignore[reportMissingImports]

    classes = {
        "translation": library.Translator,
        "generation": library.Generator,
        "encoding": library.Encoder,
    }
    engine = classes[task.kind](
        task.folder, compute_type=task.compute, inter_threads=task.workers, intra_threads=task.threads
    )
    rows_per_worker = -(-len(task.rows) // task.workers)
    if task.kind == "encoding":
        return lambda: _in_workers(engine.forward_batch, task, rows_per_worker)
    words = [[str(number) for number in row] for row in task.rows]
    options: dict[str, Any] = dict(beam_size=task.beams, max_batch_size=rows_per_worker)

    def translate() -> Any:
        lengths = dict(min_decoding_length=task.length, max_decoding_length=task.length)
        return _numbers(
            result.hypotheses[0] for result in engine.translate_batch(words, **options, **lengths)
        )

    def write() -> Any:
        lengths = dict(min_length=task.length, max_length=task.length, include_prompt_in_result=False)
        return _numbers(result.sequences[0] for result in engine.generate_batch(words, **options, **lengths))

    return translate if task.kind == "translation" else write


def _in_workers(forward: Callable[[Any], Any], task: DecodingTask, count: int) -> list[list[float]]:
    """The means of all rows; a call has `count` rows, and each runs on a worker of its own."""
    parts = [task.rows[start : start + count] for start in range(0, len(task.rows), count)]
    with ThreadPoolExecutor(len(parts)) as pool:
        outputs = list(pool.map(forward, parts))
    return [mean for output in outputs for mean in _means(list(np.array(output.last_hidden_state)))]


def _numbers(sequences: Any) -> list[list[int]]:
    return [[int(word) for word in sequence] for sequence in sequences]


def _means(vectors: Sequence[np.ndarray]) -> list[list[float]]:
    """The mean vector of each sentence, to compare the outputs of encoders."""
    return [vector.mean(0).tolist() for vector in vectors]


def onnxruntime(task: DecodingTask) -> Work:
    """onnxruntime's pass of an exported encoder, with float32 or dynamically quantised int8 weights."""
    import onnxruntime as library  # pyright: ignore[reportMissingImports]

    options = library.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = task.threads, 3
    file = Path(task.folder) / f"{task.compute}.onnx"
    session: Any = library.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    source = np.array(task.rows)
    feeds = {"source": source, "source_mask": np.ones(source.shape, bool)}
    return lambda: _means(list(session.run(None, feeds)[0]))


def llama_cpp(task: DecodingTask) -> Work:
    """Greedy search over llama.cpp, with all rows in one batch, in float32 or with int8 weights (Q8_0)."""
    library: Any = import_module("llama_cpp")
    rows, prompt = len(task.rows), len(task.rows[0])
    library.llama_backend_init()
    file = str(Path(task.folder) / f"{task.compute}.gguf").encode()
    model = library.llama_model_load_from_file(file, library.llama_model_default_params())
    settings = library.llama_context_default_params()
    settings.n_ctx, settings.n_seq_max = rows * (prompt + task.length), rows
    settings.n_batch = settings.n_ubatch = rows * prompt
    settings.n_threads = settings.n_threads_batch = task.threads
    context = library.llama_init_from_model(model, settings)
    batch = library.llama_batch_init(rows * prompt, 0, 1)

    def step(new: list[list[int]], position: int) -> list[int]:
        """The best next id of each row, which all read as many new ids."""
        batch.n_tokens = 0
        for row, ids in enumerate(new):
            for place, number in enumerate(ids):
                at = batch.n_tokens
                batch.token[at], batch.pos[at], batch.n_seq_id[at] = number, position + place, 1
                batch.seq_id[at][0], batch.logits[at] = row, place == len(ids) - 1
                batch.n_tokens += 1
        if library.llama_decode(context, batch):
            raise RuntimeError("llama_decode failed")
        count = len(new[0])
        return [best((row + 1) * count - 1) for row in range(rows)]

    def best(at: int) -> int:
        scores = np.ctypeslib.as_array(library.llama_get_logits_ith(context, at), (task.end + 1,))
        scores[task.end] = -np.inf
        return int(scores.argmax())

    def write() -> Any:
        library.llama_memory_clear(library.llama_get_memory(context), True)
        new, position, steps = task.rows, 0, []
        for _ in range(task.length):
            steps.append(step(new, position))
            position += len(new[0])
            new = [[number] for number in steps[-1]]
        return [list(row) for row in zip(*steps, strict=True)]

    return write


ENGINES: dict[str, Callable[[DecodingTask], Work]] = {
    "regard": regard_torch,
    "regard-native": regard_native,
    "regard-native-int8": partial(regard_native, dtype="int8"),
    "transformers": transformers,
    "ctranslate2": ctranslate2,
    "onnxruntime": onnxruntime,
    "llama.cpp": llama_cpp,
}
