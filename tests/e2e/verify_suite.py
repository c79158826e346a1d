"""`tessera compile --verify`: each step of the compiler and each kernel is compared with an interpreter."""

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import model_inputs, model_path, shapes_of
from models import catalog

LIMIT_S = 400
# All kinds of rewrites: Winograd, layouts, merged products, slices, recurrences, channel shuffles, gathers.
MODELS = ("mlp", "squeezenet1_1:size=48", *(catalog.REDUCED[name] for name in
          ("shufflenet_v1", "vit_b16", "gpt2", "mi_lstm")))
RESNET = "resnet18:size=64"


def verify(service, model, *arguments):
    """The finished job, and the verified steps."""
    printed = service.cli("compile", model, "--json", "--verify", "-o", service.scratch("model.tsra"), *arguments,
                          timeout=LIMIT_S).json
    return printed["job"], printed["verified"]


def steps_are_right(service, model, shapes):
    flags = [word for name, shape in shapes.items() for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]
    job, steps = verify(service, model, "--target", "host", *flags)
    names = [step["step"] for step in steps]
    check_equal(names[0], "import", "the first step")
    check("plan" in names, f"the plan was not looked at: {names}")
    kernels = [step for step in steps if step["step"] == "kernel"]
    check_equal(len(kernels), job["compile_result"]["workloads"], "kernels")
    check_equal([step for step in steps if step["skipped"]], [], "skipped")
    for step in steps:
        check(float(step["share"]) <= 1, step)
        check(int(step["elements"]) > 0, step)
    undecided = sum(int(step["undecided"]) for step in steps)
    elements = sum(int(step["elements"]) for step in steps)
    check(undecided <= elements / 100, f"rounding decides {undecided} of {elements} elements")
    return steps


@pytest.mark.parametrize("spec", MODELS)
def test_model_is_right(service, spec):
    steps_are_right(service, model_path(spec), shapes_of(model_inputs(spec, 1)))


def test_resnet_goes_through_every_stage(service):
    steps = steps_are_right(service, model_path(RESNET), {"x": (1, 3, 64, 64)})
    names = {step["step"] for step in steps}
    for stage in ("generalize-named-ops", "fold-constants", "fuse-elementwise", "fold-scales", "assign-layouts", "plan",
                  "normalize", "bufferize", "kernel"):
        check(stage in names, f"{stage} is not among {sorted(names)}")
    check(any(float(step["largest_error"]) > 0 for step in steps if step["step"] == "kernel"),
          "kernels in single precision cannot all be exact")


def test_verified_is_another_request(service):
    flags = ("--target", "host", "--shape", "x=2x64")
    model = model_path("tiny")
    shapes = shapes_of(model_inputs("tiny", 1))
    flags = ["--target", "host", *(word for name, shape in shapes.items()
                                   for word in ("--shape", f"{name}={'x'.join(map(str, shape))}"))]
    plain = service.cli("compile", model, "--json", "-o", service.scratch("tiny.tsra"), *flags).json["job"]
    check(not plain["cached"], "nothing was compiled before")
    first, steps = verify(service, model, *flags)
    check(not first["cached"], "a compilation that was not verified is no answer")
    again, same = verify(service, model, *flags)
    check(again["cached"], "verified before")
    check_equal(same, steps, "what was verified comes with the artifact")
    text = service.cli("compile", model, "--verify", "-o", service.scratch("tiny.tsra"), *flags).out
    check("verified" in text and "kernels" in text, text)


def test_what_is_skipped_is_named(service):
    shape = ("--shape", "x=1x3x64x64")
    _, steps = verify(service, model_path(RESNET), "--target", "neoverse-n1", *shape)
    kernels = [step for step in steps if step["step"] == "kernel"]
    check(kernels and all("another architecture" in step["skipped"] for step in kernels), kernels[:1])
    check(all(not step["skipped"] for step in steps if step["step"] != "kernel"), "the rest needs no such host")
    large = "matmul:m=1999,k=1999,n=1999"
    flags = [word for name, shape in shapes_of(model_inputs(large, 1)).items()
             for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]
    text = service.cli("compile", model_path(large), "--verify", "--target", "host", *flags, "-o",
                       service.scratch("large.tsra"), expect=None, timeout=LIMIT_S)
    check_equal(text.code, 0, text)
    check("not verified: import" in text.out and "operations" in text.out, text)
