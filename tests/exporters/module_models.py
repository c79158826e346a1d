"""Modules of torch.nn, and code with control flow that follows the data."""

import functools

import torch

from exportable import ANY, BATCH, LENGTH, VOCABULARY, Exportable, drawn, tokens


class Recurrent(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, 16)
        self.layers = getattr(torch.nn, kind)(16, 24, num_layers=2, batch_first=True, bidirectional=True)
        self.head = torch.nn.Linear(48, 10)

    def forward(self, token_ids):
        return self.head(self.layers(self.embedding(token_ids))[0])


def recurrent(kind, second_length=11, varying=(0, 1), **more):
    axes = {axis: (BATCH, LENGTH)[axis] for axis in varying}
    return Exportable(Recurrent(kind).eval(), [(tokens(2, 7),), (tokens(3, second_length),)], [axes], **more)


def transformer_encoder():
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return Exportable(torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(),
                      [(drawn(2, 7, 32),), (drawn(3, 11, 32),)], [{0: BATCH, 1: LENGTH}])


class Condition(torch.nn.Module):
    """A branch that the data choose."""

    def forward(self, values):
        return torch.cond(values.sum() > 0, lambda x: x.relu() * 2, lambda x: x.sigmoid() - 1, (values,))


class Scan(torch.nn.Module):
    """A state that follows a sequence."""

    def forward(self, sequence, start):
        def step(state, values):
            state = 0.5 * state + values
            return state, state.tanh()
        return torch.ops.higher_order.scan(step, [start], [sequence], [])[1]


class Pieces(torch.nn.Module):
    """A list of tensors: Split to a sequence, and its elements."""

    def forward(self, values):
        parts = values.split(3, dim=1)
        return torch.cat([part.flip(1) * (index + 1) for index, part in enumerate(parts)], dim=1), torch.stack(values.unbind(2))


class Indexing(torch.nn.Module):
    """Reads and writes by computed positions, as models with caches and masks do."""

    def forward(self, values, positions):
        cache = torch.zeros(values.shape[0], 16, values.shape[2])
        cache = cache.scatter(1, positions[..., None].expand_as(values), values)
        best = cache.norm(dim=-1).topk(4, dim=1).indices
        kept = torch.take_along_dim(cache, best[..., None], dim=1)
        return kept, cache.masked_fill(cache < 0, -1.0).cumsum(1), torch.bucketize(values, torch.linspace(-1, 1, 9))


class Shapes(torch.nn.Module):
    """Sizes that follow from sizes of the input."""

    def forward(self, image):
        height, width = image.shape[-2:]
        padded = torch.nn.functional.pad(image, (0, -width % 8, 0, -height % 8), mode="reflect")
        small = torch.nn.functional.interpolate(padded, size=(padded.shape[2] // 2, padded.shape[3] // 2), mode="bilinear",
                                                antialias=True)
        pooled = torch.nn.functional.adaptive_avg_pool2d(small, 1)
        grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 5), torch.linspace(-1, 1, 7), indexing="xy"), -1)
        sampled = torch.nn.functional.grid_sample(small, grid.expand(image.shape[0], -1, -1, -1), align_corners=False)
        return torch.nn.functional.pixel_shuffle(padded.repeat(1, 4, 1, 1), 2), pooled, sampled


class Spectrum(torch.nn.Module):
    """Magnitudes of a short-time Fourier transform, then a filter bank."""

    def forward(self, samples):
        spectrum = torch.stft(samples, 64, 16, window=torch.hann_window(64), return_complex=True, center=True)
        return (spectrum.real ** 2 + spectrum.imag ** 2).clamp_min(1e-6).log10()


class Normalizations(torch.nn.Module):
    """Layers whose export changed with the operator set: norms, GELU, losses of precision, Einsum."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Conv1d(8, 8, 3, padding="same", padding_mode="circular"), torch.nn.GroupNorm(2, 8),
                                          torch.nn.GELU("tanh"), torch.nn.InstanceNorm1d(8, affine=True), torch.nn.Mish(),
                                          torch.nn.Hardswish(), torch.nn.PReLU(8), torch.nn.AdaptiveMaxPool1d(6))
        self.norm = torch.nn.RMSNorm(6)

    def forward(self, values):
        result = self.norm(self.layers(values))
        product = torch.einsum("bct,bdt->bcd", result, result)
        return torch.logsumexp(product, -1), torch.nn.functional.log_softmax(product, 1), torch.std(result, dim=(1, 2))


def varied(kind, varying, *inputs, **more):
    return Exportable(kind().eval(), [tuple(each) for each in inputs], varying, **more)


def positions(batch, length):
    return torch.stack([torch.randperm(16, generator=torch.Generator().manual_seed(each))[:length] for each in range(batch)])


MODELS = {
    **{f"torch_{kind.lower()}": functools.partial(recurrent, kind) for kind in ("LSTM", "GRU")},
    "torch_rnn": functools.partial(recurrent, "RNN", 7, (0,)),  # the exporter keeps the length of the example
    "torch_lstm_script": functools.partial(recurrent, "LSTM", script=True),
    "transformer_encoder": transformer_encoder,
    "condition": lambda: varied(Condition, [{0: ANY}], [drawn(3, 5)], [drawn(4, 5)]),
    "scan": lambda: varied(Scan, [{0: ANY}, {}], [drawn(6, 5), drawn(5)], [drawn(9, 5), drawn(5)]),
    "pieces": lambda: varied(Pieces, [{0: ANY}], [drawn(2, 9, 4)], [drawn(3, 9, 4)]),
    "pieces_script": lambda: varied(Pieces, [{0: ANY}], [drawn(2, 9, 4)], [drawn(3, 9, 4)], script=True),
    "indexing": lambda: varied(Indexing, [{1: LENGTH}] * 2, [drawn(2, 5, 3), positions(2, 5)], [drawn(2, 7, 3), positions(2, 7)]),
    "shapes": lambda: varied(Shapes, [{0: ANY, 2: ANY, 3: ANY}], [drawn(2, 3, 17, 22)], [drawn(3, 3, 30, 19)]),
    "spectrum": lambda: varied(Spectrum, [{0: ANY}], [drawn(2, 400)], [drawn(3, 400)]),
    "normalizations": lambda: varied(Normalizations, [{0: ANY}], [drawn(2, 8, 12)], [drawn(3, 8, 12)]),
}
