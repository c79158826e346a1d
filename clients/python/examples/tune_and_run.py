"""Tunes a model while running it: the running artifact is replaced whenever faster schedules are found.

   tune_and_run.py DATA_FOLDER
"""

import sys

import numpy as np

import tessera

MODEL = b"""input A[M, K], B[K, N], bias[N]: f32;
P[i, j] += A[i, k] * B[k, j];
C[i, j] = max(P[i, j] + bias[j], 0);"""


def main() -> None:
    random = np.random.default_rng(0)
    a, b, bias = (random.standard_normal(shape, dtype=np.float32) for shape in ((31, 257), (257, 129), (129,)))
    with tessera.local(sys.argv[1]) as client:
        tuning = client.tune(MODEL, format="te", name="dense", shapes={"A": a.shape, "B": b.shape, "bias": bias.shape},
                             trials=6, budget=60)
        with tuning.follow() as model:
            c, runs = model(A=a, B=b, bias=bias)["C"], 1
            while not tuning.done():
                c, runs = model(A=a, B=b, bias=bias)["C"], runs + 1
            print(f"{runs} runs while {sum(tuning.found['trials'])} schedules were tried; version {model.version.number} runs")
        print(tuning.versions())
        assert np.allclose(c, np.maximum(a @ b + bias, 0), atol=1e-3)


if __name__ == "__main__":
    main()
