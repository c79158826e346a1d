"""Compares a catalog model, compiled by a service and run from the artifact, with ONNX Runtime."""

from e2e.tessera_e2e import model_inputs, model_path, shapes_of, target_name
from oracle.oracle import difference
from checks import check, check_equal

TOLERANCE = 1e-4  # of the output's largest magnitude


def matches(service, oracle, spec, batch, timeout=300, target="host", arguments=(), flags=(),
            tolerance=TOLERANCE):
    """All outputs of the model at this batch are within `tolerance` of ONNX Runtime's. `arguments` are those of run,
    `flags` those of compile."""
    arrays = model_inputs(spec, batch)
    session = oracle.load(model_path(spec))
    expected, _ = session.run(arrays)
    session.close()
    compiled = service.compile(model_path(spec), shapes_of(arrays), *flags, target=target, timeout=timeout)
    outputs, _ = service.run(compiled.artifact, arrays, *arguments)
    compiled.artifact.unlink()
    check_equal(sorted(outputs), sorted(expected), "outputs")
    for name, wanted in expected.items():
        absolute, relative = difference(outputs[name], wanted)
        print(f"   {spec} batch {batch} for {target_name(target)} {name}: max error {absolute:.3g}, relative {relative:.3g}, tolerance {tolerance:g}")
        check(relative <= tolerance, f"{name} is off by {relative:.3g} of its largest magnitude, tolerance {tolerance:g}")
