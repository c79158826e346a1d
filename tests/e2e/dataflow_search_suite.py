"""Searched trees have the printed prices, no tree given by hand beats a complete search, and a signal prints the best so far."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from checks import check, check_equal
from e2e.dataflow_suite import CHIP, CONVOLUTIONS, PRODUCT, PRODUCT_TREE, dataflow
from e2e.tessera_e2e import BIN

def sized(rows, inner):
    """A chain of two products."""
    return f"""param M = {rows}, L = {rows}, K = {inner};
input A[M, K], B[K, L], D[L, K]: f16;
C[m, l] += A[m, k] * B[k, l];
E[m, n] += C[m, l] * D[l, n];
"""


CHAIN = sized(16, 8)


def files(folder, problem, chip=CHIP):
    for name, text in {"chip.textproto": chip, "problem.te": problem}.items():
        (pathlib.Path(folder) / name).write_text(text)
    return [BIN / "tessera", "dataflow", "--chip", f"{folder}/chip.textproto", "--problem", f"{folder}/problem.te"]


def search(problem, *flags, expect=0, chip=CHIP):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*files(folder, problem, chip), *(flags or ["--search"]), "--json", "--quiet"], capture_output=True,
                              text=True, env={**os.environ, "TESSERA_SERVER": "127.0.0.1:1"})
        check_equal(done.returncode == 0, expect == 0, done.stdout + done.stderr)
        return json.loads(done.stdout)


def test_a_search_prices_its_tree_as_the_analysis_does():
    answer = search(PRODUCT, "--search", "--time", "20s")
    priced = json.loads(dataflow(PRODUCT, answer["tree"], "--json"))
    check_equal(priced["cycles"], answer["cycles"], "cycles")
    check_equal(priced["violations"], [], "limits")
    given = json.loads(dataflow(PRODUCT, PRODUCT_TREE, "--json"))
    check(answer["cycles"] <= given["cycles"], "the tree of the page is in the space")
    check(answer["bound"]["score"] <= answer["score"], f"{answer['bound']}")
    check(answer["left_out"], "what the space leaves out")


def test_objectives_budgets_and_the_front():
    with tempfile.TemporaryDirectory() as folder:
        front = search(CHAIN, "--search", "--time", "20s", "--front", f"{folder}/front.svg", "--tree-out", f"{folder}/its.tree")
        check("<svg" in pathlib.Path(folder, "front.svg").read_text(), "a picture")
        check_equal(pathlib.Path(folder, "its.tree").read_text(), front["tree"], "the written tree")
    points = [(each["cycles"], each["energy_pj"], each["bytes"]) for each in front["front"]]
    for one in points:
        check(not any(other != one and all(a <= b for a, b in zip(other, one)) for other in points), f"{one} is beaten")
    least = search(CHAIN, "--search", "--objective", "bytes", "--time", "20s")
    check_equal(least["bytes"], least["bound"]["bytes"], "each element moves once")
    tight = search(CHAIN, "--search", "--objective", "bytes", "--budget", "L1=256", "--time", "20s")
    check(tight["bytes"] >= least["bytes"], f"{tight['bytes']}")


def test_baselines_are_part_of_the_space():
    best = search(CONVOLUTIONS, "--search", "--time", "5s")
    for baseline in ("Layerwise", "Fused-Layer"):
        answer = search(CONVOLUTIONS, "--baseline", baseline, "--time", "5s")
        check(best["space_bound"] <= answer["score"], baseline)
        check_equal(answer["tree"].count("\nDRAM") + 1, 2 if baseline == "Layerwise" else 1, baseline)
    check("accepted" in json.dumps(search(PRODUCT, "--baseline", "Chimera", expect=1)), "one operator is no chain")


def test_the_search_of_the_thesis_repeats_with_its_seed():
    flags = ["--search", "--method", "evolution", "--seed", "3", "--time", "60s"]
    small = sized(8, 4)
    first = search(small, *flags)
    check_equal(search(small, *flags)["tree"], first["tree"], "equal seeds")
    check(first["score"] >= search(small, "--search")["space_bound"], "no sample beats the bound")


def test_a_signal_prints_the_best_so_far():
    with tempfile.TemporaryDirectory() as folder:
        running = subprocess.Popen([*files(folder, sized(5040, 720)), "--search", "--objective", "energy", "--time", "10m", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.stderr.readline()  # the first tree
        time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=60)
        check_equal(running.returncode, 0, out)
        answer = json.loads(out)
        check(not answer["complete"] and answer["tree"], "the best so far")
        check(answer["space_bound"] <= answer["score"], f"{answer['space_bound']}")


def test_a_sweep_prices_each_variant_as_a_chip_file_would():
    small = sized(8, 4)
    with tempfile.TemporaryDirectory() as folder:
        picture = pathlib.Path(folder, "sweep.svg")
        swept = search(small, "--baseline", "Layerwise", "--time", "20s", "--sweep", "L1.capacity=512K,1M, core.count=2..4",
                       "--sweep-out", str(picture))
        check_equal(picture.read_text().count("<circle"), 4, "a point for each variant")
    check_equal(swept["parameters"], ["L1.capacity", "core.count"], "parameters")
    check_equal([point["values"] for point in swept["points"]], [[size, count] for size in (1 << 19, 1 << 20) for count in (2, 4)],
                "the last parameter is fastest")
    for point in swept["points"]:
        # The chip of the page has four cores that share the DRAM's bandwidth of 16 bytes a cycle.
        size, count = map(int, point["values"])
        chip = CHIP.replace("524288", str(size)).replace("core\" count: 4", f"core\" count: {count}").replace(
            "bandwidth_bytes_per_cycle: 4 shared_by: 4", f"bandwidth_bytes_per_cycle: {16 / count} shared_by: {count}")
        alone = search(small, "--baseline", "Layerwise", "--time", "20s", chip=chip)
        check_equal([point[key] for key in ("cycles", "energy_pj", "bytes", "tree")],
                    [alone[key] for key in ("cycles", "energy_pj", "bytes", "tree")], f"{point['values']}")


def test_a_search_prices_writes_and_accepts_seven_memories():
    dearer = CHIP.replace("energy_pj_per_byte: 50", "energy_pj_per_byte: 50 write_energy_pj_per_byte: 80")
    answer = search(CHAIN, "--search", "--objective", "energy", "--time", "20s", chip=dearer)
    priced = json.loads(dataflow(CHAIN, answer["tree"], "--json", chip=dearer))
    check(abs(priced["energy_pj"] / answer["energy_pj"] - 1) < 1e-9, f"{priced['energy_pj']} and {answer['energy_pj']}")
    least = search(CHAIN, "--search", "--objective", "energy", "--time", "20s")
    check(least["energy_pj"] < answer["energy_pj"], "dearer writes")
    with tempfile.TemporaryDirectory() as folder:
        problem = pathlib.Path(folder, "problem.te")
        problem.write_text(sized(4, 2))
        done = subprocess.run([BIN / "tessera", "dataflow", "--chip", "ascend-910-like", "--problem", problem, "--search", "--time",
                               "3s", "--json", "--quiet"], capture_output=True, text=True)
        check_equal(done.returncode, 0, done.stdout + done.stderr)
        check("L0A" in json.loads(done.stdout)["tree"], "a tile at the innermost memory")


def test_a_found_tree_is_simulated():
    answer = search(CHAIN, "--search", "--simulate", "--time", "20s")
    check_equal(answer["simulated"]["energy_pj"], answer["energy_pj"], "energy")
    check(abs(answer["simulated"]["cycles"] / answer["cycles"] - 1) < 0.3, f"{answer}")
    parts = answer["breakdown"]
    check(abs(sum(level["energy_pj"] for level in parts["levels"]) + parts["operations_pj"] - answer["energy_pj"]) < 1e-6,
          f"{parts}")


def test_faults_name_the_flag():
    for flags, message in [(["--search", "--sweep", "L9.capacity=1M"], "--sweep L9.capacity: the chip has no such figure"),
                           (["--search", "--sweep", "core.count=1..x"], "--sweep core.count: '1..x' is no range"),
                           (["--search", "--sweep", "core.count=2", "--simulate"], "--simulate does not go with --sweep"),
                           (["--search", "--sweep-out", "x.svg"], "--sweep-out needs --sweep"),
                           (["--sweep", "core.count=2"], "--tree is missing; --search and --baseline find a tree"),
                           (["--search", "--budget", "L9=4"], "no level 'L9'; accepted: L0, L1, DRAM"),
                           (["--search", "--budget", "L1"], "accepted is LEVEL=BYTES"),
                           (["--search", "--budget", "L0=1"], "no tree of the space fits")]:
        check(message in json.dumps(search(PRODUCT, *flags, expect=1)), message)
