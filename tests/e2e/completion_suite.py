"""The scripts that `tessera completion` prints, run by their shells: completions are exactly the accepted words."""

import json
import os
import shutil
import subprocess

import pytest

from checks import check, check_equal
from e2e.tessera_e2e import BIN

# A command line, words that must be offered after it, and words that must not be.
LINES = (
    ("tessera com", {"compile", "compare", "completion"}, {"jobs"}),
    ("tessera --json rec", {"records"}, {"compile"}),
    ("tessera --server jobs rec", {"records"}, set()),  # "jobs" is the flag's value there
    ("tessera help adm", {"admin"}, set()),
    ("tessera admin to", {"token"}, set()),
    ("tessera admin token ", {"create", "list", "revoke"}, {"compile"}),
    ("tessera admin token create --ro", {"--role"}, set()),
    ("tessera admin token create --role ", {"reader", "client", "operator", "worker"}, {"create"}),
    ("tessera compile --pre", {"--precision"}, set()),
    ("tessera compile --precision ", {"model", "bf16"}, set()),
    ("tessera compile --js", {"--json"}, set()),  # an option of the program, accepted anywhere
    ("tessera admin delete --jo", {"--job"}, set()),  # inside an option group
    ("tessera completion ", {"bash", "zsh", "fish"}, set()),
    ("tessera compile one", {"one model.onnx"}, {"compile"}),
    ("tessera compile -o one", {"one model.onnx"}, set()),
)
BASH = r"""
source "$1"
COMP_WORDS=()
while IFS= read -r word; do COMP_WORDS+=("$word"); done
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_tessera
printf '%s\n' "${COMPREPLY[@]}"
"""


def script_for(shell, folder):
    """Path of the shell's script; skips without the shell."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = folder / f"tessera.{shell}"
    path.write_text(subprocess.run([BIN / "tessera", "completion", shell], check=True, capture_output=True, text=True).stdout)
    syntax = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
    check(syntax.returncode == 0 and not syntax.stderr, f"{shell} -n: {syntax.stderr}")
    return path


def check_lines(offered):
    """offered(line): the words that a shell offers."""
    for line, wanted, unwanted in LINES:
        found = set(offered(line))
        check(wanted <= found, f"'{line}': {wanted - found} missing among {sorted(found)}")
        check(not unwanted & found, f"'{line}': {unwanted & found} offered")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion")
    (path / "one model.onnx").touch()
    return path


def test_bash_completes(folder):
    script = script_for("bash", folder)

    def words(line):
        done = subprocess.run(["bash", "-c", BASH, "bash", script], input="\n".join(line.split(" ")) + "\n", text=True,
                              capture_output=True, check=False, cwd=folder)
        check_equal([done.returncode, done.stderr], [0, ""], f"bash on '{line}'")
        # If the function returns nothing, bash completes file names (complete -o default).
        return done.stdout.split() or [path.name for path in folder.iterdir()]

    check_lines(words)
    check_equal(set(words("tessera admin token create --role = cl")), {"client"}, "--role=cl, which bash takes apart")


def test_zsh_reads_it(folder):
    """The zsh widget needs a terminal; this defines the function and reads its table."""
    script = script_for("zsh", folder)
    look = ("compdef() { print compdef $*; }; source $1; typeset -a subcommands flags takes choices; _tessera_place 'admin token'; "
            "print -l -- ${subcommands%%:*}; _tessera_choices 'admin token create' --role; print -l -- $choices")
    done = subprocess.run(["zsh", "-f", "-c", look, "zsh", script], capture_output=True, text=True, check=False)
    check_equal(done.stdout.split(), ["compdef", "_tessera", "tessera", "create", "list", "revoke", "reader", "client", "operator", "worker"],
                f"what zsh knows; {done.stderr}")


def test_fish_completes(folder):
    script = script_for("fish", folder)

    def words(line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C {json.dumps(line)}"], text=True,
                              capture_output=True, check=False, cwd=folder, env={**os.environ, "HOME": str(folder)})
        check_equal([done.returncode, done.stderr], [0, ""], f"fish on '{line}'")
        return [word.split("\t")[0].replace("\\ ", " ") for word in done.stdout.splitlines()]

    check_lines(words)
    check_equal(set(words("tessera admin token create --role=cl")), {"--role=client"}, "--role=cl")


def test_every_command_is_in_it(folder):
    """All words of each command's --help are offered, and each offered command has a --help."""
    script = script_for("bash", folder).read_text()
    places = [line.strip()[1:-2] for line in script.splitlines() if line.startswith("    '") and line.endswith("')")]
    check(len(places) > 40 and "records best" in places, f"places: {places}")
    for place in places[1:]:
        done = subprocess.run([BIN / "tessera", *place.split(), "--help"], capture_output=True, check=False)
        check_equal(done.returncode, 0, f"tessera {place} --help")
