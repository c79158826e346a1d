"""Commands that analyse a model without compiling it: `tessera ops`, `check` and `explain`, with real processes."""

import json
import re
import signal
import xml.etree.ElementTree as ElementTree

import onnx
from onnx import TensorProto, helper

from checks import check, check_equal
from e2e.tessera_e2e import Service, model_path, wait_until
from models import hostile_models

# Reasons that a check may give for a model that compilation rejects with this reason.
EXIT_CODES = {"INVALID_MODEL": 3, "UNBOUND_DIMENSION": 3, "LIMIT_EXCEEDED": 3, "UNSUPPORTED_OPERATOR": 4,
              "MISSING_BLOB": 5}


def float_value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def save(service, name, nodes, inputs, outputs, opset=13):
    graph = helper.make_graph(nodes, name, inputs, outputs)
    path = service.scratch(f"{name}.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), path)
    return path


# tessera ops

def test_operators_have_versions(service):
    table = service.cli("ops", "--json").json
    check_equal(table["next_page_token"], "", "token of the whole table")
    found = {(op["name"], op["since_version"]): op for op in table["operators"]}
    check(len(found) == len(table["operators"]) > 150, f"{len(table['operators'])} operators")
    conv = found["Conv", 1]
    check_equal((conv["family"], conv["min_inputs"], conv["max_inputs"]), ("convolution", 2, 3), "Conv")
    check(conv["until_version"] >= 22, f"Conv until {conv['until_version']}")
    text = service.cli("ops").out
    check(re.search(r"^Conv\s+1 to \d+\s+2 to 3\s+convolution\s+float32", text, re.M), text[:500])


def test_operators_filter_and_page(service):
    conv = service.cli("ops", "--json", "--filter", 'name = "Conv*" AND family = convolution',
                       "--order-by", "name desc").json["operators"]
    names = [op["name"] for op in conv]
    check(names == sorted(names, reverse=True) and "Conv" in names and "ConvTranspose" in names, str(names))
    whole = [op["name"] for op in service.cli("ops", "--json").json["operators"]]
    seen, token = [], ""
    while True:
        page = service.cli("ops", "--json", "--limit", "60", *(["--page-token", token] if token else [])).json
        seen += [op["name"] for op in page["operators"]]
        token = page["next_page_token"]
        if not token:
            break
    check_equal(seen, whole, "pages joined")
    service.cli("ops", "--filter", "speed > 3", expect=3)


def test_operators_need_a_worker():
    with Service(workers=0) as idle:
        answer = idle.cli("ops", expect=8)
        check("tessera-worker" in answer.err, f"the error does not say what to do: {answer}")


# tessera check

def test_a_check_finds_every_bad_node(service):
    model = save(service, "bad", [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="shapes_do_not_fit"),
        helper.make_node("Relu", ["m"], ["r"], name="only_depends"),
        helper.make_node("Frobnicate", ["x"], ["f"], name="unknown"),
        helper.make_node("Softmax", ["x"], ["s"], name="no_such_axis", axis=5),
        helper.make_node("Add", ["s", "x"], ["y"], name="depends_as_well"),
        helper.make_node("Relu", ["x"], ["z"], name="good"),
    ], [float_value("x", [2, 3]), float_value("w", [5, 7])], [float_value(n, None) for n in ("r", "f", "y", "z")])
    report = service.cli("check", model, "--json", expect=3).json
    check_equal([problem["node"] for problem in report["problems"]], ["shapes_do_not_fit", "unknown", "no_such_axis"],
                "nodes with problems")
    check_equal(report["unchecked_nodes"], 2, "nodes left out")
    uses = {use["name"]: (use["count"], use["supported"]) for use in report["operators"]}
    check_equal(uses["Relu"], (2, True), "uses of Relu")
    check_equal(uses["Frobnicate"], (1, False), "uses of Frobnicate")
    check_equal(report["opsets"], [{"domain": "", "version": "13"}], "operator sets")
    text = service.cli("check", model, expect=3)
    for word in ("3 problems", "shapes_do_not_fit", "Frobnicate", "no_such_axis", "2 nodes could not be checked"):
        check(word in text.out, f"no '{word}' in {text}")


def test_exit_codes_tell_what_kind_of_problem(service):
    unsupported = save(service, "unsupported", [helper.make_node("Frobnicate", ["x"], ["y"], name="unknown")],
                       [float_value("x", ["N", 3])], [float_value("y", None)])
    report = service.cli("check", unsupported, "--json", expect=4).json
    check_equal({p["reason"] for p in report["problems"]}, {"UNSUPPORTED_OPERATOR", "UNBOUND_DIMENSION"}, "reasons")
    garbage = service.scratch("garbage.onnx")
    garbage.write_bytes(b"\xff" * 100)
    check_equal(service.cli("check", garbage, "--json", expect=3).json["problems"][0]["reason"], "INVALID_MODEL",
                "reason for garbage")
    service.cli("check", "no-such-file.onnx", expect=5)
    model = model_path("resnet18")
    symbolic = service.cli("check", model, "--json", expect=3).json
    check_equal(symbolic["unbound_dimensions"], ["N"], "unbound dimensions")
    check_equal([p["reason"] for p in symbolic["problems"]], ["UNBOUND_DIMENSION"], "problems of a symbolic batch")
    bound = service.cli("check", model, "--shape", "x=1x3x224x224", "--json", expect=0).json
    check_equal((bound["problems"], bound["unbound_dimensions"]), ([], []), "with the shape bound")
    check("no problems" in service.cli("check", model, "--shape", "x=1x3x224x224").out, "people are not told")


def test_texts_are_checked_too(service):
    good, bad = service.scratch("good.te"), service.scratch("bad.te")
    good.write_text("input A[4, 5], B[5, 6]; O[i, j] += A[i, k] * B[k, j];")
    bad.write_text("input A[4, 5]; O[i, j] += A[i, k] * B[k, j];")
    service.cli("check", good, expect=0)
    report = service.cli("check", bad, "--json", expect=3).json
    check_equal(len(report["problems"]), 1, "problems")


def test_hostile_models_are_answered(service):
    before = {worker["id"]: worker["pid"] for worker in service.wait_for_workers(2)}
    folder = service.folder / "hostile"
    for row in hostile_models.write(folder):
        answer = service.cli("check", folder / row["file"], "--json", "--timeout", "60s", expect=None)
        problems = answer.json.get("problems", [])
        reasons = {problem["reason"] for problem in problems}
        check(reasons & set(row["reasons"]), f"{row['name']}: {reasons}, expected one of {row['reasons']}: {answer}")
        check(answer.code in {EXIT_CODES[reason] for reason in reasons}, f"{row['name']}: exit code {answer.code}")
        check(all(problem["message"] for problem in problems), f"{row['name']}: a problem without a message")
    after = {worker["id"]: worker["pid"] for worker in service.wait_for_workers(2)}
    check_equal(after, before, "workers after all hostile models")


# tessera explain

SHAPE = ["--shape", "x=1x3x224x224"]


def test_an_explanation_shows_before_and_after(service):
    dot, svg = service.scratch("graph.dot"), service.scratch("graph.svg")
    answer = service.cli("explain", model_path("resnet18"), *SHAPE, "--target", "cascadelake", "--json",
                         "--dot", dot, "--svg", svg).json
    plan, before, after = answer["plan"], answer["before"], answer["after"]
    model = onnx.load(model_path("resnet18"), load_external_data=False)
    wanted = {}
    for node in model.graph.node:
        wanted[node.op_type] = wanted.get(node.op_type, 0) + 1
    found = {}
    for node in before["nodes"]:
        found[node["op"]] = found.get(node["op"], 0) + 1
    check_equal(found, wanted, "operators before")
    check_equal(len(after["nodes"]), len(plan["steps"]), "groups after")
    check(len(after["nodes"]) < len(before["nodes"]), "nothing was fused")

    # The convolutions dominate the work, and fusion does not change it. Folded normalizations only reduce it, and
    # Winograd needs down to a quarter of the multiplications.
    conv = sum(int(node["flops"]) for node in before["nodes"] if node["op"] == "Conv")
    groups = sum(int(node["flops"]) for node in after["nodes"])
    check(3.5e9 < conv < 3.7e9, f"{conv} flops in ResNet-18's convolutions, expected 3.6 G")
    check(conv / 4 <= groups < 1.05 * sum(int(node["flops"]) for node in before["nodes"]), f"{groups} flops after")

    # Each group is fed and read, and edges go forward.
    for graph in (before, after):
        read = {edge["from"] for edge in graph["edges"]}
        check({node["id"] for node in graph["nodes"]} <= read, "a node that nothing reads")
        check(all(edge["from"] < edge["to"] or edge["to"] == -1 for edge in graph["edges"]), "an edge goes back")
    check(any(node["layout"] == "NCHW16c" for node in after["nodes"]), "no group in blocks of 16 channels")
    check(not any(workload["ir"] for workload in plan["workloads"]), "the plan contains IR without a request for it")

    root = ElementTree.parse(svg).getroot()
    check_equal(root.tag, "{http://www.w3.org/2000/svg}svg", "root of the SVG")
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    check(f"compiled: {len(after['nodes'])} groups" in texts and f"model: {len(before['nodes'])} nodes" in texts,
          f"titles: {texts[:5]}")
    rects = len(list(root.iter("{http://www.w3.org/2000/svg}rect")))
    check(rects > len(after["nodes"]) + len(before["nodes"]), f"{rects} boxes")
    text = dot.read_text()
    check(text.startswith("digraph") and text.count("{") == text.count("}"), "the DOT file's braces")
    check_equal(text.count("subgraph cluster_"), 2, "clusters")
    check_equal(len(re.findall(r"^    g1_\d+ -> g1_\d+ ", text, re.M)), len(after["edges"]), "arrows between groups")


def test_people_read_tables(service):
    text = service.cli("explain", model_path("resnet18"), *SHAPE, "--target", "cascadelake").out
    for word in ("BEFORE", "REWRITES", "AFTER", "FLOP/B", "conv2d", "largest live set", "sum of all",
                 "transforms of activations", "for cascadelake"):
        check(word in text, f"no '{word}' in {text[:3000]}")
    names = [node.name for node in onnx.load(model_path("resnet18")).graph.node]
    listed = service.cli("explain", model_path("resnet18"), *SHAPE, "--nodes").out
    check(names[0] in listed.split("REWRITES")[0], f"--nodes does not list {names[0]}")


def test_an_artifact_is_explained_from_its_plan(service):
    compiled = service.compile(model_path("squeezenet1_1"), {"x": [1, 3, 224, 224]})
    from_file = service.cli("explain", compiled.artifact, "--json").json
    asked = service.cli("explain", model_path("squeezenet1_1"), *SHAPE, "--json").json
    check_equal(from_file["after"], asked["after"], "groups in the artifact and in the explanation")
    svg = service.scratch("artifact.svg")
    text = service.cli("explain", compiled.artifact, "--svg", svg).out
    check("AFTER" in text and "BEFORE" not in text, text[:1000])
    ElementTree.parse(svg)


def test_other_formats_are_explained(service):
    gemm = service.scratch("gemm.te")
    gemm.write_text("input A[64, 128], B[128, 32]; C[i, j] += A[i, k] * B[k, j]; D[i, j] = max(C[i, j], 0);")
    answer = service.cli("explain", gemm, "--json").json
    flops = [int(node["flops"]) for node in answer["before"]["nodes"]]
    check(2 * 64 * 128 * 32 in flops, f"flops of the product: {flops}")
    check(answer["after"]["nodes"], "no groups")


def test_what_cannot_compile_is_not_explained(service):
    answer = service.cli("explain", model_path("resnet18"), "--json", expect=3)
    check_equal(answer.failure["reason"], "UNBOUND_DIMENSION", "reason")


# As jobs.

def test_questions_are_jobs(service):
    service.cli("check", model_path("tiny:seed=40"), "--shape", "x=1x8", "--name", "asked-about")
    service.cli("explain", model_path("tiny:seed=40"), "--shape", "x=1x8", "--name", "asked-about")
    jobs = service.cli("jobs", "--json", "--filter", 'kind = ANALYZE AND name = "asked-about"',
                       "--order-by", "create_time").json["jobs"]
    check_equal([job["analyze"]["question"] for job in jobs], ["CHECK", "EXPLAIN"], "questions")
    check(all(job["state"] == "SUCCEEDED" and not job["cached"] for job in jobs), str(jobs))
    shown = service.cli("job", jobs[0]["id"]).out
    check("check asked-about for" in shown and "0 problems" in shown, shown)
    *events, last = [json.loads(line) for line in service.cli("watch", jobs[1]["id"], "--json").out.splitlines()]
    check_equal(last["state"], "SUCCEEDED", "state at the end of watch")
    check(any(event.get("progress", {}).get("phase") == "analyze" for event in events), f"phases: {events}")
    report = jobs[0]["analyze_result"]["report"]
    blob = service.scratch("report.pb")
    service.cli("fetch", "--blob", report["sha256"], "-o", blob)
    check_equal(blob.stat().st_size, int(report["size_bytes"]), "size of the fetched report")


def test_deadlines_and_interrupts_end_questions():
    with Service(workers=0) as idle:
        answer = idle.cli("check", model_path("tiny:seed=41"), "--shape", "x=1x8", "--queue-timeout", "300ms", "--json",
                          expect=6)
        check_equal(answer.failure["reason"], "QUEUE_DEADLINE_EXCEEDED", "reason")
        asking = idle.spawn("explain", model_path("tiny:seed=41"), "--shape", "x=1x8", "--quiet")
        waiting = 'kind = ANALYZE AND state = QUEUED'
        wait_until(lambda: idle.cli("jobs", "--json", "--filter", waiting).json["jobs"], "the question waits")
        asking.send_signal(signal.SIGINT)
        check_equal(asking.wait(timeout=60), 7, "exit code after Ctrl-C")
        check_equal(idle.cli("jobs", "--json", "--filter", waiting).json["jobs"], [], "questions that still wait")


def test_a_check_starts_its_own_service(service):
    folder = service.scratch("local")
    service.cli("check", model_path("tiny:seed=42"), "--shape", "x=1x8", "--local", "--data-dir", folder,
                "--workers", "1", env={"TESSERA_SERVER": "127.0.0.1:1"})
