"""What the benchmarks of tuning share: what is printed above every figure, and how two compilations are compared."""

import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import BIN, model_inputs, model_path, shapes_of  # noqa: E402


def chip():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return os.uname().machine


def heading(what):
    """Which machine, how many cores of it, and what else ran there: without that no figure says anything."""
    print(f"{what}\n{chip()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} as it began", flush=True)


def spread(values, form=".3f"):
    """Median, and the least and the most."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def geometric_mean(values):
    return statistics.geometric_mean(values)


def model_of(spec):
    """The file of a model of the catalog, or of a .te file, and the flags that bind its shapes."""
    if spec.endswith(".te"):
        return pathlib.Path(spec), []
    return model_path(spec), [word for name, shape in shapes_of(model_inputs(spec, 1)).items()
                              for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]


def operators(folder, cases):
    """Files of operators as `search_methods --cases` names them."""
    subprocess.run([BIN / "search_methods", "--cases", cases, "--write", folder], check=True, stdout=subprocess.DEVNULL)
    return [str(path) for path in sorted(pathlib.Path(folder).glob("*.te"), key=lambda path: path.stat().st_mtime_ns)]


def tuned(service, spec, *flags, budget_s, seed, trials=10_000, target="host", mode="static"):
    """The finished TUNE job, and the file of the trees that it found."""
    model, shapes = model_of(spec)
    answer = service.cli("tune", model, "--target", target, "--json", "--mode", mode, "--trials", trials, "--budget",
                         f"{budget_s}s", "--seed", seed, "-o", service.scratch("pins"), *shapes, *flags,
                         timeout=3 * budget_s + 900).json
    return answer["job"], answer["output"]


def compiled(service, spec, *flags, target="host"):
    model, shapes = model_of(spec)
    return service.compile(model, None, *shapes, *flags, target=target, timeout=1800).artifact


def times_as_fast(service, before, after, rounds, threads=1):
    """How many times as fast `after` is, by runs in turns on as many cores as there are threads; and the noise."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    done = subprocess.run(["taskset", "--cpu-list", cores, BIN / "tessera", "compare", before, after, "--json", "--rounds",
                           str(rounds), "--threads", str(threads)], capture_output=True, text=True, check=False,
                          env={**os.environ, "TESSERA_SERVER": service.address})
    try:
        total = json.loads(done.stdout)["total"]
    except (json.JSONDecodeError, KeyError):
        raise RuntimeError(f"compare ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-1000:]}") from None
    return total["before_ms"] / total["after_ms"], total["noise"]


def rounds_for(milliseconds, seconds=6, most=301):
    """So many rounds as take about `seconds` for both sides, each run and profiled."""
    return max(11, min(most, int(1000 * seconds / (4 * max(milliseconds, 0.001)))))
