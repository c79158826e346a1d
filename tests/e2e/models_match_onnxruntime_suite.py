"""Whole models, compiled by the service and run from the artifact, compared with ONNX Runtime at batch 1 and 3.

The small ones at batch 3 rotate over the targets that this machine can run, with guarded memory."""

import pytest

from checks import check
from e2e.matching import matches
from e2e.tessera_e2e import model_inputs, model_path, shapes_of, rotating_target
from models import catalog
from oracle.oracle import difference

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


@pytest.mark.parametrize("spec", MODELS)
def test_batch1(service, oracle, spec):
    matches(service, oracle, spec, 1)


@pytest.mark.parametrize("spec", [spec for spec in MODELS if spec in LARGE])
def test_batch3(service, oracle, spec):
    matches(service, oracle, spec, 3)


SMALL = [spec for spec in MODELS if spec not in LARGE]


@pytest.mark.parametrize("spec", SMALL)
def test_batch3_guarded(service, oracle, spec):
    matches(service, oracle, spec, 3, target=rotating_target(SMALL.index(spec)), arguments=("--guard", "--threads", "2"))


@pytest.mark.parametrize("spec", ("resnet18", "bert_tiny", "mobilenet_v1"))
def test_threads_agree(service, spec):
    threads_agree(service, spec)
