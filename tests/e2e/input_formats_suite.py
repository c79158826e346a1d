"""The other input formats: tensor expressions and MLIR text through the service, compared with NumPy.

The expressions are the twelve operators of the thesis' table 1.1 and its examples of section 2.5.1.
"""

import numpy as np
import pytest

from checks import check, check_equal

TOLERANCE = 1e-5  # relative to the output's largest magnitude
windows = np.lib.stride_tricks.sliding_window_view

# name: (text, input shapes, NumPy's result)
EXPRESSIONS = {
    "gemv": ("input A[13, 7], B[7]; O[i] += A[i, k] * B[k];",
             [(13, 7), (7,)], lambda a, b: a @ b),
    "gemm": ("input A[M, K], B[K, N]; O[i, j] += A[i, k] * B[k, j];",
             [(17, 31), (31, 33)], lambda a, b: a @ b),
    "bilinear": ("input A[5, 6], B[7, 6, 3], C[5, 3]; O[i, j] += A[i, k] * B[j, k, l] * C[i, l];",
                 [(5, 6), (7, 6, 3), (5, 3)], lambda a, b, c: np.einsum("ik,jkl,il->ij", a, b, c)),
    "conv1d": ("input I[2, 3, 19], W[5, 3, 4]; O[b, k, i] += I[b, rc, i + rx] * W[k, rc, rx];",
               [(2, 3, 19), (5, 3, 4)],
               lambda x, w: np.einsum("bcix,kcx->bki", windows(x, 4, 2), w)),
    "transposed_conv1d": (
        "param L = 4; input I[2, 3, 19], W[3, 5, L]; O[b, k, i] += I[b, rc, i + rx] * W[rc, k, L - rx - 1];",
        [(2, 3, 19), (3, 5, 4)],
        lambda x, w: np.einsum("bcix,ckx->bki", windows(x, 4, 2), w[:, :, ::-1])),
    "conv2d": ("input I[1, 3, 11, 9], W[17, 3, 3, 3];"
               "O[b, k, i, j] += I[b, rc, i + rx, j + ry] * W[k, rc, rx, ry];",
               [(1, 3, 11, 9), (17, 3, 3, 3)],
               lambda x, w: np.einsum("bcijxy,kcxy->bkij", windows(x, (3, 3), (2, 3)), w)),
    "transposed_conv2d": (
        "param X = 3, Y = 2; input I[1, 3, 11, 9], W[3, 5, X, Y];"
        "O[b, k, i, j] += I[b, rc, i + rx, j + ry] * W[rc, k, X - rx - 1, Y - ry - 1];",
        [(1, 3, 11, 9), (3, 5, 3, 2)],
        lambda x, w: np.einsum("bcijxy,ckxy->bkij", windows(x, (3, 2), (2, 3)), w[:, :, ::-1, ::-1])),
    "conv3d": ("input I[1, 2, 6, 7, 5], W[3, 2, 2, 3, 2];"
               "O[b, k, d, i, j] += I[b, rc, d + rd, i + rx, j + ry] * W[k, rc, rd, rx, ry];",
               [(1, 2, 6, 7, 5), (3, 2, 2, 3, 2)],
               lambda x, w: np.einsum("bcdijzxy,kczxy->bkdij", windows(x, (2, 3, 2), (2, 3, 4)), w)),
    "transposed_conv3d": (
        "param D = 2, X = 3, Y = 2; input I[1, 2, 6, 7, 5], W[2, 3, D, X, Y];"
        "O[b, k, d, i, j] += I[b, rc, d + rd, i + rx, j + ry] * W[rc, k, D - rd - 1, X - rx - 1, Y - ry - 1];",
        [(1, 2, 6, 7, 5), (2, 3, 2, 3, 2)],
        lambda x, w: np.einsum("bcdijzxy,ckzxy->bkdij", windows(x, (2, 3, 2), (2, 3, 4)), w[:, :, ::-1, ::-1, ::-1])),
    "group_conv": ("input I[1, 2, 3, 8, 8], W[2, 5, 3, 3, 3];"
                   "O[b, g, k, i, j] += I[b, g, rc, i + rx, j + ry] * W[g, k, rc, rx, ry];",
                   [(1, 2, 3, 8, 8), (2, 5, 3, 3, 3)],
                   lambda x, w: np.einsum("bgcijxy,gkcxy->bgkij", windows(x, (3, 3), (3, 4)), w)),
    "depthwise_conv": ("input I[1, 19, 8, 8], W[19, 3, 3]; O[b, c, i, j] += I[b, c, i + rx, j + ry] * W[c, rx, ry];",
                       [(1, 19, 8, 8), (19, 3, 3)],
                       lambda x, w: np.einsum("bcijxy,cxy->bcij", windows(x, (3, 3), (2, 3)), w)),
    "dilated_conv": ("param dx = 2, dy = 3; input I[1, 3, 12, 13], W[5, 3, 3, 3];"
                     "O[b, k, i, j] += I[b, rc, i + rx * dx, j + ry * dy] * W[k, rc, rx, ry];",
                     [(1, 3, 12, 13), (5, 3, 3, 3)],
                     lambda x, w: np.einsum("bcijxy,kcxy->bkij", windows(x, (5, 7), (2, 3))[..., ::2, ::3], w)),
    "conv_layer": ("""
        param H = 9, R = 3, K = 6;   // thesis 2.5.1, example 1
        input Img[1, 4, H, H], Weight[K, 4, R, R], Mean[K], Std[K];
        Padded[n, c, p, q] = (p - R/2 >= 0) & (p - R/2 < H) & (q - R/2 >= 0) & (q - R/2 < H)
                             ? Img[n, c, p - R/2, q - R/2] : 0   where p < H + R/2*2, q < H + R/2*2;
        Conv[n, k, p, q] = sum(Padded[n, c, p + r, q + s] * Weight[k, c, r, s], axis = (c, r, s));
        BN[n, k, p, q] = (Conv[n, k, p, q] - Mean[k]) / (Std[k] + 2.5);
        O[n, k, p, q] = BN[n, k, p, q] >= 0 ? BN[n, k, p, q] : 0;""",
                   [(1, 4, 9, 9), (6, 4, 3, 3), (6,), (6,)],
                   lambda x, w, m, s: np.maximum(0, (np.einsum(
                       "bcijxy,kcxy->bkij", windows(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3)), w)
                       - m[:, None, None]) / (s[:, None, None] + 2.5))),
    "depth_to_space": ("input X[12, 5, 7];"
                       "O[c, p, q] = X[c + (p % 2 * 2 + q % 2) * 3, p / 2, q / 2] where c < 3, p < 10, q < 14;",
                       [(12, 5, 7)],
                       lambda x: x.reshape(2, 2, 3, 5, 7).transpose(2, 3, 0, 4, 1).reshape(3, 10, 14)),
}

ATTENTION = """
# thesis 2.5.1, example 2
input Q[B, H, L, D], K[B, H, L, D], V[B, H, L, D]: f32;
S[b, h, i, l] = sum(Q[b, h, i, k] * K[b, h, l, k], axis = k);
Max[b, h, i] = max(S[b, h, i, l], axis = l);
Sub[b, h, i, l] = S[b, h, i, l] - Max[b, h, i];
Exp[b, h, i, l] = exp(Sub[b, h, i, l]);
Sum[b, h, i] = sum(Exp[b, h, i, l], axis = l);
Div[b, h, i, l] = Exp[b, h, i, l] / Sum[b, h, i];
A[b, h, i, j] = sum(Div[b, h, i, l] * V[b, h, l, j], axis = l);
"""

MLIR = """
func.func @layer(%x: tensor<5x7xf32> {tessera.input = "x"}, %w: tensor<7x9xf32> {tessera.input = "w"})
    -> (tensor<5x9xf32> {tessera.output = "y"}) {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<5x9xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<5x9xf32>) -> tensor<5x9xf32>
  %product = linalg.matmul ins(%x, %w : tensor<5x7xf32>, tensor<7x9xf32>) outs(%fill : tensor<5x9xf32>) -> tensor<5x9xf32>
  %y = tosa.tanh %product : (tensor<5x9xf32>) -> tensor<5x9xf32>
  return %y : tensor<5x9xf32>
}
"""


def compare(got, want):
    check_equal(got.shape, want.shape, "shape")
    error = np.abs(got - want).max() / max(np.abs(want).max(), 1e-30)
    print(f"   relative error {error:.2g}, tolerance {TOLERANCE:g}")
    check(error <= TOLERANCE, f"relative error {error:.3g} is over {TOLERANCE:g}")


def write(service, name, text):
    path = service.scratch(name)
    path.write_text(text)
    return path


def names_of(text):
    """Inputs in the order of their declaration."""
    declared = text[text.index("input ") + len("input "):].split(";")[0]
    return [word.strip().split("[")[0] for word in declared.replace("]", "],").split("],") if "[" in word]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expression(service, name):
    text, shapes, answer = EXPRESSIONS[name]
    random = np.random.default_rng(3)
    arrays = {}
    for tensor, shape in zip([n.lstrip(", ") for n in names_of(text)], shapes):
        arrays[tensor] = random.standard_normal(shape).astype(np.float32)
    if "Std" in arrays:
        arrays["Std"] = np.abs(arrays["Std"])
    symbolic = {n: a.shape for n, a in arrays.items()} if "[M, K]" in text else {}
    compiled = service.compile(write(service, f"{name}.te", text), symbolic)
    outputs, _ = service.run(compiled.artifact, arrays)
    compare(outputs["O"], answer(*arrays.values()))


def test_attention(service):
    random = np.random.default_rng(5)
    arrays = {name: random.standard_normal((2, 3, 17, 8)).astype(np.float32) for name in "QKV"}
    compiled = service.compile(write(service, "attention.te", ATTENTION), {n: a.shape for n, a in arrays.items()})
    outputs, _ = service.run(compiled.artifact, arrays)
    scores = arrays["Q"] @ arrays["K"].swapaxes(-1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    compare(outputs["A"], weights / weights.sum(-1, keepdims=True) @ arrays["V"])


def test_mlir_text(service):
    random = np.random.default_rng(7)
    arrays = {"x": random.standard_normal((5, 7)).astype(np.float32),
              "w": random.standard_normal((7, 9)).astype(np.float32)}
    compiled = service.compile(write(service, "layer.mlir", MLIR))
    outputs, _ = service.run(compiled.artifact, arrays)
    compare(outputs["y"], np.tanh(arrays["x"] @ arrays["w"]))


def test_errors_name_the_place(service):
    for name, text, reason, words in (
            ("a.te", "input A[2];\nB[i] = C[i];", "INVALID_MODEL", "line 2, column 8"),
            ("b.te", "input A[M];\nB[i] = A[i];", "UNBOUND_DIMENSION", "'M'"),
            ("c.mlir", "func.func @f(", "INVALID_MODEL", "line 1"),
            ("d.mlir", "module {}", "INVALID_MODEL", "one function")):
        answer = service.cli("compile", write(service, name, text), "--json", expect=3)
        check_equal(answer.failure["reason"], reason, f"reason for {name}")
        check(words in answer.failure["message"], f"{name}: no '{words}' in {answer.failure['message']}")
