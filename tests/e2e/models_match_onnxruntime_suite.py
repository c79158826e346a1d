#!/usr/bin/python3
"""Whole models, compiled by the service and run from the artifact, compared with ONNX Runtime at batch 1 and 3.

The small ones at batch 3 rotate over the targets that this machine can run, with guarded memory."""
# suite: timeout=1500

import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.matching import matches
from e2e.tessera_e2e import Service, model_inputs, model_path, shapes_of, target_in_turn
from models import catalog
from oracle.oracle import Oracle, difference
from suite import check, run

MODELS = ("mlp", "squeezenet1_1", "mobilenet_v1", "resnet18", "resnet50", "resnet20", "bert_tiny", "bert_tiny_shapes", "bert_base", "decoder",
          "conv:h=17,w=19,stride=2,group=2", "conv:kh=5,kw=1,pad=2,dilation=2,bias=0", "gemm:m=33,k=65,n=17,transb=1",
          "matmul:m=7,k=33,n=65", *catalog.REDUCED.values(), catalog.REDUCED["gpt2"] + ",norm_operator=1",
          catalog.REDUCED["gpt2"] + ",dynamic_shapes=1", catalog.REDUCED["vit_b16"] + ",norm_operator=1",
          catalog.REDUCED["mi_lstm"] + ",unrolled=1")
LARGE = ("squeezenet1_1", "mobilenet_v1", "resnet18", "resnet50", "bert_base")


def threads_agree(service, spec):
    """Two threads give the same bits as one: ranges of a grid are disjoint, and no reduction is split."""
    arrays = model_inputs(spec, 3)
    compiled = service.compile(model_path(spec), shapes_of(arrays), timeout=300)
    one, _ = service.run(compiled.artifact, arrays, "--threads", "1")
    two, _ = service.run(compiled.artifact, arrays, "--threads", "2", "--repeat", "3")
    for name, wanted in one.items():
        _, relative = difference(two[name], wanted)
        check(relative <= 1e-6, f"{name}: two threads differ from one by {relative:.3g}")


def main():
    specs = sys.argv[1:] or MODELS
    with Oracle() as oracle, Service(workers=2) as service:
        cases = [(f"{spec}/batch1", lambda s=spec: matches(service, oracle, s, 1)) for spec in specs]
        cases += [(f"{spec}/batch3", lambda s=spec: matches(service, oracle, s, 3)) for spec in specs if spec in LARGE]
        cases += [(f"{spec}/batch3", lambda s=spec, turn=turn: matches(
            service, oracle, s, 3, target=target_in_turn(turn), arguments=("--guard", "--threads", "2")))
                  for turn, spec in enumerate(each for each in specs if each not in LARGE)]
        cases += [(f"threads_agree/{spec}", lambda s=spec: threads_agree(service, s))
                  for spec in ("resnet18", "bert_tiny", "mobilenet_v1") if spec in specs]
        return run("models_match_onnxruntime", cases)


if __name__ == "__main__":
    sys.exit(main())
