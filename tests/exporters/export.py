"""Writes models as an exporter does, with inputs and ONNX Runtime's answers. Runs in an environment of `install`.

    export.py LISTS FOLDER NAME...    FOLDER/NAME/model.onnx, inputs0.npz, outputs0.npz, inputs1.npz, outputs1.npz
    export.py LISTS --list            the modules LISTS (with commas between them) and the models that each defines

The process imports the frameworks once and forks for each model, so that a crash or a limit ends one export only.
FOLDER/NAME/formulas.json has the dimensions that follow from others. FOLDER/NAME/failure.txt says why an export failed.
"""

import importlib
import json
import logging
import os
import pathlib
import signal
import sys
import traceback
import warnings

import numpy as np
import onnxruntime

LIMIT_S = 300


def all_models(lists):
    """{name: (list, constructor)} in the order of the lists."""
    found = {}
    for each in lists.split(","):
        for name, build in importlib.import_module(each).MODELS.items():
            if name in found:
                raise ValueError(f"two models are called {name}")
            found[name] = (each, build)
    return found


def export(build, folder):
    model = build()
    path = folder / "model.onnx"
    names = model.write(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(str(path), options)
    if getattr(model, "formulas", {}):
        (folder / "formulas.json").write_text(json.dumps(model.formulas))
    kept = {each.name for each in session.get_inputs()}
    for number, (given, wanted) in enumerate(zip(model.arrays(), model.answers())):
        arrays = {name: each for name, each in zip(names, given) if name in kept}
        answers = session.run(None, arrays)
        for here, there in zip(answers, wanted):
            difference = np.abs(here - there).max(initial=0) if here.shape == there.shape and here.dtype.kind == "f" else 0
            if here.shape != there.shape or not difference <= 1e-2 * max(1, np.abs(here).max(initial=0)):
                print(f"  the framework and ONNX Runtime differ by {difference:.1e}", flush=True)
        np.savez(folder / f"inputs{number}.npz", **arrays)
        np.savez(folder / f"outputs{number}.npz", **{each.name: value for each, value in zip(session.get_outputs(), answers)})


def forked(build, folder):
    """Exports in a child process; returns whether it succeeded."""
    folder.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_S)
        code = 1
        with (folder / "log.txt").open("w") as log:
            os.dup2(log.fileno(), 2)
            try:
                export(build, folder)
                code = 0
            except BaseException as error:  # the reason is kept, whatever it is
                traceback.print_exc(file=log)
                (folder / "failure.txt").write_text(f"{type(error).__name__}: {error}")
        os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        (folder / "failure.txt").write_text(f"signal {os.WTERMSIG(status)} (14: longer than {LIMIT_S} s)")
    return status == 0


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    os.environ.update(YOLO_VERBOSE="false", YOLO_AUTOINSTALL="false", TF_CPP_MIN_LOG_LEVEL="3")
    lists, *words = sys.argv[1:]
    models = all_models(lists)
    if words == ["--list"]:
        for name, (source, _) in models.items():
            print(source, name)
        return
    if "exportable" in sys.modules:  # torch's lists import it
        sys.modules["exportable"].prepare()
    for name in words[1:]:
        print(name, "exported" if forked(models[name][1], pathlib.Path(words[0]) / name) else "failed", flush=True)


if __name__ == "__main__":
    main()
