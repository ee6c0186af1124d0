"""The config.json files of well-known models as they were published, with every key of theirs."""

from __future__ import annotations

from typing import Any

GPT2 = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
    "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": None,
    "summary_first_dropout": 0.1, "summary_proj_to_labels": True, "summary_type": "cls_index",
    "summary_use_proj": True, "vocab_size": 50257,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
}  # fmt: skip
GPT2_MEDIUM = GPT2 | {
    "n_embd": 1024, "n_head": 16, "n_layer": 24, "n_special": 0, "predict_special_tokens": True,
}  # fmt: skip
DISTILGPT2 = GPT2 | {
    "_num_labels": 1, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "n_layer": 6,
}  # fmt: skip
BERT = {
    "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
    "gradient_checkpointing": False, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512, "model_type": "bert",
    "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
    "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0", "type_vocab_size": 2,
    "use_cache": True, "vocab_size": 30522,
}  # fmt: skip
BERT_MULTILINGUAL = {key: value for key, value in BERT.items() if key != "position_embedding_type"} | {
    "directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3, "pooler_size_per_head": 128, "pooler_type": "first_token_transform",
    "vocab_size": 119547,
}  # fmt: skip
MINILM = BERT | {
    "_name_or_path": "nreimers/MiniLM-L6-H384-uncased", "architectures": ["BertModel"], "hidden_size": 384,
    "intermediate_size": 1536, "num_hidden_layers": 6, "transformers_version": "4.8.2",
}  # fmt: skip
DISTILBERT = {
    "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 768,
    "dropout": 0.1, "hidden_dim": 3072, "initializer_range": 0.02, "max_position_embeddings": 512,
    "model_type": "distilbert", "n_heads": 12, "n_layers": 6, "pad_token_id": 0, "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True,
    "transformers_version": "4.10.0.dev0", "vocab_size": 30522,
}  # fmt: skip
SENTIMENT = DISTILBERT | {
    "architectures": ["DistilBertForSequenceClassification"], "finetuning_task": "sst-2",
    "id2label": {"0": "NEGATIVE", "1": "POSITIVE"}, "label2id": {"NEGATIVE": 0, "POSITIVE": 1},
    "output_past": True,
}  # fmt: skip
ROBERTA = {
    "architectures": ["RobertaForMaskedLM"], "attention_probs_dropout_prob": 0.1, "bos_token_id": 0,
    "eos_token_id": 2, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
    "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-05,
    "max_position_embeddings": 514, "model_type": "roberta", "num_attention_heads": 12,
    "num_hidden_layers": 12, "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": 50265,
}  # fmt: skip
XLM_ROBERTA = ROBERTA | {
    "architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "output_past": True,
    "position_embedding_type": "absolute", "transformers_version": "4.17.0.dev0", "use_cache": True,
    "vocab_size": 250002,
}  # fmt: skip
OPUS_MT = {
    "_name_or_path": "/tmp/Helsinki-NLP/opus-mt-en-fr", "_num_labels": 3, "activation_dropout": 0.0,
    "activation_function": "swish", "add_bias_logits": False, "add_final_layer_norm": False,
    "architectures": ["MarianMTModel"], "attention_dropout": 0.0, "bad_words_ids": [[59513]],
    "bos_token_id": 0, "classif_dropout": 0.0, "classifier_dropout": 0.0, "d_model": 512,
    "decoder_attention_heads": 8, "decoder_ffn_dim": 2048, "decoder_layerdrop": 0.0, "decoder_layers": 6,
    "decoder_start_token_id": 59513, "decoder_vocab_size": 59514, "dropout": 0.1,
    "encoder_attention_heads": 8, "encoder_ffn_dim": 2048, "encoder_layerdrop": 0.0, "encoder_layers": 6,
    "eos_token_id": 0, "extra_pos_embeddings": 59514, "force_bos_token_to_be_generated": False,
    "forced_eos_token_id": 0, "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, "init_std": 0.02,
    "is_encoder_decoder": True, "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}, "max_length": 512,
    "max_position_embeddings": 512, "model_type": "marian", "normalize_before": False,
    "normalize_embedding": False, "num_beams": 4, "num_hidden_layers": 6, "pad_token_id": 59513,
    "scale_embedding": True, "share_encoder_decoder_embeddings": True, "static_position_embeddings": True,
    "transformers_version": "4.22.0.dev0", "use_cache": True, "vocab_size": 59514,
}  # fmt: skip
PEGASUS = {
    "activation_dropout": 0.1, "activation_function": "relu", "add_bias_logits": False,
    "add_final_layer_norm": True, "architectures": ["PegasusForConditionalGeneration"],
    "attention_dropout": 0.1, "bos_token_id": 0, "classif_dropout": 0.0, "classifier_dropout": 0.0,
    "d_model": 1024, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096, "decoder_layerdrop": 0.0,
    "decoder_layers": 16, "decoder_start_token_id": 0, "do_blenderbot_90_layernorm": False, "dropout": 0.1,
    "encoder_attention_heads": 16, "encoder_ffn_dim": 4096, "encoder_layerdrop": 0.0, "encoder_layers": 16,
    "eos_token_id": 1, "extra_pos_embeddings": 0, "force_bos_token_to_be_generated": False,
    "forced_eos_token_id": 1, "gradient_checkpointing": False,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
    "init_std": 0.02, "is_encoder_decoder": True, "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
    "length_penalty": 0.6, "max_length": 64, "max_position_embeddings": 512, "model_type": "pegasus",
    "normalize_before": True, "normalize_embedding": False, "num_beams": 8, "num_hidden_layers": 16,
    "pad_token_id": 0, "scale_embedding": True, "static_position_embeddings": True, "use_cache": True,
    "vocab_size": 96103,
}  # fmt: skip
LLAMA2 = {
    "_name_or_path": "meta-llama/Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"], "bos_token_id": 1,
    "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pretraining_tp": 1,
    "rms_norm_eps": 1e-05, "rope_scaling": None, "tie_word_embeddings": False, "torch_dtype": "float16",
    "transformers_version": "4.31.0.dev0", "use_cache": True, "vocab_size": 32000,
}  # fmt: skip
LLAMA3 = LLAMA2 | {
    "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001,
    "intermediate_size": 14336, "max_position_embeddings": 8192, "num_key_value_heads": 8,
    "rope_theta": 500000.0, "torch_dtype": "bfloat16", "vocab_size": 128256,
}  # fmt: skip
LLAMA32 = LLAMA3 | {
    "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_size": 2048, "intermediate_size": 8192,
    "max_position_embeddings": 131072, "mlp_bias": False, "num_hidden_layers": 16,
    "rope_scaling": {
        "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3",
    },
    "tie_word_embeddings": True, "transformers_version": "4.45.0.dev0",
}  # fmt: skip
SMOLLM2 = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576,
    "initializer_range": 0.041666666666666664, "intermediate_size": 1536, "is_llama_config": True,
    "max_position_embeddings": 8192, "mlp_bias": False, "model_type": "llama", "num_attention_heads": 9,
    "num_hidden_layers": 30, "num_key_value_heads": 3, "pad_token_id": 2, "pretraining_tp": 1,
    "rms_norm_eps": 1e-05, "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}},
    "transformers_version": "4.42.3", "use_cache": True, "vocab_size": 49152,
}  # fmt: skip
MISTRAL = {
    "architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
    "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
    "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "sliding_window": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "transformers_version": "4.34.0.dev0", "use_cache": True, "vocab_size": 32000,
}  # fmt: skip
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
    "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
    "intermediate_size": 4864, "max_position_embeddings": 131072, "max_window_layers": 24,
    "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 131072, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "transformers_version": "4.40.1", "use_cache": True,
    "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip
QWEN25 = QWEN2 | {"sliding_window": 32768, "max_position_embeddings": 32768, "use_mrope": False}
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
    "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
    "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
    "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": True,
    "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip
VIT = {
    "_name_or_path": "google/vit-base-patch16-224-in21k", "architectures": ["ViTForImageClassification"],
    "attention_probs_dropout_prob": 0.0, "encoder_stride": 16, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0, "hidden_size": 768, "id2label": {"0": "tench", "1": "goldfish", "2": "shark"},
    "image_size": 224, "initializer_range": 0.02, "intermediate_size": 3072,
    "label2id": {"tench": 0, "goldfish": 1, "shark": 2}, "layer_norm_eps": 1e-12, "model_type": "vit",
    "num_attention_heads": 12, "num_channels": 3, "num_hidden_layers": 12, "patch_size": 16, "qkv_bias": True,
    "transformers_version": "4.13.0.dev0",
}  # fmt: skip
PUBLISHED: dict[str, dict[str, Any]] = {
    "gpt2": GPT2, "gpt2-medium": GPT2_MEDIUM, "distilgpt2": DISTILGPT2, "bert-base-uncased": BERT,
    "bert-base-multilingual-cased": BERT_MULTILINGUAL, "all-MiniLM-L6-v2": MINILM,
    "distilbert-base-uncased": DISTILBERT, "distilbert-sst-2": SENTIMENT, "roberta-base": ROBERTA,
    "xlm-roberta-base": XLM_ROBERTA, "opus-mt-en-fr": OPUS_MT, "pegasus-xsum": PEGASUS, "Llama-2-7b": LLAMA2,
    "Meta-Llama-3-8B": LLAMA3, "Llama-3.2-1B": LLAMA32, "SmolLM2-135M": SMOLLM2, "Mistral-7B-v0.1": MISTRAL,
    "Qwen2-0.5B": QWEN2, "Qwen2.5-0.5B": QWEN25, "Qwen3-0.6B": QWEN3, "vit-base-patch16-224": VIT,
}  # fmt: skip
