"""`tessera gradient`: its text is a model, whose results are the gradients."""

import json
import pathlib
import re
import subprocess

import numpy as np
import pytest

from checks import check, check_equal
from e2e.tessera_e2e import BIN, ROOT

PAGE = (ROOT / "clients" / "docs" / "design" / "gradient.md").read_text()
BLOCKS = [text for _, text in re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)]
STRIDED = """input X[2, 3, 9, 8], W[4, 3, 3, 2];
Y[n, k, p, q] += X[n, c, 2 * p + r, q + s] * W[k, c, r, s];
"""
SOFTMAX = """input A[5, 7];
M[i] max= A[i, j];
E[i, j] = exp(A[i, j] - M[i]);
S[i] += E[i, j];
P[i, j] = E[i, j] / S[i];
output P;
"""


def gradient(folder, text, *flags, expect=0):
    """The command's output, without any service."""
    path = pathlib.Path(folder) / "model.te"
    path.write_text(text)
    done = subprocess.run([BIN / "tessera", "--server", "127.0.0.1:1", "gradient", path, *flags], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    check_equal(done.returncode, expect, done.stdout + done.stderr)
    return done.stderr if expect else done.stdout


def test_the_examples_of_the_page(tmp_path):
    for text, flags, printed in ((0, (), 1), (2, (), 3), (4, (), 5), (4, ("--guarded",), 6)):
        check_equal(gradient(tmp_path, BLOCKS[text], *flags), BLOCKS[printed], f"example {text} with {flags}")


def test_json_names_gradients_and_shapes(tmp_path):
    answer = json.loads(gradient(tmp_path, STRIDED, "--wrt", "W", "--json"))
    check_equal(answer["gradients"], [{"input": "W", "gradient": "dW", "shape": [4, 3, 3, 2]}], "gradients")
    check_equal(answer["output_gradients"], ["dY"], "gradients of the outputs")
    check(answer["text"].endswith("output dW;\n") and "dX" not in answer["text"], answer["text"])


def test_faults_name_the_place(tmp_path):
    for text, flags, wanted in (("input A[4];\nI[] max= A[i] > 1 ? i : 0;\n", (), "line 2, column 1"),
                                ("input A[16];\nB[i] = A[i * i] where i < 4;\n", (), "line 2, column 14"),
                                ("input A[4], B[4];\nC[i] = A[i] * f32(i32(B[i]));\n", (), "line 2, column 19"),
                                ("input A[4];\nB[i] = A[i];\n", ("--wrt", "X"), "no input 'X'")):
        check(wanted in gradient(tmp_path, text, *flags, expect=3), wanted)


def test_extents_without_a_value_are_bound(tmp_path):
    text = "input A[M, K], B[K, 6];\nC[i, j] += A[i, k] * B[k, j];\n"
    check("write `param M" in gradient(tmp_path, text, expect=3), "an extent without a value")
    bound = gradient(tmp_path, text, "--dim", "M=4", "--dim", "K=5")
    check_equal(bound, BLOCKS[1], "the bound text")
    for dimension in ("M=4,8", "M=1..4"):
        check("accepted is one size" in gradient(tmp_path, text, "--dim", dimension, expect=3), dimension)


def compiled_gradients(service, text, arrays, *flags):
    """The gradients that the compiled text computes from `arrays`, which hold the outputs' gradients, too."""
    path = service.scratch("gradient.te")
    path.write_text(gradient(service.folder, text, *flags))
    read = set(re.findall(r"^input (\w+)", path.read_text(), re.MULTILINE))
    return service.run(service.compile(path).artifact, {name: array for name, array in arrays.items() if name in read})[0]


def floats(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("flags", ((), ("--guarded",)))
def test_a_strided_convolution_equals_loops(service, flags):
    random = np.random.default_rng(5)
    x, w, dy = floats(random, 2, 3, 9, 8), floats(random, 4, 3, 3, 2), floats(random, 2, 4, 4, 7)
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    for p, q, r, s in np.ndindex(4, 7, 3, 2):
        dx[:, :, 2 * p + r, q + s] += np.einsum("nk,kc->nc", dy[:, :, p, q], w[:, :, r, s], dtype=np.float64)
        dw[:, :, r, s] += np.einsum("nk,nc->kc", dy[:, :, p, q], x[:, :, 2 * p + r, q + s], dtype=np.float64)
    found = compiled_gradients(service, STRIDED, {"X": x, "W": w, "dY": dy}, *flags)
    for name, wanted in (("dX", dx), ("dW", dw)):
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-4, err_msg=name)


def test_a_softmax_equals_its_formula(service):
    random = np.random.default_rng(6)
    a, dp = floats(random, 5, 7), floats(random, 5, 7)
    p = np.exp(a - a.max(1, keepdims=True).astype(np.float64))
    p /= p.sum(1, keepdims=True)
    found = compiled_gradients(service, SOFTMAX, {"A": a, "dP": dp})["dA"]
    np.testing.assert_allclose(found, p * (dp - (p * dp).sum(1, keepdims=True)), rtol=1e-4, atol=1e-5)


def test_half_precision_inputs_have_half_precision_gradients(service):
    text = """input A[5, 6], B[6, 7]: f16;
C[i, j] += f32(A[i, k]) * f32(B[k, j]);
D[i, j] = max(C[i, j], 0.5) * tanh(C[i, j]);
"""
    random = np.random.default_rng(8)
    a, b, dd = (floats(random, *shape) for shape in ((5, 6), (6, 7), (5, 7)))
    a, b = a.astype(np.float16), b.astype(np.float16)
    c = a.astype(np.float64) @ b.astype(np.float64)
    dc = dd * ((c > 0.5) * np.tanh(c) + np.maximum(c, 0.5) * (1 - np.tanh(c) ** 2))
    found = compiled_gradients(service, text, {"A": a, "B": b, "dD": dd})
    check_equal(found["dA"].dtype, np.float16, "type of the gradient")
    for name, wanted in (("dA", dc @ b.astype(np.float64).T), ("dB", a.astype(np.float64).T @ dc)):
        np.testing.assert_allclose(found[name], wanted, rtol=2e-3, atol=5e-3, err_msg=name)


# The operators of tables 1.1 and 4.2 of the thesis, in small sizes: text, inputs, and the same in PyTorch.
PADDED = "P[n, c, y, x] = (y >= {0}) & (y < {1}) & (x >= {0}) & (x < {1}) ? X[n, c, y - {0}, x - {0}] : 0 where y < {2}, x < {2};"
OPERATORS = {
    "GMV": ("input A[7, 5], x[5]; y[i] += A[i, k] * x[k];", "y", lambda t, a: a["A"] @ a["x"]),
    "GMM": ("input A[7, 5], B[5, 6]; y[i, j] += A[i, k] * B[k, j];", "y", lambda t, a: a["A"] @ a["B"]),
    "BIL": ("input A[4, 5], B[3, 5, 6], C[4, 6]; y[i, j] += A[i, k] * B[j, k, l] * C[i, l];", "y",
            lambda t, a: t.nn.functional.bilinear(a["A"], a["C"], a["B"])),
    "C1D": ("input X[2, 3, 9], W[4, 3, 3]; P[n, c, l] = (l >= 1) & (l < 10) ? X[n, c, l - 1] : 0 where l < 11;"
            "y[n, k, l] += P[n, c, l + r] * W[k, c, r];", "y",
            lambda t, a: t.nn.functional.conv1d(a["X"], a["W"], padding=1)),
    "T1D": ("input X[2, 3, 5], W[4, 3, 3]; E[n, c, l] = l % 2 == 0 ? X[n, c, l / 2] : 0 where l < 9;"
            "P[n, c, l] = (l >= 1) & (l < 10) ? E[n, c, l - 1] : 0 where l < 11; y[n, k, l] += P[n, c, l + r] * W[k, c, r];",
            "y", lambda t, a: t.nn.functional.conv_transpose1d(a["X"], a["W"].flip(2).transpose(0, 1), stride=2, padding=1)),
    "C2D": ("input X[2, 3, 6, 6], W[4, 3, 3, 3];" + PADDED.format(1, 7, 8)
            + "y[n, k, p, q] += P[n, c, 2 * p + r, 2 * q + s] * W[k, c, r, s];", "y",
            lambda t, a: t.nn.functional.conv2d(a["X"], a["W"], padding=1, stride=2)),
    "T2D": ("input X[2, 3, 4, 4], W[2, 3, 3, 3]; E[n, c, y, x] = (y % 2 == 0) & (x % 2 == 0) ? X[n, c, y / 2, x / 2] : 0"
            " where y < 7, x < 7;" + PADDED.format(1, 8, 9).replace("X[", "E[")
            + "y[n, k, p, q] += P[n, c, p + r, q + s] * W[k, c, r, s];", "y",
            lambda t, a: t.nn.functional.conv_transpose2d(a["X"], a["W"].flip(2, 3).transpose(0, 1), stride=2, padding=1)),
    "C3D": ("input X[1, 2, 5, 5, 5], W[3, 2, 3, 3, 3]; y[n, k, z, p, q] += X[n, c, z + u, p + r, q + s] * W[k, c, u, r, s];",
            "y", lambda t, a: t.nn.functional.conv3d(a["X"], a["W"])),
    "T3D": ("input X[1, 2, 3, 3, 3], W[2, 2, 2, 2, 2]; E[n, c, z, y, x] = (z >= 1) & (z < 4) & (y >= 1) & (y < 4) & (x >= 1)"
            " & (x < 4) ? X[n, c, z - 1, y - 1, x - 1] : 0 where z < 5, y < 5, x < 5;"
            "y[n, k, z, p, q] += E[n, c, z + u, p + r, q + s] * W[k, c, u, r, s];", "y",
            lambda t, a: t.nn.functional.conv_transpose3d(a["X"], a["W"].flip(2, 3, 4).transpose(0, 1))),
    "GRP": ("input X[2, 2, 3, 6, 6], W[2, 4, 3, 3, 3]; y[n, g, k, p, q] += X[n, g, c, p + r, q + s] * W[g, k, c, r, s];", "y",
            lambda t, a: t.nn.functional.conv2d(a["X"].flatten(1, 2), a["W"].flatten(0, 1), groups=2).unflatten(1, (2, 4))),
    "DEP": ("input X[2, 5, 6, 6], W[5, 3, 3]; y[n, c, p, q] += X[n, c, p + r, q + s] * W[c, r, s];", "y",
            lambda t, a: t.nn.functional.conv2d(a["X"], a["W"].unsqueeze(1), groups=5)),
    "DIL": ("input X[2, 3, 7, 7], W[4, 3, 3, 3];" + PADDED.format(2, 9, 11)
            + "y[n, k, p, q] += P[n, c, p + 2 * r, q + 2 * s] * W[k, c, r, s];", "y",
            lambda t, a: t.nn.functional.conv2d(a["X"], a["W"], padding=2, dilation=2)),
    "BCM": ("input X[4, 3, 8], W[2, 3, 8]; y[n, p, i] += X[n, q, j] * W[p, q, (i - j + 8) % 8] where i < 8;", "y",
            lambda t, a: t.einsum("nqj,pqij->npi", a["X"], a["W"][:, :, (t.arange(8)[:, None] - t.arange(8)) % 8])),
    "SHO": ("input X[1, 9, 5, 5];" + PADDED.format(1, 6, 7) + "y[n, c, p, q] = P[n, c, p + c % 3, q + c / 3 % 3]"
            " where p < 5, q < 5;", "y",
            lambda t, a: t.stack([t.nn.functional.pad(a["X"], (1, 1, 1, 1))[:, c, c % 3:c % 3 + 5, c // 3 % 3:c // 3 % 3 + 5]
                                  for c in range(9)], 1)),
    "depth to space": ("input X[12, 3, 2]; y[c, p, q] = X[c * 4 + p % 2 * 2 + q % 2, p / 2, q / 2] where c < 3, p < 6, q < 4;", "y",
                       lambda t, a: t.nn.functional.pixel_shuffle(a["X"], 2)),
    "max pooling": ("input X[2, 7, 7]; y[c, p, q] max= X[c, 2 * p + r, 2 * q + s] where r < 3, s < 3;", "y",
                    lambda t, a: t.nn.functional.max_pool2d(a["X"], 3, 2)),
    "norm": ("input X[4, 9], G[9]; S[i] += X[i, j] * X[i, j]; y[i, j] = X[i, j] * rsqrt(S[i] / 9 + 0.00001) * G[j];", "y",
             lambda t, a: a["X"] * (a["X"].pow(2).mean(1, keepdim=True) + 1e-5).rsqrt() * a["G"]),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_equal_pytorch(service, name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    text, output, forward = OPERATORS[name]
    random = np.random.default_rng(len(name))
    shapes = {tensor: tuple(map(int, extents.split(","))) for tensor, extents in
              re.findall(r"(\w+)\[([\d, ]+)\]", text[:text.index(";")])}
    arrays = {tensor: floats(random, *shape) for tensor, shape in shapes.items()}
    tensors = {tensor: torch.tensor(array, dtype=torch.float64, requires_grad=True) for tensor, array in arrays.items()}
    result = forward(torch, tensors)
    arrays[f"d{output}"] = floats(random, *result.shape)
    result.backward(torch.tensor(arrays[f"d{output}"], dtype=torch.float64))
    found = compiled_gradients(service, text, arrays)
    for tensor, wanted in tensors.items():
        np.testing.assert_allclose(found[f"d{tensor}"], wanted.grad.numpy(), rtol=1e-3, atol=1e-4, err_msg=f"{name}: d{tensor}")
