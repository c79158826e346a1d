"""Shared by the tuning benchmarks: the heading above figures, and the comparison of two compilations."""

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
    """Prints the chip, the number of cores and the load: a figure means nothing without them."""
    print(f"{what}\n{chip()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} as it began", flush=True)


def spread(values, form=".3f"):
    """Median, least and largest value as text."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def geometric_mean(values):
    return statistics.geometric_mean(values)


def model_of(spec):
    """File of a catalog model or .te file, and the flags that bind its shapes."""
    if spec.endswith(".te"):
        return pathlib.Path(spec), []
    return model_path(spec), [word for name, shape in shapes_of(model_inputs(spec, 1)).items()
                              for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]


def operators(folder, cases):
    """Files of operators, selected as `search_methods --cases` does."""
    subprocess.run([BIN / "search_methods", "--cases", cases, "--write", folder], check=True, stdout=subprocess.DEVNULL)
    return [str(path) for path in sorted(pathlib.Path(folder).glob("*.te"), key=lambda path: path.stat().st_mtime_ns)]


def tuned(service, spec, *flags, budget_s, seed, trials=10_000, target="host", mode="static"):
    """The finished TUNE job, and the file of the schedules that it found."""
    model, shapes = model_of(spec)
    answer = service.cli("tune", model, "--target", target, "--json", "--mode", mode, "--trials", trials, "--budget",
                         f"{budget_s}s", "--seed", seed, "-o", service.scratch("pins"), *shapes, *flags,
                         timeout=3 * budget_s + 900).json
    return answer["job"], answer["output"]


def compiled(service, spec, *flags, target="host"):
    model, shapes = model_of(spec)
    return service.compile(model, None, *shapes, *flags, target=target, timeout=1800).artifact


def speedup(service, before, after, rounds, threads=1):
    """Speed of `after` relative to `before`, and the noise; runs alternate on as many cores as threads."""
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
    """Number of rounds that take about `seconds` for both sides, which run and profile in each."""
    return max(11, min(most, int(1000 * seconds / (4 * max(milliseconds, 0.001)))))
