"""Maps a seed to a case: the operators' versions, its length and its size depend on the seed alone."""

import os
import pathlib
import subprocess

from fuzz.cases.case import Case
from fuzz.cases.table import operators

ROOT = pathlib.Path(__file__).resolve().parents[3]
BATCH = 64  # consecutive seeds that share a model, hence an operator set
OPSETS = (17, 18, 13, 17, 21, 11, 17, 20, 9, 16)
GRAPHS = 8  # graphs in one model
GRAPH_OPSETS = (17, 18, 13, 20)
LARGE_EVERY = 8  # batches


# Drawn this many times as often in graphs: operators that are frequent in models, and operators that keep the size.
OFTEN = {"Conv": 8, "ConvTranspose": 4, "MatMul": 4, "Gemm": 4, "MaxPool": 2, "AveragePool": 3, "Softmax": 3,
         "LayerNormalization": 3, "BatchNormalization": 4, "InstanceNormalization": 2, "Add": 6, "Mul": 6, "Sub": 3, "Relu": 4,
         "Sigmoid": 2, "Tanh": 2, "Concat": 6, "Transpose": 6, "Reshape": 6, "Slice": 4, "Split": 3, "Pad": 4, "Where": 2,
         "Resize": 2, "Expand": 2, "Loop": 2, "If": 2, "Scan": 2, "QuantizeLinear": 3, "DequantizeLinear": 4, "QLinearConv": 3,
         "Einsum": 2, "LSTM": 2, "GRU": 2, "CumSum": 2, "Tile": 2, "Gelu": 2, "Erf": 2, "Cast": 2}


def often():
    return [spec for spec in operators() for _ in range(OFTEN.get(spec.name, 1))]


def pair(seed, steps=None):
    """Two consecutive operators, three in every fourth case."""
    batch = seed // BATCH
    largest = 30_000 if batch % LARGE_EVERY == LARGE_EVERY - 1 else 2_000
    wanted = 3 if seed % 4 == 3 else 2
    return Case(seed, operators(), wanted if steps is None else min(steps, wanted), OPSETS[batch % len(OPSETS)], largest,
                f"p{seed}_")


def graph(seed, steps=None):
    """Between 6 and 24 operators."""
    batch = seed // GRAPHS
    largest = 20_000 if batch % LARGE_EVERY == LARGE_EVERY - 1 else 3_000
    wanted = 6 + seed * 7919 % 19
    return Case(-1 - seed, often(), wanted if steps is None else min(steps, wanted),
                GRAPH_OPSETS[batch % len(GRAPH_OPSETS)], largest, f"g{seed}_")


KINDS = {"pairs": (pair, BATCH), "graphs": (graph, GRAPHS)}


def batches(kind, first, count):
    """(number, cases not yet completed) of the seeds [first, first + count), split at model boundaries."""
    make, size = KINDS[kind]
    for number in range(first // size, (first + count - 1) // size + 1):
        yield number, [make(seed) for seed in range(max(first, number * size), min(first + count, (number + 1) * size))]


def models(kind, first, count):
    """`count` batches, starting with the one that contains seed `first`."""
    size = KINDS[kind][1]
    return batches(kind, first // size * size, count * size)


def seed_of(kind, case):
    """The name of the case in campaign.py."""
    return case.seed if kind == "pairs" else -1 - case.seed


WITHOUT_COMMIT = 4711


def rotating_seed(root=ROOT):
    """(first seed, its origin, whether findings fail): from TESSERA_FUZZ_SEED, else from the commit in `root`."""
    if "TESSERA_FUZZ_SEED" in os.environ:
        return int(os.environ["TESSERA_FUZZ_SEED"]), "given", True
    try:
        told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return WITHOUT_COMMIT, "there is no commit to take it from", False
    commit = told.stdout.strip()
    return int(commit[:8], 16), f"of commit {commit[:12]}", False
