"""Encoders of text, and models of an encoder and a decoder."""

import functools

import torch

from exportable import BATCH, LENGTH, VOCABULARY, Call, Exportable, configured, masked_tokens, tokens
from language_models import SMALL

TARGET = torch.export.Dim("target")
HIDDEN, MASKED = ["last_hidden_state"], ("input_ids", "attention_mask")

ENCODERS = {
    "bert": ("Bert", "Model", HIDDEN, {}),
    "bert_classifier": ("Bert", "ForSequenceClassification", ["logits"], {}),
    "bert_answers": ("Bert", "ForQuestionAnswering", ["start_logits", "end_logits"], {}),
    "roberta": ("Roberta", "Model", HIDDEN, {"max_position_embeddings": 66}),
    "xlm_roberta": ("XLMRoberta", "Model", HIDDEN, {"max_position_embeddings": 66}),
    "distilbert": ("DistilBert", "Model", HIDDEN, {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    "albert": ("Albert", "Model", HIDDEN, {"embedding_size": 16}),
    "electra": ("Electra", "Model", HIDDEN, {"embedding_size": 16}),
    "modernbert": ("ModernBert", "Model", HIDDEN, {"local_attention": 4, "global_attn_every_n_layers": 2}),
    "deberta_v2": ("DebertaV2", "Model", HIDDEN, {"relative_attention": True, "pos_att_type": ["p2c", "c2p"],
                                                  "position_buckets": 8}),
    "mpnet": ("MPNet", "Model", HIDDEN, {}),
    "roformer": ("RoFormer", "Model", HIDDEN, {"embedding_size": 32}),
    "fnet": ("FNet", "Model", HIDDEN, {}),
    "funnel": ("Funnel", "BaseModel", HIDDEN, {"block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64}),
    "squeezebert": ("SqueezeBert", "Model", HIDDEN, {"embedding_size": 32}),
}

T5 = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
      "decoder_start_token_id": 0}
BART = {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
SEQUENCES = {
    "t5": ("T5", "ForConditionalGeneration", T5),
    "mt5": ("MT5", "ForConditionalGeneration", T5),
    "bart": ("Bart", "ForConditionalGeneration", BART),
    "pegasus": ("Pegasus", "ForConditionalGeneration", BART),
    "marian": ("Marian", "MTModel", BART),
}


def encoder(family, head, fields, changes, **more):
    values = {**SMALL, **changes}
    if "block_sizes" in values:  # Funnel's number of layers
        del values["num_hidden_layers"]
    call = Call(configured(family, head, **values), fields, MASKED)
    return Exportable(call, [masked_tokens(2, 7), masked_tokens(3, 11)], [{0: BATCH, 1: LENGTH}] * 2, **more)


def encoder_and_decoder(family, head, values, **more):
    call = Call(configured(family, head, **values), ["logits"], (*MASKED, "decoder_input_ids"), use_cache=False)
    return Exportable(call, [(*masked_tokens(2, 7), tokens(2, 5)), (*masked_tokens(3, 11), tokens(3, 4))],
                      [{0: BATCH, 1: LENGTH}] * 2 + [{0: BATCH, 1: TARGET}], **more)


def layoutlm():
    model = configured("LayoutLM", "Model", **SMALL, max_2d_position_embeddings=64)

    def inputs(batch, length):
        boxes = torch.arange(4).expand(batch, length, 4) + torch.arange(length)[:, None]
        return tokens(batch, length), boxes.contiguous(), torch.ones(batch, length, dtype=torch.int64)
    return Exportable(Call(model, HIDDEN, ("input_ids", "bbox", "attention_mask")), [inputs(2, 7), inputs(3, 11)],
                      [{0: BATCH, 1: LENGTH}] * 3)


MODELS = {
    **{name: functools.partial(encoder, *row) for name, row in ENCODERS.items()},
    **{name: functools.partial(encoder_and_decoder, *row) for name, row in SEQUENCES.items()},
    "layoutlm": layoutlm,
    "bert_opset24": functools.partial(encoder, *ENCODERS["bert"], opset=24),
    "t5_opset23": functools.partial(encoder_and_decoder, *SEQUENCES["t5"], opset=23),
    "bert_script": functools.partial(encoder, *ENCODERS["bert"], script=True),
    "t5_script": functools.partial(encoder_and_decoder, *SEQUENCES["t5"], script=True),
}
