"""Hugging Face folders as transformers writes them: the same numbers and the same ids by regard.load."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

import regard
from regard.checkpoints.huggingface_tokenizers import read_tokenizers
from regard.checkpoints.reading import read_model
from regard.checkpoints.untrusted_files import FolderFiles, MappedWeights
from regard.engine.choice import active_engine
from regard.errors import RegardError

pytestmark = pytest.mark.xdist_group("huggingface-folders")

TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "L'animal n'a pas traversé la rue : il était trop fatigué !",
    "Straße, naïve façade; Ελληνικά, русский текст.",
    "東京は日本の首都です。 한국어 مرحبا",
    "tabs\tand  two spaces, emoji 🙂 and 3.14",
    "a",
]
ALPHABET = "abc XYZ éß Ωж 東 ع 🙂 .,'’\"-_/ 012\t"
BERT = dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20)
TRANSLATION = dict(
    d_model=12, encoder_layers=1, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=3,
    encoder_ffn_dim=20, decoder_ffn_dim=20, max_position_embeddings=64,
)  # fmt: skip


def strings(count: int = 300) -> list[str]:
    """Multilingual strings: sentences, and random ones over a mixed alphabet."""
    draw = np.random.default_rng(3)
    letters = list(ALPHABET)
    random = ["".join(draw.choice(letters, int(draw.integers(1, 40)))) for _ in range(count)]
    return TEXTS + random


def word_pieces() -> tokenizers.Tokenizer:
    """A tokenizer as BERT has it."""
    inner = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=160, special_tokens=special, show_progress=False)
    inner.train_from_iterator(TEXTS, trainer)
    ends = [(name, inner.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    inner.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    return inner


def byte_pairs(special: list[str], template: str | None = None) -> tokenizers.Tokenizer:
    """A tokenizer as GPT-2, RoBERTa and Llama 3 have it."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(TEXTS, trainer)
    if template:
        ends = [(name, inner.token_to_id(name)) for name in special if name in template]
        inner.post_processor = processors.TemplateProcessing(template, special_tokens=ends)
    return inner


ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
TOKENIZERS: dict[str, tuple[Callable[[], tokenizers.Tokenizer], dict[str, str]]] = {
    "bert": (
        word_pieces,
        dict(
            unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"
        ),
    ),
    "gpt2": (
        lambda: byte_pairs(["<|endoftext|>"]),
        dict(bos_token="<|endoftext|>", eos_token="<|endoftext|>"),
    ),
    "llama": (
        lambda: byte_pairs(["<bos>", "<eos>"], "<bos> $A"),
        dict(bos_token="<bos>", eos_token="<eos>"),
    ),
    "roberta": (
        lambda: byte_pairs(ROBERTA, "<s> $A </s>"),
        dict(
            bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", unk_token="<unk>",
            pad_token="<pad>", mask_token="<mask>",
        ),
    ),
    "marian": (
        lambda: byte_pairs(["</s>", "<unk>", "<pad>"], "$A </s>"),
        dict(eos_token="</s>", unk_token="<unk>", pad_token="<pad>"),
    ),
}  # fmt: skip
SENTIMENT = dict(BERT, id2label={0: "bad", 1: "good"})
DISTILBERT = dict(dim=12, n_layers=2, n_heads=3, hidden_dim=20)
START_IS_PAD = dict(TRANSLATION, pad_token_id=2, decoder_start_token_id=2, eos_token_id=0)
FOLDERS = {  # name: architecture, config, tokenizer, values
    "minilm": ("BertModel", "BertConfig", "bert", BERT),
    "bert": ("BertForMaskedLM", "BertConfig", "bert", BERT),
    "sentiment": ("BertForSequenceClassification", "BertConfig", "bert", SENTIMENT),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertConfig", "bert", DISTILBERT),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", "roberta", dict(BERT, pad_token_id=1)),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", "gpt2", dict(n_embd=12, n_layer=2, n_head=3, n_positions=64)),
    "llama": ("LlamaForCausalLM", "LlamaConfig", "llama", dict(BERT, num_key_value_heads=1, bos_token_id=0)),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", "gpt2", dict(BERT, head_dim=4, num_key_value_heads=1)),
    "marian": ("MarianMTModel", "MarianConfig", "marian", START_IS_PAD),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", "marian", START_IS_PAD),
}  # fmt: skip


class Saved:
    """A folder that transformers wrote, its model and its tokenizer."""

    def __init__(self, transformers: Any, folder: Path, name: str):
        architecture, config, kind, values = FOLDERS[name]
        make, special = TOKENIZERS[kind]
        self.folder = folder
        self.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=make(), **special)
        values = dict(values, vocab_size=len(self.tokenizer))
        torch.manual_seed(5)
        self.model = getattr(transformers, architecture)(getattr(transformers, config)(**values)).eval()
        for parameter in self.model.parameters():
            if parameter.requires_grad:  # sinusoids are no weights
                parameter.data += 0.2 * torch.randn_like(parameter)
        if name == "roberta":
            self.model.roberta.embeddings.position_embeddings.weight.data[:2] = 0.0
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


@pytest.fixture(scope="session")
def saved(transformers, tmp_path_factory) -> Callable[[str], Saved]:
    """Makes each folder once."""
    made: dict[str, Saved] = {}

    def make(name: str) -> Saved:
        if name not in made:
            made[name] = Saved(transformers, tmp_path_factory.mktemp(name) / name, name)
        return made[name]

    return make


@pytest.fixture
def native() -> None:
    """For tests that need the native engine."""
    if active_engine()[0] != "native":
        pytest.skip(active_engine()[1])


@pytest.fixture
def copy(saved, tmp_path) -> Callable[[str], Path]:
    """Makes a copy of a folder, to change it."""
    return lambda name: Path(shutil.copytree(saved(name).folder, tmp_path / name))


def edit(path: Path, **changes: Any) -> None:
    values = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.parametrize("name", ["minilm", "bert", "sentiment", "distilbert", "roberta"])
@torch.inference_mode()
def test_a_reader_gives_their_numbers(saved, name: str) -> None:
    theirs = saved(name)
    reader = regard.load(theirs.folder)
    inputs = theirs.tokenizer(TEXTS, return_tensors="pt", padding=True)
    hidden = theirs.model(**inputs, output_hidden_states=True).hidden_states[-1]
    mask = inputs["attention_mask"][..., None]
    mean = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))
    np.testing.assert_allclose(reader.embed(TEXTS), mean.numpy(), atol=1e-5, rtol=0)
    first = reader.embed(TEXTS, pooling="first", normalise=False)
    np.testing.assert_allclose(first, hidden[:, 0].numpy(), atol=2e-5, rtol=0)
    if name == "sentiment":
        chances = theirs.model(**inputs).logits.softmax(-1)
        for text, row in zip(TEXTS, chances.tolist(), strict=True):
            assert list(reader.classify(text).probabilities.values()) == pytest.approx(row, abs=1e-5)
        assert reader.labels == ("bad", "good")
    if name in ("bert", "distilbert", "roberta"):
        text = f"The animal was too{'' if name == 'roberta' else ' '}{theirs.tokenizer.mask_token}."
        row = theirs.tokenizer(text, return_tensors="pt")
        position = row["input_ids"][0].tolist().index(theirs.tokenizer.mask_token_id)
        chances = theirs.model(**row).logits[0, position].softmax(-1)
        best = reader.fill(text, top=3).masks[0]
        assert [choice.id for choice in best] == chances.topk(3).indices.tolist()
        assert [choice.probability for choice in best] == pytest.approx(
            chances.topk(3).values.tolist(), abs=1e-5
        )


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
@torch.inference_mode()
def test_a_writer_continues_as_theirs(saved, name: str) -> None:
    theirs = saved(name)
    writer = regard.load(theirs.folder)
    for text in TEXTS[:3]:
        row = theirs.tokenizer(text, return_tensors="pt")
        chances = theirs.model(**row).logits[0, -1].softmax(-1).numpy()
        np.testing.assert_allclose(writer.next_words(text).probabilities, chances, atol=1e-5, rtol=0)
        ids = theirs.model.generate(**row, max_new_tokens=8, do_sample=False, pad_token_id=0)[0]
        written = writer.complete(text, top_k=1, max_tokens=8).tokens.ids.tolist()
        assert written == ids[row["input_ids"].shape[1] :].tolist()
    side = regard.inspect(writer, TEXTS[0]).target
    assert side.ids.tolist() == theirs.tokenizer(TEXTS[0])["input_ids"]


@pytest.mark.parametrize("name", ["marian", "pegasus"])
@torch.inference_mode()
def test_a_translator_translates_as_theirs(saved, name: str) -> None:
    theirs = saved(name)
    translator = regard.load(theirs.folder)
    for text in TEXTS[:3]:
        row = theirs.tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        ids = theirs.model.generate(
            **row,
            max_new_tokens=9,
            num_beams=1,
            do_sample=False,
            forced_eos_token_id=None,
            bad_words_ids=[[2]],
        )[0, 1:]
        written = translator.translate(text, beams=1, max_length=9).tokens.ids.tolist()
        assert written == ids.tolist()
        scored = translator.score(text, "la rue")
        target = [2, *theirs.tokenizer("la rue")["input_ids"]]
        logits = theirs.model(**row, decoder_input_ids=torch.tensor([target[:-1]])).logits[0].log_softmax(-1)
        score = logits[range(len(target) - 1), target[1:]].sum().item()
        assert scored.score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("name", FOLDERS)
def test_ids_are_theirs(saved, name: str) -> None:
    theirs = saved(name).tokenizer
    tokenizer = read_model(saved(name).folder).tokenizers().source
    texts = strings()
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    assert tokenizer.encode_batch(texts) == expected
    for role, token in (("end", theirs.eos_token_id), ("mask", theirs.mask_token_id)):
        if token is not None:
            assert tokenizer.specials[role] == token


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bert", dict(tokenizer_class="BertTokenizer", do_lower_case=False)),
        ("bert", dict(tokenizer_class="BertTokenizer", do_lower_case=True, strip_accents=False)),
        ("bert", dict(tokenizer_class="BertTokenizer", tokenize_chinese_chars=False)),
        ("gpt2", dict(tokenizer_class="GPT2Tokenizer", add_prefix_space=True)),
        ("roberta", dict(tokenizer_class="RobertaTokenizer", add_prefix_space=True)),
        ("bert", dict(do_lower_case=False)),  # their class without a name applies nothing
    ],
)
def test_settings_of_a_tokenizer_are_applied_as_theirs(copy, transformers, name: str, settings) -> None:
    folder = copy(name)
    before = read_model(folder).tokenizers().source.encode_batch(strings())
    edit(folder / "tokenizer_config.json", **settings)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ids = read_model(folder).tokenizers().source.encode_batch(strings())
    assert ids == theirs(strings(), add_special_tokens=False)["input_ids"]
    assert (ids == before) == ("tokenizer_class" not in settings)


def test_the_files_of_older_tokenizers_give_the_same_ids(copy, saved) -> None:
    texts = strings(100)
    pieces = copy("bert")
    vocabulary = saved("bert").tokenizer.get_vocab()
    lines = sorted(vocabulary, key=vocabulary.get)
    (pieces / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    pairs = copy("gpt2")
    saved("gpt2").tokenizer.backend_tokenizer.model.save(str(pairs))
    for folder in (pieces, pairs):
        expected = read_model(folder).tokenizers().source
        (folder / "tokenizer.json").unlink()
        tokenizer = read_model(folder).tokenizers().source
        assert tokenizer.encode_batch(texts) == expected.encode_batch(texts)
        assert tokenizer.specials == expected.specials
        assert tokenizer.decode(tokenizer.encode(TEXTS[0])) == expected.decode(expected.encode(TEXTS[0]))
    (pieces / "vocab.txt").write_text("[CLS]\n[SEP]\na", encoding="utf-8")
    with pytest.raises(RegardError, match=r"vocab\.txt lacks '\[UNK\]', the token of unknown words"):
        read_model(pieces).tokenizers()


def test_tokens_that_were_added_to_an_older_tokenizer(copy, saved) -> None:
    folder = copy("gpt2")
    saved("gpt2").tokenizer.backend_tokenizer.model.save(str(folder))
    (folder / "tokenizer.json").unlink()
    size = len(saved("gpt2").tokenizer)
    (folder / "added_tokens.json").write_text(json.dumps({"<new>": size}), encoding="utf-8")
    spelled = {f"{size + 1}": {"content": "<turn>", "special": True}}
    edit(folder / "tokenizer_config.json", add_bos_token=True, added_tokens_decoder=spelled)
    config = read_model(folder).config.changed(vocabulary=size + 2)
    tokenizer = read_tokenizers(FolderFiles(folder), config, {"model_type": "gpt2"}).source
    assert tokenizer.encode("a<new>b")[1] == size
    assert tokenizer.encode_specials("a<turn>")[-1] == size + 1
    assert size + 1 not in tokenizer.encode("a<turn>")  # a special token in a text stays text
    assert tokenizer.opening == (tokenizer.specials["start"],)
    edit(folder / "tokenizer_config.json", added_tokens_decoder={f"{size + 5}": {"content": "<other>"}})
    with pytest.raises(RegardError, match=f"'<other>' has the id {size + 5}, and its place"):
        regard.load(folder)
    edit(folder / "tokenizer_config.json", added_tokens_decoder={"a": 3})
    with pytest.raises(RegardError, match="added_tokens_decoder must have a content per id"):
        regard.load(folder)


@pytest.mark.parametrize("kind", ["shards", "pickle", "pickled-shards"])
def test_other_weight_files_are_the_same_model(copy, saved, kind: str) -> None:
    folder, whole = copy("gpt2"), regard.load(saved("gpt2").folder)
    (folder / "model.safetensors").unlink()
    weights = {name: w for name, w in saved("gpt2").model.state_dict().items() if name != "lm_head.weight"}
    if kind == "shards":
        saved("gpt2").model.save_pretrained(folder, max_shard_size="10KB")
        assert len(list(folder.glob("model-*.safetensors"))) > 1
    elif kind == "pickle":
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        halves = {"a.bin": list(weights)[::2], "b.bin": list(weights)[1::2]}
        for file, names in halves.items():
            torch.save({name: weights[name] for name in names}, folder / file)
        places = {name: file for file, names in halves.items() for name in names}
        (folder / "pytorch_model.bin.index.json").write_text(
            json.dumps({"weight_map": places}), encoding="utf-8"
        )
    loaded = regard.load(folder)
    for name, weight in loaded.model.state_dict().items():
        assert torch.equal(weight, whole.model.state_dict()[name])


USES = [("minilm", "embed"), ("bert", "fill"), ("sentiment", "classify"), ("gpt2", "complete")]


def test_the_native_engine_reads_them_without_torch(saved, native) -> None:
    calls = [[command, str(saved(name).folder), "the [MASK] was"] for name, command in USES]
    code = f"""
import sys
from regard.cli.app import run
assert [run([*call, "--engine", "native"]) for call in {calls}] == [0] * {len(calls)}
sys.exit("torch" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "marian"])
def test_the_native_engine_has_their_weights(saved, native, name: str, dtype: str) -> None:
    folder = saved(name).folder
    answers = [
        numbers_of(model)
        for model in (regard.load(folder, engine="native", dtype=dtype), regard.load(folder, engine="torch"))
    ]
    np.testing.assert_allclose(*answers, atol=1e-5 if dtype == "float32" else 0.2, rtol=0)


def numbers_of(model: Any) -> np.ndarray:
    """Numbers that depend on all weights of a model."""
    if isinstance(model, regard.Reader):
        return model.embed(TEXTS[:2])
    if isinstance(model, regard.Writer):
        return model.next_words(TEXTS[0]).probabilities
    return np.array([found.score for found in model.translate(TEXTS[:3], beams=1, max_length=4)])


def test_weights_are_mapped_and_tied_ones_share_memory(copy) -> None:
    folder = copy("gpt2")
    model = regard.load(folder).model
    assert model.head.weight is model.target.weight
    before = (folder / "model.safetensors").read_bytes()
    with torch.no_grad():
        model.target.weight.zero_()  # a change in memory, which never reaches the file
    assert (folder / "model.safetensors").read_bytes() == before
    assert regard.load(folder).model.target.weight.abs().sum() > 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_single(copy, saved, native, dtype: str) -> None:
    folder = copy("llama")
    copy_of_theirs = deepcopy(saved("llama").model).to(getattr(torch, dtype))
    copy_of_theirs.save_pretrained(folder)
    model = regard.load(folder).model
    whole = regard.load(saved("llama").folder).model.state_dict()
    for name, weight in model.state_dict().items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, whole[name].to(getattr(torch, dtype)).float())
    engines = [regard.load(folder), regard.load(folder, engine="torch")]
    assert engines[0].engine.dtype == "float16"
    assert engines[0].engine.native() is not None
    np.testing.assert_allclose(*map(numbers_of, engines), atol=1e-5, rtol=0)


def sentence_transformers(folder: Path, pooling: str, normalise: bool) -> None:
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalise else [])]
    modules = [
        dict(idx=i, name=str(i), path=f"{i}_{kind}" if i else "", type=f"sentence_transformers.models.{kind}")
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8, "do_lower_case": false}')
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{name}": name == pooling for name in ("cls_token", "mean_tokens", "max_tokens")}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes | {"word_embedding_dimension": 12}))


def test_sentence_transformers_set_how_embeddings_are_made(copy, tmp_path) -> None:
    folder = copy("minilm")
    plain = regard.load(folder)
    sentence_transformers(folder, "cls_token", normalise=False)
    reader = regard.load(folder)
    text = "The animal was"
    assert (reader.embed(text) == plain.embed(text, pooling="first", normalise=False)).all()
    assert (reader.embed(text, pooling="mean", normalise=True) == plain.embed(text)).all()
    with pytest.raises(RegardError, match="this model reads 6; shorten it, or set truncate"):
        reader.embed(TEXTS[0])
    edit(folder / "1_Pooling" / "config.json", pooling_mode_cls_token=False, pooling_mode_max_tokens=True)
    with pytest.raises(RegardError, match=r"pooling_mode .*pooling_mode_max_tokens.* is not supported"):
        regard.load(folder)


# As version 6.2 of sentence-transformers writes them.
POOLING_6 = {"embedding_dimension": 12, "pooling_mode": "cls", "include_prompt": True}
TRANSFORMER_6 = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}
PROMPTS_6 = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": None}


@pytest.fixture
def newer(copy) -> Path:
    """A folder as a newer version of sentence-transformers writes it."""
    folder = copy("minilm")
    sentence_transformers(folder, "mean_tokens", normalise=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(POOLING_6))
    (folder / "sentence_bert_config.json").write_text(json.dumps(TRANSFORMER_6))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(PROMPTS_6))
    edit(folder / "tokenizer_config.json", model_max_length=8)
    return folder


def test_folders_of_newer_sentence_transformers(newer) -> None:
    edit(newer / "config_sentence_transformers.json", default_prompt_name="document")  # an empty text
    read = read_model(newer).extra["embedding"]
    assert read == {"pooling": "first", "normalise": True, "limit": 8}


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("1_Pooling/config.json", dict(pooling_mode="lasttoken"), r"pooling_mode \('lasttoken'\) is not"),
        ("1_Pooling/config.json", dict(pooling_mode=["cls", "mean"]), r"pooling_mode \(\['cls', 'mean'\]\)"),
        ("1_Pooling/config.json", dict(embedding_dimension=13), r"embedding_dimension \(13\)"),
        (
            "sentence_bert_config.json",
            dict(transformer_task="fill-mask"),
            r"transformer_task \('fill-mask'\)",
        ),
        ("sentence_bert_config.json", dict(max_seq_length=2), r"max_seq_length \(2\)"),
        ("sentence_bert_config.json", dict(do_lower_case=True), r"do_lower_case \(True\)"),
        ("sentence_bert_config.json", dict(query_length=32), r"query_length \(32\) is not a known"),
        ("config_sentence_transformers.json", dict(default_prompt_name="query"), r"name \('query'\) is not"),
    ],
)
def test_steps_of_embeddings_that_regard_does_not_have_are_refused(newer, file, changes, message) -> None:
    edit(newer / file, **changes)
    with pytest.raises(RegardError, match=message):
        read_model(newer)


@pytest.mark.parametrize("place", ["x" * 5000, "a\nb", "../a", ""])
def test_the_place_of_a_pooling_is_a_folder_there(newer, place: str) -> None:
    modules = [{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": place}]
    (newer / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    with pytest.raises(RegardError, match=r"which no file has|which is outside of it") as caught:
        read_model(newer)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


CHATML = (
    "{{ bos_token }}{% for m in messages %}{{ '<eos>' + m.role + ': ' + m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<eos>assistant:{% endif %}"
)
CONVERSATION = [
    {"role": "user", "content": "The animal was too tired."},
    {"role": "assistant", "content": "la rue"},
    {"role": "user", "content": TEXTS[3]},
]


@pytest.fixture
def chatting(copy) -> Path:
    """A folder with a chat template, whose answers end with either of two tokens."""
    folder = copy("llama")
    edit(folder / "tokenizer_config.json", chat_template=CHATML)
    edit(folder / "generation_config.json", eos_token_id=[1, 7])
    return folder


def test_a_conversation_has_their_ids(chatting, transformers) -> None:
    from regard.inference.loading import load_chat

    chat = load_chat(chatting)
    theirs = transformers.AutoTokenizer.from_pretrained(chatting)
    for messages in (CONVERSATION, CONVERSATION[:1]):
        ids = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert chat.encode(messages)[1] == ids
    assert chat.ends == (1, 7)
    stream = chat.reply(CONVERSATION, max_tokens=5, temperature=0)
    assert "".join(stream) == stream.completion.text
    assert stream.completion.prompt == theirs.apply_chat_template(
        CONVERSATION, tokenize=False, add_generation_prompt=True
    )


def test_a_message_cannot_write_special_tokens(chatting) -> None:
    from regard.inference.loading import load_chat

    chat = load_chat(chatting)
    written = [{"role": "user", "content": "a<eos>assistant: b<bos>"}]
    text, ids = chat.encode(written)
    assert text == "<bos><eos>user: a<eos>assistant: b<bos><eos>assistant:"
    assert [number for number in ids if number in (0, 1)] == [0, 1, 1]  # those of the template
    assert chat.writer.tokenizer.decode(ids) == "user: a<eos>assistant: b<bos>assistant:"


def test_chat_on_the_command_line(chatting, saved, capsys, monkeypatch, tmp_path) -> None:
    import io

    from regard.cli.app import run
    from regard.exchange.importing import import_model

    import_model(chatting, tmp_path / "imported")
    answers = []
    for folder in (chatting, tmp_path / "imported"):
        options = ["--max-tokens", "4", "--temperature", "0"]
        assert run(["chat", str(folder), "The animal", "--system", "a", *options]) == 0
        lines = io.TextIOWrapper(io.BytesIO(b"The animal\n\nwas too tired\n"), encoding="utf-8")
        monkeypatch.setattr("sys.stdin", lines)
        assert run(["chat", str(folder), "-", *options]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    assert answers[0].count("\n") >= 3
    assert run(["chat", str(saved("gpt2").folder), "a"]) == 2
    assert "has no chat template, so it cannot chat; use regard complete" in capsys.readouterr().err
    assert run(["chat", str(saved("bert").folder), "a"]) == 2
    assert "cannot chat; use regard fill or regard embed" in capsys.readouterr().err


@pytest.mark.parametrize("template", [3, [{"name": "default", "template": {}}], "a" * (1 << 19)])
def test_a_chat_template_that_is_no_text_is_refused(chatting, template) -> None:
    edit(chatting / "tokenizer_config.json", chat_template=template)
    with pytest.raises(RegardError, match=r"chat.template"):
        regard.load(chatting)


def test_commands_and_the_studio_open_a_folder(saved, capsys) -> None:
    from regard.cli.app import run
    from regard.service.models import open_models

    folder = str(saved("gpt2").folder)
    assert run(["complete", folder, "The animal", "--max-tokens", "3"]) == 0
    assert run(["inspect", folder, "The animal"]) == 0
    assert run(["embed", str(saved("minilm").folder), "a street", "--json"]) == 0
    assert run(["translate", folder, "a"]) == 2
    assert "a model that continues text" in capsys.readouterr().err
    models = open_models([folder])
    assert models["gpt2"].card()["layers"] == {"encoder": 0, "decoder": 2}
    assert models["gpt2"].key() == models["gpt2"].loaded().key


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(model_type="mamba"), r"model_type \('mamba'\) is not supported; regard reads b"),
        (dict(model_type=["gpt2"]), r"model_type \(\['gpt2'\]\)"),
        (dict(n_layer=9), r"missing: transformer\.h\.2\."),
        (dict(vocab_size=2**23), r"describes a model of width 12"),
        (dict(n_positions=3), r"wpe\.weight is 64 x 12, not 3 x 12"),
        (dict(quantization_config={"bits": 4}), "quantization_config"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(copy, changes, message) -> None:
    folder = copy("gpt2")
    edit(folder / "config.json", **changes)
    began = time.perf_counter()
    with pytest.raises(RegardError, match=message) as caught:
        regard.load(folder)
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - began < 1


class Code:
    """Pickled as a call of a function."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def index(folder: Path, places: dict[str, Any], name: str = "model.safetensors.index.json") -> None:
    (folder / name).write_text(json.dumps({"weight_map": places}), encoding="utf-8")


def pickled(folder: Path, content: Any, **options: Any) -> None:
    torch.save(content, folder / "pytorch_model.bin", **options)


def compressed(folder: Path) -> None:
    import zipfile

    pickled(folder, {"a": torch.zeros(9999)})
    with zipfile.ZipFile(folder / "pytorch_model.bin") as file:
        entries = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)


def many_arrays(folder: Path) -> None:
    """An empty array under each of 20,000 names."""
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"h.{number}.x": empty for number in range(20_000)}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)


VIEWED = torch.zeros(1001, dtype=torch.bfloat16)
HOSTILE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no weights": (lambda folder: None, "has no weights"),
    "parent": (lambda folder: index(folder, {"a": "../model.safetensors"}), "which is outside of it"),
    "absolute": (lambda folder: index(folder, {"a": "/etc/passwd"}), "which is outside of it"),
    "nul": (lambda folder: index(folder, {"a": "a\0.safetensors"}), "which is outside of it"),
    "other ending": (lambda folder: index(folder, {"a": "config.json"}), "is no .safetensors"),
    "no file": (lambda folder: index(folder, {"a": "b.safetensors"}), "b.safetensors"),
    "number": (lambda folder: index(folder, {"a": 3}), "has no weight_map"),
    "long name": (lambda folder: index(folder, {"a": "x" * 5000 + ".safetensors"}), "which no file has"),
    "two lines": (lambda folder: index(folder, {"a": "a\nb.safetensors"}), "which no file has"),
    "many arrays": (many_arrays, "describes a model of width 12"),
    "link": (lambda folder: (folder / "model.safetensors").symlink_to("/dev/zero"), "it is a link"),
    "text": (lambda folder: (folder / "pytorch_model.bin").write_bytes(b"x" * 99), "is not a weight file"),
    "code": (
        lambda folder: pickled(folder, {"a": Code(folder / "ran")}),
        r"holds more than weights: Unsupported global: GLOBAL [^;]+ by default; convert it",
    ),
    "old layout": (lambda folder: pickled(folder, {}, _use_new_zipfile_serialization=False), "torch 1.6"),
    "compressed": (compressed, "has compressed entries"),
    "list": (lambda folder: pickled(folder, [torch.zeros(2)]), "holds no table of weights"),
    "a tensor of 2^45 equal numbers": (
        lambda folder: pickled(folder, {"a": torch.zeros(1, dtype=torch.bfloat16).expand(1 << 45)}),
        "larger than the numbers in the file",
    ),
    "a thousand views of one storage": (
        lambda folder: pickled(folder, {str(n): VIEWED[n : n + 2] for n in range(1000)}),
        "larger than the numbers in the file",
    ),
    "float8": (
        lambda folder: pickled(folder, {"a": torch.zeros(2).to(torch.float8_e4m3fn)}),
        "is not a dense tensor of real numbers",
    ),
    "no memory": (
        lambda folder: pickled(folder, {"a": torch.zeros(1 << 45, device="meta")}),
        "is not a dense tensor of real numbers",
    ),
    "negated": (
        lambda folder: pickled(folder, {"a": torch.zeros(2, dtype=torch.complex64).conj().imag}),
        "is not a dense tensor of real numbers",
    ),
    "not a tensor": (lambda folder: pickled(folder, {"a": 3}), "which is no tensor"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_weight_files_are_refused(copy, name: str) -> None:
    folder = copy("gpt2")
    (folder / "model.safetensors").unlink()
    change, message = HOSTILE[name]
    change(folder)
    before = sorted(folder.iterdir())
    began = time.process_time()
    with pytest.raises(RegardError, match=message) as caught:
        regard.load(folder)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()
    assert sorted(folder.iterdir()) == before
    assert time.process_time() - began < 1


def test_looking_for_a_name_reads_no_array(saved, monkeypatch) -> None:
    """Of a file in bfloat16 this would convert each array."""
    stored = MappedWeights(saved("gpt2").folder / "model.safetensors")
    monkeypatch.setattr(MappedWeights, "__getitem__", None)
    assert "transformer.wte.weight" in stored
    assert "transformer.wte" not in stored


def test_a_damaged_weight_file_is_never_replaced_by_a_pickle(copy) -> None:
    folder = copy("gpt2")
    (folder / "model.safetensors").write_bytes(b"damaged")
    pickled(folder, {"a": torch.zeros(2)})
    with pytest.raises(RegardError, match=r"model\.safetensors is damaged"):
        regard.load(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_tokenizer_files_are_checked(copy, name: str) -> None:
    folder = copy("gpt2")
    (folder / name).write_text("[", encoding="utf-8")
    with pytest.raises(RegardError, match=name):
        regard.load(folder)
    (folder / name).unlink()
    (folder / name).symlink_to("/etc/passwd")
    with pytest.raises(RegardError, match="it is a link"):
        regard.load(folder)


def test_a_name_of_the_hub_is_downloaded_once(saved, tmp_path, monkeypatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    asked: list[Any] = []

    def files(name: str) -> list[str]:
        asked.append(name)
        if len(asked) > 1:
            raise OSError("no connection")
        return [
            "config.json", "chat_template.jinja", "1_Pooling/config.json", "onnx/config.json", "README.md",
            "model.safetensors", "consolidated.safetensors", "onnx/model.safetensors", "pytorch_model.bin",
        ]  # fmt: skip

    def snapshot(name: str, local_dir: Path, allow_patterns: list[str]) -> None:
        asked.append(allow_patterns)
        shutil.copytree(saved("gpt2").folder, local_dir)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub, "list_repo_files", files)
    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    text = regard.load("somebody/gpt2").complete("The", top_k=1, max_tokens=2).text
    needed = ["1_Pooling/config.json", "chat_template.jinja", "config.json", "model.safetensors"]
    assert sorted(asked[1]) == needed
    assert (tmp_path / "cache" / "hub" / "somebody--gpt2" / "config.json").exists()
    assert regard.load("somebody/gpt2").complete("The", top_k=1, max_tokens=2).text == text
    with pytest.raises(RegardError, match=r"somebody/other is not a folder, and .*: no connection"):
        regard.load("somebody/other")


def test_a_mistyped_folder_is_no_name_of_the_hub(tmp_path, monkeypatch) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    for path in ("runs/mine", "./a/b", "/a/b", "a/b/c", "mine"):
        with pytest.raises(RegardError, match="is not a folder; pass the folder"):
            regard.load(path)
