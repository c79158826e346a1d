"""Fourier transforms and windows; n-grams."""

import numpy as np

from fuzz.cases.table import operator


@operator("DFT", ("f32", "f32", "f64"), (3, 4), since=17)
def dft(c, x):
    if x.shape[-1] not in (1, 2) or 0 in x.shape or not np.isfinite(x.array).all():
        return None  # ONNX does not say whether a zero coefficient takes part (clients/docs/design/fuzzing.md)
    axis = c.integer(1, x.rank - 2)
    c.sums(x.shape[axis])
    attributes = {"inverse": 1} if c.chance(0.4) else {}
    if x.shape[-1] == 1 and not attributes and c.chance(0.5):
        attributes["onesided"] = 1
    length = c.constant(np.asarray(c.integer(1, 2 * x.shape[axis]), np.int64)) if c.chance(0.4) else ""
    if c.opset >= 20:
        return c.node("DFT", x.name, length, c.constant(np.asarray(axis, np.int64)), kind=x.type, **attributes)
    return c.node("DFT", *([x.name, length] if length else [x.name]), kind=x.type, axis=axis, **attributes)


@operator("STFT", ("f32", "f64"), (2, 3), since=17)
def stft(c, x):
    if 0 in x.shape or x.rank == 3 and x.shape[2] != 1:
        return None
    length = x.shape[1]
    if length < 4:
        return None
    signal = x.name if x.rank == 3 else c.node("Unsqueeze", x.name, c.integers([-1]), kind=x.type)
    frame, step = c.integer(2, length), c.integer(1, 5)
    c.sums(frame)
    window = c.operand(x.type, (frame,), 0.1, 1, fixed=0.9)
    return c.node("STFT", signal, c.constant(np.asarray(step, np.int64)), window, c.constant(np.asarray(frame, np.int64)),
                  kind=x.type, onesided=c.integer(0, 1))


for _name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
    def _window(c, x, name=_name):
        # A symmetric window of one sample is 0 / 0 by the formula; other short ones are rounding noise around 0.
        periodic = c.integer(0, 1)
        made = c.node(name, c.constant(np.asarray(c.pick(1 if periodic and name == "HammingWindow" else 3, 5, 16, 17), np.int64)), kind="f32",
                      **({"periodic": periodic} if not periodic or c.chance(0.6) else {}))
        return c.node("Mul", c.node("ReduceMax", made, kind="f32", keepdims=0), x.name, kind="f32") if c.opset < 18 else \
            c.node("Add", c.node("ReduceMax", made, kind="f32", keepdims=0), x.name, kind="f32")
    operator(_name, ("f32",), since=17)(_window)


@operator("MelWeightMatrix", ("f32",), (2, 3), since=17)
def mel_weight_matrix(c, x):
    if x.shape[-1] < 2:
        return None
    numbers = [c.constant(np.asarray(v, np.int64)) for v in (c.pick(2, 5, 8), 2 * (x.shape[-1] - 1), 8000)]
    edges = [c.scalar("f32", c.pick(0, 100)), c.scalar("f32", c.pick(3000, 4000))]
    matrix = c.node("MelWeightMatrix", *numbers, *edges, kind="f32")
    c.sums(x.shape[-1])
    return c.node("MatMul", x.name, matrix, kind="f32")


@operator("TfIdfVectorizer", ("i32", "i64"), (1, 2), since=9, low=0, high=6, exact=True)
def tf_idf(c, x):
    if 0 in x.shape:
        return None
    least, most = c.pick((1, 1), (1, 2), (2, 2))
    singles, doubles = c.random.permutation(7)[:4].tolist(), np.stack(np.divmod(c.random.permutation(36)[:3], 6), axis=-1).ravel().tolist()
    pool, starts = singles + doubles, [0, len(singles)]
    grams = len(singles) + len(doubles) // 2
    return c.node("TfIdfVectorizer", x.name, kind="f32", mode=c.pick("TF", "IDF", "TFIDF"), min_gram_length=least,
                  max_gram_length=most, max_skip_count=c.pick(0, 1, 2), pool_int64s=pool, ngram_counts=starts,
                  ngram_indexes=[int(i) for i in c.random.permutation(grams)],
                  **({"weights": [c.real(0.5, 2) for _ in range(grams)]} if c.chance(0.5) else {}))
