"""Work is done once: equal requests hit the cache or join, equal workloads are compiled once, builds are reproducible."""

import concurrent.futures
import hashlib
import shutil

from checks import check, check_equal
from e2e.tessera_e2e import Service, model_path

SHAPE = {"x": [1, 3, 224, 224]}


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def executed(service, name):
    """Compile jobs of this name that did the work themselves."""
    jobs = service.cli("jobs", "--json", "--limit", "0", "--filter", f'name = "{name}"').json["jobs"]
    return [job for job in jobs if not job["cached"] and not job["joined_job_id"]]


def test_second_is_a_hit(service):
    model = model_path("squeezenet1_1")
    first = service.compile(model, SHAPE)
    second = service.compile(model, SHAPE)
    check(not first.job["cached"], "the first compilation claims to be cached")
    check(second.job["cached"], "the second compilation is not from the cache")
    check(first.job["id"] != second.job["id"], "two requests are one job")
    check_equal(second.job["action_key"], first.job["action_key"], "action key")
    check_equal(digest(second.artifact), digest(first.artifact), "artifact")
    check_equal(digest(first.artifact), first.job["compile_result"]["artifact_id"], "id of the artifact")
    made = first.job["compile_result"]["workloads"]
    check_equal((second.job["compile_result"]["workloads"], second.job["compile_result"]["workloads_reused"]), (made, made),
                "workloads of the hit")
    print(f"   cached answer after {second.times_ms['answer']:.1f} ms")


def test_name_and_path_do_not_matter(service):
    copy = service.scratch("renamed.onnx")
    shutil.copy(model_path("squeezenet1_1"), copy)
    check(service.compile(copy, SHAPE, "--name", "another").job["cached"], "a copy under another name misses the cache")


def test_what_matters_is_explained(service):
    model = model_path("squeezenet1_1")
    flags = ["--target", "host", "--json"]
    hit = service.cli("explain", "--key", model, *flags, "--shape", "x=1x3x224x224").json
    check(hit["hit"], "explain: no hit for what was compiled")
    for words, component in ((["--shape", "x=2x3x224x224"], "input_shapes"),
                             (["--shape", "x=1x3x224x224", "-O", "1"], "options")):
        miss = service.cli("explain", "--key", model, *flags, *words).json
        check(not miss["hit"], f"explain: a hit with other {component}")
        check_equal(miss["differing"], [component], "differing components")
        check(miss["nearest_job_id"], "explain names no nearest job")
    other = service.cli("explain", "--key", model, "--target", "x86-64-v3", "--json", "--shape", "x=1x3x224x224").json
    check_equal((other["hit"], other["differing"]), (False, ["target"]), "another target")


def test_rebuild_gives_equal_bytes(service):
    model = model_path("mlp")
    first = service.compile(model, {"x": [3, 784]})
    again = service.compile(model, {"x": [3, 784]}, "--no-cache")
    check(not again.job["cached"], "--no-cache answered from the cache")
    check_equal(digest(again.artifact), digest(first.artifact), "artifact of a second build")


def test_fresh_service_gives_equal_bytes(service):
    model = model_path("bert_tiny")
    shapes = {"input_ids": [1, 32], "attention_mask": [1, 32]}
    here = service.compile(model, shapes)
    with Service(workers=1) as other:
        there = other.compile(model, shapes)
        check_equal(digest(there.artifact), digest(here.artifact), "artifact of another service")


def test_equal_requests_join(service):
    model = model_path("resnet18")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        compiled = list(pool.map(lambda _: service.compile(model, SHAPE, "--name", "joined", timeout=300), range(8)))
    check_equal(len({digest(c.artifact) for c in compiled}), 1, "number of different artifacts")
    check_equal(len({c.job["id"] for c in compiled}), 8, "number of jobs")
    check_equal(len(executed(service, "joined")), 1, "number of jobs that did the work")


def test_workloads_are_reused(service):
    # The same layers with the same extents and other weights: only files with weights differ.
    first = service.compile(model_path("gemm:m=64,k=128,n=128"))
    check_equal(int(first.job["compile_result"]["workloads_reused"]), 0, "workloads reused by the first")
    model = service.scratch("other.onnx")
    content = bytearray(model_path("gemm:m=64,k=128,n=128").read_bytes())
    content[len(content) // 2] ^= 1  # one bit of one weight
    model.write_bytes(content)
    second = service.compile(model)
    check(not second.job["cached"], "other weights hit the cache")
    check_equal(second.job["compile_result"]["workloads_reused"], second.job["compile_result"]["workloads"],
                "workloads reused by a model that differs in one weight")


def test_retrained_small_models_share_their_code(service):
    """For models that differ only in weights, the second one reuses the first one's code, and gets the same code without it."""
    shape, name = {"x": [1, 8]}, "retrained"
    made = [service.compile(model_path(f"tiny:seed={seed}"), shape, "--name", name) for seed in range(91, 97)]
    for index, each in enumerate(made):
        result = each.job["compile_result"]
        check_equal(result["workloads"], 1, "workloads")
        if index >= 2:  # two workers
            check_equal(result["workloads_reused"], 1, f"reused workloads of model {index}")
    anew = service.compile(model_path("tiny:seed=96"), shape, "--name", name, "--no-cache")
    check_equal(anew.job["compile_result"]["workloads_reused"], 0, "reused workloads without the cache")
    check_equal(digest(anew.artifact), digest(made[-1].artifact), "artifact made without the cache")


def test_request_id_is_idempotent(service):
    model = model_path("tiny:seed=7")
    words = ["compile", model, "--target", "host", "--json", "--shape", "x=1x8", "-o", service.scratch("t.tsra")]
    first = service.cli(*words, "--request-id", "the-same").json["job"]
    second = service.cli(*words, "--request-id", "the-same").json["job"]
    check_equal(second["id"], first["id"], "job of a repeated request id")
    words[words.index("x=1x8")] = "x=2x8"
    other = service.cli(*words, "--request-id", "the-same", expect=3).json
    check_equal(other["code"], "ALREADY_EXISTS", "status of a request id with other content")


def test_survives_a_restart(service):
    model = model_path("squeezenet1_1")
    check_equal(service.stop(), 0, "exit code after SIGTERM")
    service.start()
    check(service.compile(model, SHAPE).job["cached"], "the cache is cold after a restart")
