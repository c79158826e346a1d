"""The environments of the exporters, and the models that they write into a folder."""

import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parents[1] / "build" / "exporters"
AT_ONCE = 20  # exports of one process

# {environment: modules that list models}
LISTS = {
    "torch": ["language_models", "text_models", "vision_models", "speech_models", "network_models", "module_models"],
    "tensorflow": ["tensorflow_models"],
    "paddle": ["paddle_models"],
}


def export(environment, *words, **options):
    """Runs export.py in an environment."""
    command = [ENVIRONMENTS / environment / "bin" / "python", HERE / "export.py", ",".join(LISTS[environment]), *words]
    return subprocess.run(command, check=True, text=True, **options)


def listed(environment):
    """{name of a model: the file that defines it}, in the order of the lists."""
    printed = export(environment, "--list", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return {name: HERE / f"{source}.py" for source, name in map(str.split, printed.splitlines())}


def is_current(folder, sources):
    """Whether the model was exported, or failed to, after the last change of its sources."""
    results = [each for each in (folder / "outputs1.npz", folder / "failure.txt") if each.exists()]
    return bool(results) and results[0].stat().st_mtime > max(each.stat().st_mtime for each in sources)


def export_missing(folder, only="", environments=tuple(LISTS)):
    """Installs the exporters and writes the models whose names match `only` into `folder`; returns these names."""
    subprocess.run([HERE / "install", *environments], check=True)
    names = []
    for environment in environments:
        shared = [HERE / "requirements" / f"{environment}.txt", *([HERE / "exportable.py"] if environment == "torch" else [])]
        chosen = {name: source for name, source in listed(environment).items() if re.search(only, name)}
        missing = [name for name, source in chosen.items() if not is_current(folder / name, [source, *shared])]
        for name in missing:
            for old in (folder / name).glob("*"):
                old.unlink()
        for first in range(0, len(missing), AT_ONCE):
            export(environment, folder, *missing[first:first + AT_ONCE])
        names += chosen
    return names
