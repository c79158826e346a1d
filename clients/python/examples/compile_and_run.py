"""Compiles a tensor expression on a local service and runs it in this process.

   python compile_and_run.py [DATA_FOLDER]
"""

import sys

import numpy as np

import tessera

GEMM = b"input A[M, K], B[K, N]: f32;  C[i, j] += A[i, k] * B[k, j];"


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    with tessera.local(folder) as client:
        compilation = client.compile(GEMM, format="te", name="gemm", shapes={"A": (64, 128), "B": (128, 31)},
                                     on_progress=lambda progress: print("  ", progress))
        model = compilation.artifact.load(threads=2)
        print(compilation.explain())

    # The service has ended; the model can still be called.
    random = np.random.default_rng(0)
    a = random.standard_normal((64, 128), dtype=np.float32)
    b = random.standard_normal((128, 31), dtype=np.float32)
    c = model(A=a, B=b)["C"]
    print(model)
    print(f"largest difference from NumPy: {np.abs(c - a @ b).max():.1e}")
    assert np.allclose(c, a @ b, atol=1e-4)


if __name__ == "__main__":
    main()
