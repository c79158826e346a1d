"""Decoders of text: language models without and with a cache of keys and values."""

import functools

import torch
import transformers

from exportable import BATCH, LENGTH, VOCABULARY, Call, Exportable, configured, drawn, masked_tokens, tokens

SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {"num_key_value_heads": 2}
EXPERTS = {"num_experts_per_tok": 2}

PAST, TOTAL = torch.export.Dim("past"), torch.export.Dim("total")

WITHOUT_CACHE = {
    "llama": ("Llama", GROUPED),
    "qwen2": ("Qwen2", GROUPED),
    "qwen3": ("Qwen3", {**GROUPED, "head_dim": 8}),
    "qwen3_moe": ("Qwen3Moe", {**GROUPED, **EXPERTS, "head_dim": 8, "num_experts": 4, "moe_intermediate_size": 16}),
    "phi": ("Phi", {}),
    "phi3": ("Phi3", GROUPED),
    "gemma": ("Gemma", {**GROUPED, "head_dim": 8}),
    "gemma2": ("Gemma2", {**GROUPED, "head_dim": 8, "sliding_window": 4}),
    "gemma3": ("Gemma3", {**GROUPED, "head_dim": 8, "sliding_window": 4}),
    "mistral": ("Mistral", {**GROUPED, "sliding_window": 4}),
    "mixtral": ("Mixtral", {**GROUPED, **EXPERTS, "num_local_experts": 4}),
    "olmo2": ("Olmo2", GROUPED),
    "granite": ("Granite", GROUPED),
    "stablelm": ("StableLm", GROUPED),
    "starcoder2": ("Starcoder2", GROUPED),
    "smollm3": ("SmolLM3", GROUPED),
    "falcon": ("Falcon", {"ffn_hidden_size": 64}),
    "gpt_neox": ("GPTNeoX", {}),
    "gptj": ("GPTJ", {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 64}),
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "opt": ("OPT", {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    "bloom": ("Bloom", {"n_layer": 2, "n_head": 4}),
    "mamba": ("Mamba", {"state_size": 8, "expand": 2}),
    "mamba2": ("Mamba2", {"state_size": 8, "expand": 2, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 4}),
    "deepseek_v3": ("DeepseekV3", {
        "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4,
        "v_head_dim": 8, "n_routed_experts": 4, **EXPERTS, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
        "moe_intermediate_size": 16, "n_shared_experts": 1}),
    "gpt_oss": ("GptOss", {**GROUPED, **EXPERTS, "head_dim": 8, "num_local_experts": 4, "sliding_window": 4}),
}
CONFIGURATIONS = {"Gemma3": "Gemma3Text"}  # families whose text models have configurations of other names

WITH_CACHE = {
    "llama_cached": ("Llama", 2, GROUPED),
    "qwen3_cached": ("Qwen3", 2, {**GROUPED, "head_dim": 8}),
    "phi3_cached": ("Phi3", 2, GROUPED),
    "gpt2_cached": ("GPT2", 4, {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
}


def model_of(family, changes):
    config = getattr(transformers, f"{CONFIGURATIONS.get(family, family)}Config")(**{**SMALL, **changes})
    model = getattr(transformers, "GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM")(config)
    if EXPERTS.items() <= changes.items():
        model.set_experts_implementation("batched_mm")  # the default, a product of groups, has no ONNX form yet
    return model


def without_cache(family, changes, **more):
    call = Call(model_of(family, changes), ["logits"], ("input_ids", "attention_mask"), use_cache=False)
    if family == "Mamba":  # the exporter unrolls its steps
        return Exportable(call, [masked_tokens(2, 7), masked_tokens(3, 7)], [{0: BATCH}] * 2, **more)
    return Exportable(call, [masked_tokens(2, 7), masked_tokens(3, 11)], [{0: BATCH, 1: LENGTH}] * 2, **more)


class WithCache(torch.nn.Module):
    """Takes and returns the cached keys and values of each layer."""

    def __init__(self, model):
        super().__init__()
        self.model = model.eval()

    def forward(self, token_ids, mask, *past):
        cache = transformers.DynamicCache()
        for layer, (keys, values) in enumerate(zip(past[::2], past[1::2])):
            cache.update(keys, values, layer)
        result = self.model(input_ids=token_ids, attention_mask=mask, past_key_values=cache, use_cache=True)
        return (result.logits, *(each for layer in result.past_key_values.layers for each in (layer.keys, layer.values)))


def with_cache(family, heads, changes, **more):
    def inputs(batch, length, past):
        mask = torch.ones(batch, length + past, dtype=torch.int64)
        return (tokens(batch, length), mask, *(drawn(batch, heads, past, 8) for _ in range(4)))
    return Exportable(WithCache(model_of(family, changes)), [inputs(2, 3, 5), inputs(3, 2, 9)],
                      [{0: BATCH, 1: LENGTH}, {0: BATCH, 1: TOTAL}] + [{0: BATCH, 2: PAST}] * 4,
                      formulas={"total": "past + length"}, **more)


def blip_text():
    model = configured("BlipText", "Model", **SMALL, encoder_hidden_size=32)
    return Exportable(Call(model, ["last_hidden_state"], ("input_ids", "attention_mask")),
                      [masked_tokens(2, 7), masked_tokens(3, 11)], [{0: BATCH, 1: LENGTH}] * 2)


def trocr_decoder():
    model = configured("TrOCR", "ForCausalLM", vocab_size=VOCABULARY, d_model=32, decoder_layers=2, decoder_attention_heads=4,
                       decoder_ffn_dim=64, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return Exportable(Call(model, ["logits"], ("input_ids", "attention_mask"), use_cache=False),
                      [masked_tokens(2, 7), masked_tokens(3, 11)], [{0: BATCH, 1: LENGTH}] * 2)


MODELS = {
    **{name: functools.partial(without_cache, *row) for name, row in WITHOUT_CACHE.items()},
    **{name: functools.partial(with_cache, *row) for name, row in WITH_CACHE.items()},
    "qwen3_opset18": functools.partial(without_cache, *WITHOUT_CACHE["qwen3"], opset=18),
    "llama_cached_opset24": functools.partial(with_cache, *WITH_CACHE["llama_cached"], opset=24),
    "gpt2_cached_opset23": functools.partial(with_cache, *WITH_CACHE["gpt2_cached"], opset=23),
    "llama_script": functools.partial(without_cache, "Llama", GROUPED, script=True),
    "gpt2_script": functools.partial(without_cache, *WITHOUT_CACHE["gpt2"], script=True),
    "llama_cached_script": functools.partial(with_cache, *WITH_CACHE["llama_cached"], script=True),
    "trocr_decoder": trocr_decoder,
    "blip_text": blip_text,
}
