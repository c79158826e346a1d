"""The examples of the page on dataflows give the printed figures; a faulty tree is refused with the path of the tile."""

import json
import os
import pathlib
import re
import subprocess
import tempfile

from checks import check, check_equal
from e2e.tessera_e2e import BIN

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "clients" / "docs" / "pages" / "dataflows.md").read_text()
BLOCKS = [text for _, text in re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)]


def block(begin):
    """The first block of the page that begins so."""
    return next(text for text in BLOCKS if text.startswith(begin))


CHIP = block('name: "small"')
PRODUCT, PRODUCT_TREE = block("input A"), block("DRAM [m:")
PRODUCT_ANSWER = next(text for text in BLOCKS if "FOOTPRINT" in text)
ATTENTION, ATTENTION_TREE = block("param H"), block("DRAM [h:")
CONVOLUTIONS, CONVOLUTIONS_TREE = block("input I"), block("DRAM [x:")


def dataflow(problem, tree, *flags, chip=CHIP, expect=0):
    """The command's output, without any service."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"chip.textproto": chip, "problem.te": problem, "its.tree": tree}.items():
            (pathlib.Path(folder) / name).write_text(text)
        done = subprocess.run([BIN / "tessera", "dataflow", "--chip", f"{folder}/chip.textproto", "--problem",
                               f"{folder}/problem.te", "--tree", f"{folder}/its.tree", *flags],
                              env={**os.environ, "TESSERA_SERVER": "127.0.0.1:1"}, capture_output=True, text=True)
        if expect == 0:
            check_equal(done.returncode, 0, done.stderr)
        else:
            check(done.returncode > 0, f"{done.stdout}")
        return done.stdout + done.stderr


def words(answer, level, tensor):
    levels = {each["level"]: each for each in answer["levels"]}
    return next(each for each in levels[level]["tensors"] if each["tensor"] == tensor)


def test_the_product_gives_the_printed_table():
    stripped = [line.rstrip() for line in dataflow(PRODUCT, PRODUCT_TREE).splitlines()]
    check_equal(stripped, PRODUCT_ANSWER.splitlines(), "the table of the page")


def test_attention_stays_on_the_chip():
    answer = json.loads(dataflow(ATTENTION, ATTENTION_TREE, "--json"))
    check(f"{round(answer['cycles'])} cycles, {answer['compute_cycles']} without bandwidths" in PAGE.replace("\n", " "), f"{answer}")
    check_equal(answer["violations"], [], "limits")
    for tensor in "SMTPZN":
        check_equal([words(answer, "DRAM", tensor)[kind] for kind in ("read", "update")], [0, 0], tensor)
    evicting = json.loads(dataflow(ATTENTION, ATTENTION_TREE.replace("Shar", "Seq"), "--json"))
    for tensor in "KV":
        check_equal(words(answer, "L1", tensor)["fill"], 262144, tensor)
        check_equal(words(evicting, "L1", tensor)["fill"], 2097152, tensor)


def test_convolutions_share_windows():
    answer = json.loads(dataflow(CONVOLUTIONS, CONVOLUTIONS_TREE, "--json"))
    check(f"{round(answer['cycles'])} cycles" in PAGE, f"{answer}")
    check_equal([words(answer, "DRAM", "I")["read"], words(answer, "L1", "I")["fill"]], [6400, 10240], "I")
    check_equal(words(answer, "L1", "M")["footprint"], 1152, "M")


def test_energy_is_the_sum_of_accesses_and_operations():
    plain = json.loads(dataflow(PRODUCT, PRODUCT_TREE, "--json"))
    priced = json.loads(dataflow(PRODUCT, PRODUCT_TREE, "--operation-energy", "2", "--json"))
    check_equal(priced["energy_pj"] - plain["energy_pj"], 2 * plain["operations"], "operations")


def test_writes_have_an_energy_of_their_own():
    plain = json.loads(dataflow(PRODUCT, PRODUCT_TREE, "--json"))
    dearer = CHIP.replace("energy_pj_per_byte: 50", "energy_pj_per_byte: 50 write_energy_pj_per_byte: 80")
    for flags in ([], ["--simulate"]):
        priced = json.loads(dataflow(PRODUCT, PRODUCT_TREE, "--json", *flags, chip=dearer))
        check_equal(priced["energy_pj"] - plain["energy_pj"], 30 * 2 * words(priced, "DRAM", "C")["update"], f"{flags}")
        check(abs(sum(level["energy_pj"] for level in priced["breakdown"]["levels"]) - priced["energy_pj"]) < 1e-3, "parts")


def test_the_simulation_moves_the_same_words():
    odd = PRODUCT_TREE.replace("n:Tp/64", "n:Tp/80")  # the last step has 32 columns
    for tree in PRODUCT_TREE, odd:
        analysed, simulated = (json.loads(dataflow(PRODUCT, tree, *flags)) for flags in (["--json"], ["--json", "--simulate"]))
        check_equal(simulated["levels"], analysed["levels"], "words, footprints and units")
        check_equal(simulated["energy_pj"], analysed["energy_pj"], "energy")
        check(abs(analysed["cycles"] / simulated["cycles"] - 1) < 0.05, f"{analysed['cycles']} {simulated['cycles']} cycles")
    large = PRODUCT.replace("256, 64", "25600, 6400").replace("64, 512", "6400, 51200")
    check("at most 1e+06 and 1e+09 are accepted" in dataflow(large, PRODUCT_TREE, "--simulate", expect=1), "a large problem")


def test_faults_name_the_place():
    for tree, message in {PRODUCT_TREE.replace("k:Tp/16", "k:Tp/65"): "tile 0.0: loop k has 64 iterations here",
                          PRODUCT_TREE.replace("  L1", "  L7"): "tile 0.0: no memory 'L7'",
                          PRODUCT_TREE.replace("n:Tp/64", "n:64"): "line 1, column"}.items():
        check(message in dataflow(PRODUCT, tree, expect=1), message)
    check("line 2, column" in dataflow(PRODUCT.replace("B[k, n]", "D[k, n]"), PRODUCT_TREE, expect=1), "an unknown tensor")
    check("exceeded: L1:" in dataflow(PRODUCT, PRODUCT_TREE, chip=CHIP.replace("524288", "16384")), "a capacity")
