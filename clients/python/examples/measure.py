"""Times an artifact on a worker of the service, then queries the resulting tuning records.

   python measure.py [SERVER]
"""

import statistics
import sys

import tessera

SOFTMAX = b"""
input x[17, 333]: f32;
top[i] = max(x[i, j], axis = j);
e[i, j] = exp(x[i, j] - top[i]);
total[i] = sum(e[i, j], axis = j);
y[i, j] = e[i, j] / total[i];
"""


def main() -> None:
    client = tessera.connect(sys.argv[1] if len(sys.argv) > 1 else None)
    artifact = client.compile(SOFTMAX, format="te", name="softmax").artifact
    profile = client.profile(artifact, repeat=20)
    print(f"median {statistics.median(profile.latency_ms):.4g} ms on {profile.cpu_model}")
    print(profile.kernels)

    records = client.records(f'job = "{profile.job_id}"')
    best = min(records, key=lambda record: record.median_ms)
    print(f"{len(records)} records, the fastest kernel: {best.workload_summary}, {best.median_ms:.4g} ms")
    print(dict(zip(records["workload_summary"], records["median_ms"])))


if __name__ == "__main__":
    main()
