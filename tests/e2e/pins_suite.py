"""Decisions as text: a plan written by `explain --plan-out` is replayed byte for byte, edited, and pinned in part."""

import hashlib
import itertools
import re
import subprocess
import tempfile

import pytest

from checks import check, check_equal
from e2e.matching import matches
from e2e.tessera_e2e import BIN, model_inputs, model_path, shapes_of
from models import catalog

RESNET = "resnet18:size=64"
# Winograd, layouts, slices of attention and of images, recurrences, gathers; for chips other than this host.
REPLAYED = (("mlp", "host"), (RESNET, "cascadelake"), ("bert_tiny", "host"), ("bert_tiny", "neoverse-n1"),
            *((catalog.REDUCED[name], target) for name, target in
              (("shufflenet_v1", "host"), ("vit_b16", "cascadelake"), ("gpt2", "host"), ("inception_v1", "neoverse-n1"))))
# The model zoo at reduced size, each model for one chip: trees do not depend on the host.
ZOO = tuple(zip((*catalog.REDUCED.values(), RESNET, "bert_tiny", "mlp"),
                itertools.cycle(("cascadelake", "znver4", "neoverse-n1", "haswell"))))
FIELDS = 6  # changed fields of each tree
EXIT_INVALID = 3


def shape_flags(spec, batch=1):
    return [word for name, shape in shapes_of(model_inputs(spec, batch)).items()
            for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]


def plan_of(service, spec, target, *flags):
    """The text of all decisions, and the explanation with it."""
    path = service.scratch("plan.txt")
    explained = service.cli("explain", model_path(spec), "--target", target, "--json", "--plan-out", path,
                            *(flags or shape_flags(spec))).json
    return path.read_text(), explained


def written(service, text):
    path = service.scratch("pins.txt")
    path.write_text(text)
    return path


def compiled(service, spec, target, *arguments):
    return service.compile(model_path(spec), shapes_of(model_inputs(spec, 1)), *arguments, target=target)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refused(service, spec, target, *arguments):
    """The failure of a compilation that must be rejected before anything is built."""
    answer = service.cli("compile", model_path(spec), "--target", target, "--json", "-o", service.scratch("no.tsra"),
                         *shape_flags(spec), *arguments, expect=EXIT_INVALID)
    failure = answer.failure
    check_equal(failure["reason"], "INVALID_SCHEDULE", "reason")
    phases = [phase["phase"] for phase in answer.json.get("job", {}).get("phases", [])]
    check("build" not in phases, f"something was built before the refusal: {phases}")
    return failure["message"]


def choices_of(text, kind):
    return re.findall(rf'^choice {kind} "((?:[^"\\]|\\.)*)" "([^"]*)"', text, re.M)


@pytest.mark.parametrize("spec, target", REPLAYED)
def test_replay_is_exact(service, spec, target):
    text, _ = plan_of(service, spec, target)
    first = compiled(service, spec, target)
    for flag in ("--plan", "--pin"):
        again = compiled(service, spec, target, flag, written(service, text))
        check(not again.job["cached"], f"{flag} is another request")
        check_equal(digest(again.artifact), digest(first.artifact), f"artifact of {flag}")
    # The order of lines does not matter.
    blocks = re.split(r"^(?=choice |workload )", text, flags=re.M)
    turned = compiled(service, spec, target, "--plan", written(service, "".join(reversed(blocks))))
    check_equal(digest(turned.artifact), digest(first.artifact), "artifact of the plan in another order")


def every_field_counts(spec, target, *flags):
    """For all trees of a model: printing and parsing gives the same objects, and no field is ignored."""
    with tempfile.TemporaryDirectory() as folder:
        model = catalog.write(spec, folder, batch=1)["model"]
        told = subprocess.run([BIN / "tree_fields", "--tries", str(FIELDS), *flags, target, model], capture_output=True, text=True)
    check_equal((told.returncode, told.stderr), (0, ""), told.stdout)
    counts = re.search(r"(\d+) workloads, (\d+) changed fields followed, (\d+) refused", told.stdout)
    print(f"   {counts.group()}")
    check(int(counts.group(2)) > 0 and int(counts.group(3)) > 0, told.stdout)


def test_variants_replay(service):
    flags = ("--dim", "N=1,3")
    text, _ = plan_of(service, "tiny", "host", *flags)
    check(text.count("workload ") >= 2, text)
    outputs = []
    for more in ((), ("--plan", written(service, text))):
        path = service.scratch("tiny.tsra")
        service.cli("compile", model_path("tiny"), "--target", "host", "-o", path, *flags, *more)
        outputs.append(digest(path))
    check_equal(outputs[0], outputs[1], "artifact with two variants")


def test_algorithm_is_pinned(service, oracle):
    text, _ = plan_of(service, RESNET, "host")
    algorithms = choices_of(text, "algorithm")
    names = {choice for _, choice in algorithms}
    check(any(name.startswith("winograd") for name in names), f"no convolution is rewritten: {algorithms}")
    place, before = next(pair for pair in algorithms if pair[1].startswith("winograd"))
    others = ("direct", *({"winograd-2x2", "winograd-4x4"} - {before}))
    for other in others:
        pins = written(service, f'choice algorithm "{place}" {other}\n')
        matches(service, oracle, RESNET, 1, flags=("--pin", pins))
        explained = service.cli("explain", model_path(RESNET), "--target", "host", "--json", "--pin", pins,
                                *shape_flags(RESNET)).json
        chosen = {choice["place"]: choice["choice"] for choice in explained["plan"]["report"]["choices"]
                  if choice["kind"] == "algorithm"}
        check_equal(chosen.pop(place), other, "the pinned choice")
        check_equal(chosen, {at: choice for at, choice in algorithms if at != place}, "all others")


def test_layout_is_pinned(service, oracle):
    text, _ = plan_of(service, RESNET, "host")
    place, before = choices_of(text, "layout")[3]
    plain = " ".join(["NCHW"] * len(before.split()))
    check(before != plain, f"{place} has {before}: nothing to pin")
    pins = written(service, f'choice layout "{place}" "{plain}"\n')
    matches(service, oracle, RESNET, 1, flags=("--pin", pins))
    now, _ = plan_of(service, RESNET, "host", "--pin", pins, *shape_flags(RESNET))
    check_equal(dict(choices_of(now, "layout"))[place], plain, "the pinned layout")
    message = refused(service, RESNET, "host", "--pin", written(service, f'choice layout "{place}" "NCHW CHWN"\n'))
    check("has no layout CHWN" in message and "NCHW" in message, message)


def test_fusion_is_pinned(service, oracle):
    """Chains and regions: fused ones are separated and separate ones fused, or the reason against it is reported."""
    done = set()
    for spec in ("bert_tiny", catalog.REDUCED["vit_b16"], catalog.REDUCED["gpt2"], RESNET):
        text, _ = plan_of(service, spec, "host")
        for kind in ("fuse-chain", "tile-region"):
            for wanted, before in (("apart", "fused"), ("fused", "apart")):
                place = next((at for at, choice in choices_of(text, kind) if choice == before), None)
                if place is None:
                    continue
                pins = written(service, f'choice {kind} "{place}" {wanted}\n')
                answer = service.cli("explain", model_path(spec), "--target", "host", "--json", "--pin", pins,
                                     *shape_flags(spec), expect=None)
                if answer.code == EXIT_INVALID:
                    check(place in answer.failure["message"], answer)
                    continue
                check_equal(answer.code, 0, answer)
                matches(service, oracle, spec, 1, flags=("--pin", pins))
                done.add((kind, wanted))
    check({wanted for _, wanted in done} == {"apart", "fused"}, f"tried in both directions: {done}")


def test_tree_is_pinned(service, oracle):
    """Trees with other vectors, tiles, steps or prefetches are applied as printed, or rejected with the path of the field."""
    spec = "gemm:m=61,k=67,n=131"
    text, _ = plan_of(service, spec, "host")
    edits = {re.sub(r"vectors (\d+)\n", lambda bits: f"vectors {int(bits.group(1)) // 2}\n", text, count=1),
             re.sub(r" fetch [^\n]*", "", text, count=1), re.sub(r" ahead \d+", " ahead 3", text, count=1)}
    for dimension, size in re.findall(r"(i\d):(\d+)", text):
        for other in (int(size) * 2, int(size) // 2, int(size) - 1):
            edits.add(text.replace(f"{dimension}:{size}", f"{dimension}:{other}")
                      .replace(f"{dimension}:Tp/{size}", f"{dimension}:Tp/{other}")
                      .replace(f"{dimension}:Sp(core)/{size}", f"{dimension}:Sp(core)/{other}"))
    followed = 0
    for edit in edits - {text}:
        pins = written(service, edit)
        answer = service.cli("explain", model_path(spec), "--target", "host", "--json", "--pin", pins,
                             *shape_flags(spec), expect=None)
        if answer.code == EXIT_INVALID:
            check(re.search(r"schedule(, tile [\d.]+)?: |pins, line \d+|schedule, line \d+", answer.failure["message"]), answer)
            continue
        check_equal(answer.code, 0, answer)
        matches(service, oracle, spec, 1, flags=("--pin", pins))
        now, _ = plan_of(service, spec, "host", "--pin", pins, *shape_flags(spec))
        check_equal(now, edit, "the plan is the pinned one")
        followed += 1
    print(f"   {followed} of {len(edits - {text})} edited trees were followed")
    check(followed >= 2, f"{followed} of {len(edits)} edits of\n{text}")


def test_what_cannot_hold_is_refused(service):
    text, explained = plan_of(service, RESNET, "host")
    workload = next(each for each in explained["plan"]["workloads"] if "conv" in each["summary"])
    loop = re.search(rf"workload {workload['hash']}.*?\n(.*?)(?=^workload|\Z)", text, re.S | re.M).group(1)
    broken = re.sub(r"i(\d):Tp/(\d+)", lambda found: f"i{found.group(1)}:Tp/{int(found.group(2)) * 7919}", loop, count=1)
    check(broken != loop, loop)
    message = refused(service, RESNET, "host", "--pin", written(service, f"workload {workload['hash']}\n{broken}"))
    check(workload["summary"] in message and re.search(r"schedule, tile [\d.]+: step of i\d", message), message)
    message = refused(service, RESNET, "host", "--pin", written(service, f"workload {'0' * 64}\n  vectors 128\n"))
    check("0" * 64 in message and "no such workload" in message, message)
    message = refused(service, RESNET, "host", "--pin", written(service, 'choice algorithm "nobody" direct\n'))
    check('"nobody"' in message and "no choice of this kind" in message, message)
    place = choices_of(text, "algorithm")[0][0]
    message = refused(service, RESNET, "host", "--pin", written(service, f'choice algorithm "{place}" fft\n'))
    check("no such algorithm" in message, message)
    message = refused(service, RESNET, "host", "--pin", written(service, "# a plan\nworkload 12\n"))
    check("line 2, column 10" in message, message)


def test_whole_plans_leave_nothing_open(service):
    text, _ = plan_of(service, RESNET, "host")
    lines = text.splitlines(keepends=True)
    choice = next(index for index, line in enumerate(lines) if line.startswith("choice algorithm"))
    message = refused(service, RESNET, "host", "--plan", written(service, "".join(lines[:choice] + lines[choice + 1:])))
    check("does not say algorithm" in message, message)
    last = text.rindex("workload ")
    message = refused(service, RESNET, "host", "--plan", written(service, text[:last]))
    check("no schedule" in message, message)
    other = refused(service, "mlp", "host", "--plan", written(service, text))
    check("no choice of this kind" in other or "no such workload" in other or "no schedule" in other, other)


def test_pins_are_part_of_the_key(service):
    text, _ = plan_of(service, "tiny", "host")
    compiled(service, "tiny", "host")
    pins = written(service, text)
    explain = ("explain", "--key", model_path("tiny"), "--target", "host", "--json", *shape_flags("tiny"))
    check(service.cli(*explain).json["hit"], "compiled before")
    miss = service.cli(*explain, "--pin", pins).json
    check_equal((miss["hit"], miss["differing"]), (False, ["pins"]), "with pins")
    compiled(service, "tiny", "host", "--pin", pins)
    check(service.cli(*explain, "--pin", pins).json["hit"], "compiled with pins")
    miss = service.cli(*explain, "--plan", pins).json
    check_equal((miss["hit"], miss["differing"]), (False, ["pins"]), "as a whole plan")


@pytest.mark.parametrize("spec, target", ZOO)
def test_every_field_counts(spec, target):
    every_field_counts(spec, target)


def test_every_field_counts_in_bf16():
    every_field_counts("bert_tiny", "sapphirerapids", "--bf16")
