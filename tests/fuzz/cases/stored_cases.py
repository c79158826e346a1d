"""Cases that failed once, stored whole: the model, its inputs, expected results and bounds.

They do not depend on the generator, whose seeds change their meaning when the table of operators grows.
"""

import pathlib

import numpy as np
import onnx

from e2e.tessera_e2e import save_npz
from fuzz.cases import model, tolerance

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "found"


def save(case, folder, name):
    """Writes NAME.onnx and NAME.npz ("in/...", "out/...", "bound/...")."""
    folder.mkdir(parents=True, exist_ok=True)
    made, arrays, results = model.of_cases([case])
    (folder / f"{name}.onnx").write_bytes(made.SerializeToString())
    kept = {f"in/{key}": array for key, array in arrays.items()}
    for key, value in results.items():
        kept[f"out/{key}"] = value.array
        kept[f"bound/{key}"] = np.asarray(tolerance.bound_of(case, value))
    save_npz(folder / f"{name}.npz", kept)


def load(path):
    """(inputs, expected results, bounds) of a stored case."""
    with np.load(path.with_suffix(".npz")) as stored:
        parts = {key: stored[key] for key in stored.files}
    return tuple({key.split("/", 1)[1]: array for key, array in parts.items() if key.startswith(f"{part}/")}
                 for part in ("in", "out", "bound"))


def cases():
    """The models of all stored cases."""
    return sorted(FOLDER.glob("*.onnx"))


def model_of(path):
    """The model as onnx reads it."""
    return onnx.load(path)


def text_of(path):
    """Its nodes on one line."""
    graph = model_of(path).graph
    return " -> ".join(node.op_type for node in graph.node)
