#!/usr/bin/python3
"""Published networks at full size, compiled by the service, compared with ONNX Runtime at batch 1 and 3.

Their reduced variants are in models_match_onnxruntime: same operators, same topology, smaller extents.
"""
# suite: large timeout=5400

import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.matching import matches
from e2e.tessera_e2e import Service
from models import catalog
from oracle.oracle import Oracle
from suite import run


def main():
    specs = sys.argv[1:] or list(catalog.REDUCED)
    with Oracle() as oracle, Service(workers=2) as service:
        return run("large_models_match_onnxruntime",
                   [(f"{spec}/batch{batch}", lambda s=spec, b=batch: matches(service, oracle, s, b, timeout=1200))
                    for spec in specs for batch in (1, 3)])


if __name__ == "__main__":
    sys.exit(main())
