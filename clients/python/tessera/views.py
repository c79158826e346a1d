"""Responses of the service as Python values. ``proto`` is the complete message."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from google.protobuf import json_format

from tessera import _html, errors
from tessera.table import Table
from tessera.v1 import analysis_pb2, artifact_versions_pb2, job_pb2, record_pb2

TERMINAL = frozenset((job_pb2.Job.SUCCEEDED, job_pb2.Job.FAILED, job_pb2.Job.CANCELLED))


def time_of(microseconds: int) -> datetime.datetime | None:
    """Converts a time of the API; None if it is not set."""
    if not microseconds:
        return None
    return datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.timezone.utc)


@dataclasses.dataclass(frozen=True)
class Progress:
    """Progress of a job, or of a transfer before or after it."""
    phase: str = ""  #: upload, queued, import, plan, build, assemble, download, ...
    done: int = 0
    total: int = 0
    detail: str = ""

    def __str__(self) -> str:
        share = f" {self.done}/{self.total}" if self.total else ""
        return f"{self.phase}{share} {self.detail}".strip()


def _reader(name: str) -> Any:
    return lambda item: getattr(item, name)


class Job:
    """A snapshot of a job."""

    def __init__(self, proto: job_pb2.Job) -> None:
        self.proto = proto

    @property
    def id(self) -> str:
        return self.proto.id

    @property
    def state(self) -> str:
        """QUEUED, RUNNING, SUCCEEDED, FAILED or CANCELLED."""
        return job_pb2.Job.State.Name(self.proto.state)

    @property
    def kind(self) -> str:
        """compile, execute, profile, analyze or tune."""
        return self.proto.WhichOneof("spec") or ""

    @property
    def _compile(self) -> job_pb2.CompileSpec:
        return getattr(self.proto, self.kind).compile if self.kind in ("analyze", "tune") else self.proto.compile

    @property
    def name(self) -> str:
        """Name of the model, or of the artifact that is run."""
        if self.kind in ("execute", "profile"):
            return str(getattr(self.proto, self.kind).artifact_id)
        return self._compile.name

    @property
    def target(self) -> str:
        ref = self._compile.target
        return ref.name or ref.inline.name

    @property
    def done(self) -> bool:
        return self.proto.state in TERMINAL

    @property
    def cached(self) -> bool:
        """Answered from an earlier job's artifact."""
        return self.proto.cached

    @property
    def artifact_id(self) -> str:
        return self.proto.compile_result.artifact_id or self.proto.tune_result.artifact_id

    @property
    def found(self) -> Table[job_pb2.TuneResult.Workload]:
        """Results of a tune job for each workload, those with the most time first."""
        names = ("hash", "summary", "share", "default_ms", "best_ms", "improved", "trials", "refused", "wrong", "crashed",
                 "timed_out", "unbuilt", "untuned")
        return Table(list(self.proto.tune_result.workloads), {name: _reader(name) for name in names})

    @property
    def error(self) -> errors.TesseraError | None:
        """Why it FAILED or was CANCELLED."""
        return errors.of_failure(self.proto.failure, job_id=self.id) if self.proto.HasField("failure") else None

    @property
    def progress(self) -> Progress:
        now = self.proto.progress
        return Progress(now.phase, now.done, now.total, now.detail)

    @property
    def phases_ms(self) -> dict[str, float]:
        """Wall time of each finished phase."""
        return {phase.phase: phase.wall_ms for phase in self.proto.phases}

    @property
    def create_time(self) -> datetime.datetime | None:
        return time_of(self.proto.create_time_us)

    @property
    def took_ms(self) -> float | None:
        """Time from creation to the end; None before the end."""
        return (self.proto.end_time_us - self.proto.create_time_us) / 1e3 if self.proto.end_time_us else None

    def __repr__(self) -> str:
        cached = ", cached" if self.cached else ""
        return f"<tessera.Job {self.id} {self.kind} {self.name}: {self.state}{cached}>"

    def _repr_html_(self) -> str:
        phases = ", ".join(f"{name} {ms:.4g} ms" for name, ms in self.phases_ms.items())
        return _html.fields(f"{self.kind} {self.name}", {
            "job": self.id, "state": self.state + (" (cached)" if self.cached else ""), "target": self.target,
            "phases": phases, "artifact": self.artifact_id, "progress": "" if self.done else str(self.progress),
            "error": str(self.error or "")})


class Check:
    """The result of a check. True if the model would compile; otherwise it lists all problems."""

    def __init__(self, proto: analysis_pb2.CheckReport) -> None:
        self.proto = proto
        self.problems = [errors.of_failure(problem) for problem in proto.problems]  #: in the order of the graph
        self.unbound_dimensions = list(proto.unbound_dimensions)  #: by name

    def __bool__(self) -> bool:
        return not self.problems

    @property
    def operators(self) -> Table[Any]:
        """The operators that the model uses, their counts, and whether they are supported."""
        return Table(list(self.proto.operators), {
            "operator": lambda use: f"{use.domain}.{use.name}" if use.domain else use.name,
            "nodes": lambda use: use.count, "supported": lambda use: use.supported})

    def __repr__(self) -> str:
        if self:
            return f"<tessera.Check: {self.proto.nodes} nodes, no problems>"
        return "\n".join([f"<tessera.Check: {self.proto.nodes} nodes, {len(self.problems)} problems>",
                          *map(str, self.problems)])

    def _repr_html_(self) -> str:
        problems = _html.table(["kind", "message", "node", "operator"],
                               [(p.reason, p.message, p.node, p.op_type) for p in self.problems])
        return self.operators._repr_html_() + (problems if self.problems else "<p>no problems</p>")


class Explanation:
    """The compiler's transformation of a model: its graph, the fused groups, and the plan."""

    def __init__(self, proto: analysis_pb2.Explanation) -> None:
        self.proto = proto
        self.plan = proto.plan  #: v1.Plan

    @staticmethod
    def _table(view: analysis_pb2.GraphView) -> Table[Any]:
        return Table(list(view.nodes), {
            "id": lambda node: node.id, "name": lambda node: node.name, "op": lambda node: node.op,
            "flops": lambda node: node.flops, "bytes": lambda node: node.bytes,
            "layout": lambda node: node.layout, "kernel": lambda node: node.kernel})

    @property
    def before(self) -> Table[Any]:
        """The model's nodes, in execution order."""
        return self._table(self.proto.before)

    @property
    def after(self) -> Table[Any]:
        """The fused groups; equal ``kernel`` numbers share one kernel."""
        return self._table(self.proto.after)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as printed by ``tessera explain --json``."""
        return dict(json_format.MessageToDict(self.proto, preserving_proto_field_name=True))

    def __repr__(self) -> str:
        return (f"<tessera.Explanation: {len(self.before)} nodes become {len(self.after)} fused groups with "
                f"{len(self.plan.workloads)} kernels>\n{self.after!r}")

    def _repr_html_(self) -> str:
        return f"<p>{len(self.before)} nodes become</p>{self.after._repr_html_()}"


@dataclasses.dataclass(frozen=True)
class Profile:
    """Times of an artifact on a worker."""
    job_id: str
    latency_ms: list[float]  #: every run, in order
    kernels: Table[Any]  #: one row per step
    hostname: str
    cpu_model: str

    @staticmethod
    def of(answer: Any) -> Profile:
        result = answer.result
        kernels: Table[Any] = Table(list(result.kernels), {
            "name": lambda step: step.name, "symbol": lambda step: step.symbol,
            "median_ms": lambda step: step.median_ms, "flops": lambda step: step.flops,
            "gflops_per_s": lambda step: step.flops / step.median_ms / 1e6 if step.median_ms else 0.0,
            "workload_hash": lambda step: step.workload_hash, "summary": lambda step: step.summary,
            "times_ms": lambda step: list(step.times_ms)})
        return Profile(answer.job_id, list(result.latency_ms), kernels, result.host.hostname, result.host.cpu_model)


def records_table(records: list[record_pb2.TuningRecord], token: str) -> Table[record_pb2.TuningRecord]:
    """Measurements with a column for every scalar field, and ``times_ms`` as a list."""
    def reader(name: str, repeated: bool) -> Any:
        return lambda record: list(getattr(record, name)) if repeated else getattr(record, name)

    fields = [field for field in record_pb2.TuningRecord.DESCRIPTOR.fields if field.message_type is None]
    columns = {field.name: reader(field.name, field.label == field.LABEL_REPEATED) for field in fields}
    columns["create_time"] = lambda record: time_of(record.create_time_us)
    return Table(records, columns, token)


def versions_table(versions: list[artifact_versions_pb2.ArtifactVersion],
                   token: str) -> Table[artifact_versions_pb2.ArtifactVersion]:
    """The versions of a tune job's artifact; `speed` is the default's time divided by the version's."""
    columns = {name: _reader(name) for name in ("number", "artifact_id", "tuned_workloads", "default_ms", "ms")}
    columns["speed"] = lambda version: version.default_ms / version.ms if version.ms else 1.0
    columns.update({name: _reader(name) for name in ("same_as", "held")})
    columns["create_time"] = lambda version: time_of(version.create_time_us)
    return Table(versions, columns, token)
