"""Models of sound and of time series."""

import functools

import numpy as np
import onnx
import torch

from exportable import BATCH, LENGTH, VOCABULARY, Call, Exportable, configured, drawn, tokens

HIDDEN = ["last_hidden_state"]
LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
WAVES = {"vocab_size": 32, **LAYERS, "conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3),
         "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
SAMPLES = torch.export.Dim("samples", min=200, max=4000)

RAW = {
    "wav2vec2": ("Wav2Vec2", "ForCTC", ["logits"], WAVES),
    "hubert": ("Hubert", "Model", HIDDEN, WAVES),
    "conformer": ("Wav2Vec2Conformer", "ForCTC", ["logits"],
                  {**WAVES, "position_embeddings_type": "rotary", "conv_depthwise_kernel_size": 7}),
}
SERIES = {"num_input_channels": 3, "context_length": 32, "patch_length": 8, "patch_stride": 8, "prediction_length": 12}


def raw(family, head, fields, values):
    return Exportable(Call(configured(family, head, **values), fields, ("input_values",)), [(drawn(2, 800),), (drawn(3, 1111),)],
                      [{0: BATCH, 1: SAMPLES}])


def whisper():
    model = configured("Whisper", "ForConditionalGeneration", vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2,
                       encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
                       num_mel_bins=20, max_source_positions=25, max_target_positions=64, pad_token_id=0, bos_token_id=1,
                       eos_token_id=2, decoder_start_token_id=1)
    return Exportable(Call(model, ["logits"], ("input_features", "decoder_input_ids"), use_cache=False),
                      [(drawn(2, 20, 50), tokens(2, 5)), (drawn(3, 20, 50), tokens(3, 9))], [{0: BATCH}, {0: BATCH, 1: LENGTH}])


def audio_spectrogram():
    model = configured("AST", "Model", **LAYERS, patch_size=8, frequency_stride=8, time_stride=8, max_length=32, num_mel_bins=16)
    return Exportable(Call(model, HIDDEN, ("input_values",)), [(drawn(2, 32, 16),), (drawn(3, 32, 16),)], [{0: BATCH}])


class WithoutNoise(Exportable):
    """Replaces the random numbers in the exported model by zeros, one of the ways that Tessera's error names."""

    def write(self, path):
        names = super().write(path)
        model = onnx.load(path)
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0), "no_noise"))
        for node in model.graph.node:
            if node.op_type == "RandomNormalLike":
                node.op_type = "Mul"
                node.input.append("no_noise")
                del node.attribute[:]
        onnx.save(model, path)
        return names


def vits(kind=Exportable):
    model = configured("Vits", "Model", vocab_size=38, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=64,
                       flow_size=32, spectrogram_bins=17, duration_predictor_filter_channels=32, upsample_initial_channel=32,
                       upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8], resblock_kernel_sizes=[3],
                       resblock_dilation_sizes=[[1, 3]], posterior_encoder_num_wavenet_layers=2,
                       prior_encoder_num_wavenet_layers=2, depth_separable_num_layers=2,
                       use_stochastic_duration_prediction=False)
    model.noise_scale = 0.0  # otherwise the model draws random numbers
    return kind(Call(model, ["waveform"], ("input_ids",)), [(tokens(1, 9, 38),), (tokens(1, 13, 38),)], [{1: LENGTH}])


def forecast(family, values):
    model = configured(family, "ForPrediction", **SERIES, **values)
    return Exportable(Call(model, ["prediction_outputs"], ("past_values",)), [(drawn(2, 32, 3),), (drawn(3, 32, 3),)], [{0: BATCH}])


def time_series_transformer():
    model = configured("TimeSeriesTransformer", "Model", prediction_length=6, context_length=12, lags_sequence=[1, 2],
                       num_time_features=1, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                       decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32)

    def inputs(batch):
        return (drawn(batch, 14), drawn(batch, 14, 1), torch.ones(batch, 14), drawn(batch, 6), drawn(batch, 6, 1))
    names = ("past_values", "past_time_features", "past_observed_mask", "future_values", "future_time_features")
    return Exportable(Call(model, HIDDEN, names, use_cache=False), [inputs(2), inputs(3)], [{0: BATCH}] * 5)


MODELS = {
    **{name: functools.partial(raw, *row) for name, row in RAW.items()},
    "whisper": whisper,
    "audio_spectrogram": audio_spectrogram,
    "vits": vits,
    "vits_without_noise": functools.partial(vits, WithoutNoise),
    "patchtst": functools.partial(forecast, "PatchTST", {"d_model": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                                                         "ffn_dim": 64}),
    "patchtsmixer": functools.partial(forecast, "PatchTSMixer", {"d_model": 16, "num_layers": 2}),
    "time_series_transformer": time_series_transformer,
}
