"""The blocking client."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tessera import _jobs, _lists, _requests, _versions, targets
from tessera._connection import Connection, address_or_default
from tessera._request import CompileRequest, DimsLike, ModelLike, ShapesLike
from tessera._steps import Steps, drive
from tessera._versions import Version
from tessera.compilation import Artifact, Compilation, OnProgress, get_artifact
from tessera.following import Following, OnVersion
from tessera.identity import Identity
from tessera.table import Table
from tessera.targets import TargetLike
from tessera.tuning import Tuning
from tessera.training import Training
from tessera.v1 import (analysis_pb2, artifact_pb2, job_pb2, operator_service_pb2, record_pb2, target_pb2,
                        target_service_pb2, worker_service_pb2)
from tessera.views import Check, Explanation, Job, Profile

T = TypeVar("T")


class Client:
    """A connection to a service. Thread-safe; connects on first use.

    Every method raises a :class:`tessera.errors.TesseraError`. Unanswered calls are repeated, for a minute if the server has
    answered before.
    """

    def __init__(self, address: str | None = None, identity: Identity | None = None) -> None:
        """`address` is host:port or unix:/path; the default is TESSERA_SERVER or localhost:7400. The default of `identity`
        comes from the environment (TESSERA_TOKEN and others, as for the command line)."""
        self._connection = Connection(address_or_default(address), identity or Identity.of_environment())

    @property
    def address(self) -> str:
        return self._connection.address

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tessera.Client of {self.address}>"

    def _drive(self, steps: Steps[T]) -> T:
        return drive(steps, self._connection)

    # Models.

    def compile(self, model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
                dims: DimsLike | None = None, fixed: Mapping[str, Any] | None = None,
                external_data: Mapping[str, str | os.PathLike[str]] | None = None, format: str | None = None,
                name: str | None = None, opt_level: int = 0, verify: bool = False, precision: str = "model",
                state: str | Mapping[str, str] | None = None, training: Training | None = None,
                cache: bool = True, priority: int = 0, request_id: str | None = None, queue_timeout: float | None = None,
                run_timeout: float | None = None, total_timeout: float | None = None,
                on_progress: OnProgress | None = None) -> Compilation:
        """Uploads and compiles a model; returns a future at once.

        :param model: a path (ONNX, ``.mlir``, ``.te``), a model's bytes, or an ``onnx.ModelProto``.
        :param target: "host", a name (see ``targets()``), the path of a ``.textproto``, or a ``v1.Target``.
        :param shapes: shapes of inputs, e.g. ``{"x": (1, 3, 224, 224)}``; a list of shapes makes one variant each.
        :param dims: sizes of symbolic dimensions, e.g. ``{"N": 4}`` or ``{"N": (1, 4, 8), "seq": range(128, 513, 128)}``; every
            combination becomes a variant of one artifact, at most 64. ``{"N": "1..64"}`` is a range with variants for at most
            1, 2, 4, ... 64; a run of another size uses the next larger variant, padded. ``"..64"`` is one variant for all sizes
            up to 64. ``{"total": "past + tokens"}`` derives a dimension from others.
        :param fixed: values of inputs that decide shapes; the inputs stay, with this value.
        :param external_data: files of an ONNX model's external tensors, by location; other locations are resolved in the
            model's folder.
        :param format: "onnx", "mlir" or "te", regardless of the file's name.
        :param name: name of the artifact; default: the file's stem.
        :param opt_level: 1: plain loops, for debugging; 2 (or 0): full optimization.
        :param verify: compare every step of the compiler with an interpreter.
        :param precision: "bf16": round operands of float products with weights to bf16; "model": keep the model's types.
        :param state: outputs that the artifact keeps as inputs of the next run, ``{"past": "present"}`` (see ``Model.state``);
            "auto": pairs with names of exporters, such as past_key_values.0.key and present.0.key.
        :param training: compiles a step of the model's training, ``Training("cross-entropy", optimizer="adamw")``: its states
            (``Model.state``) are the parameters.
        :param cache: False compiles even if an equal request was answered before.
        :param priority: higher priorities run first.
        :param request_id: equal ids make a repeated call the same job.
        :param queue_timeout: limit in seconds of the wait to start; `run_timeout`: of one task; `total_timeout`: of the whole
            job.
        :param on_progress: called with each Progress, in the compilation's thread.
        """
        request = CompileRequest(model, target, shapes, dims, fixed, external_data, format, name, opt_level, verify,
                                 precision, state, training)
        options = _requests.options(cache, priority, request_id, queue_timeout, run_timeout, total_timeout)
        return Compilation(self, request, options, on_progress)

    def tune(self, model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
             dims: DimsLike | None = None, fixed: Mapping[str, Any] | None = None,
             external_data: Mapping[str, str | os.PathLike[str]] | None = None, format: str | None = None,
             name: str | None = None, mode: str = "async", method: str = "", trials: int = 0, budget: float | None = None,
             threads: int = 1, seed: int = 1, workloads: Sequence[str] = (), top: int = 0, cold: bool = False,
             records: bool = True, choices: int | None = None, priority: int = 0, request_id: str | None = None,
             queue_timeout: float | None = None, total_timeout: float | None = None,
             on_progress: OnProgress | None = None) -> Tuning:
        """Searches schedules for a model by measuring them on workers; returns a future at once.

        The model's arguments are those of ``compile``. The future's ``result()`` is the tuned artifact. With ``follow()`` the
        model runs during the search and gets faster.

        :param mode: when versions of the artifact are published: "async": at once and whenever schedules are confirmed; "sync":
            at once and whenever all searches have finished a batch; "static": at the end.
        :param method: method of the search: "model" (the default, ""), "q", "walk", "p", "random" or "evolutionary".
        :param trials: limit of measured candidates for each workload; 0 stands for 64.
        :param budget: seconds after which no trial starts; default: five minutes.
        :param threads: number of threads of the timed runs.
        :param seed: seed of proposals and inputs.
        :param workloads: search only workloads with one of these texts in their hash or summary.
        :param top: search only this many workloads, those with the most time; 0 stands for all.
        :param cold: evict operands from all caches before each timed run.
        :param records: False ignores earlier records.
        :param choices: number of graph choices (algorithms, fusions, splits) to measure whose predicted costs are too close; 0:
            none; default: 8.
        :param on_progress: called with each Progress, in a thread of the search.
        """
        request = CompileRequest(model, target, shapes, dims, fixed, external_data, format, name)
        options = _requests.options(True, priority, request_id, queue_timeout, None, total_timeout)
        search = _versions.tuning(mode, method, trials, budget, threads, seed, workloads, top, cold, records, choices)
        return Tuning(self, request, options, search, on_progress)

    def versions(self, job_id: str) -> Table[Version]:
        """The versions of a tune job's artifact, with their times."""
        return self._drive(_versions.versions(job_id))

    def choose_version(self, job_id: str, number: int) -> Version:
        """Chooses the version that programs following the job run; 0: the newest published one."""
        return self._drive(_versions.choose(job_id, number))

    def follow(self, job_id: str, threads: int = 1, *, on_version: OnVersion | None = None,
               timeout: float | None = None) -> Following:
        """Follows the artifact of a tune job: returns a callable whose model is replaced, between two runs, by better or chosen
        versions.

        Waits up to `timeout` seconds for the first version. `on_version` is called with each version that starts to run.
        Versions are native code: follow only jobs that you trust.
        """
        return Following(self, job_id, threads, on_version, timeout)

    def check(self, model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
              dims: DimsLike | None = None, fixed: Mapping[str, Any] | None = None,
              external_data: Mapping[str, str | os.PathLike[str]] | None = None, format: str | None = None) -> Check:
        """Lists all problems that would keep a model from compiling; compiles nothing."""
        request = CompileRequest(model, target, shapes, dims, fixed, external_data, format)
        return Check(self._drive(_jobs.ask(request, job_pb2.AnalyzeSpec.CHECK, analysis_pb2.CheckReport(),
                                           lambda progress: None, self._connection.known_blobs)))

    def explain(self, model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
                dims: DimsLike | None = None, fixed: Mapping[str, Any] | None = None,
                external_data: Mapping[str, str | os.PathLike[str]] | None = None,
                format: str | None = None) -> Explanation:
        """Explains how the compiler transforms a model's graph; builds nothing."""
        return self._explain(CompileRequest(model, target, shapes, dims, fixed, external_data, format))

    def _explain(self, request: CompileRequest) -> Explanation:
        return Explanation(self._drive(_jobs.ask(request, job_pb2.AnalyzeSpec.EXPLAIN, analysis_pb2.Explanation(),
                                                 lambda progress: None, self._connection.known_blobs)))

    def explain_key(self, model: ModelLike, target: TargetLike = "host", *, shapes: ShapesLike | None = None,
                    dims: DimsLike | None = None, fixed: Mapping[str, Any] | None = None) -> Any:
        """Explains why such a compilation is, or is not, answered from the cache: a ``v1.ExplainKeyResponse``."""
        return self._drive(_requests.explain_key(CompileRequest(model, target, shapes, dims, fixed)))

    # Jobs.

    def job(self, job_id: str) -> Job:
        return Job(self._drive(_jobs.get(job_id)))

    def jobs(self, filter: str = "", order_by: str = "create_time desc", limit: int = 50,
             page_token: str = "") -> Table[Job]:
        """Filters (AIP-160) over id, state, kind, target, name, request_id, create_time; `limit` 0 stands for all."""
        return self._drive(_lists.jobs(filter, order_by, limit, page_token))

    def wait(self, job_id: str, on_event: Any = None) -> Job:
        """Follows a job to its end, across restarts of the server, and returns it in any terminal state."""
        return Job(self._drive(_jobs.follow(job_id, on_event or (lambda event: None))))

    def cancel(self, job_id: str) -> Job:
        return Job(self._drive(_jobs.cancel(job_id)))

    # Artifacts.

    def artifact(self, artifact_id: str) -> Artifact:
        found = self._drive(get_artifact(artifact_id))
        artifact = Artifact(self, found.id, found.blob)
        artifact._manifest = found.manifest
        return artifact

    def artifacts(self, filter: str = "", order_by: str = "create_time desc", limit: int = 50,
                  page_token: str = "") -> Table[artifact_pb2.Artifact]:
        """Filters over id, name, target, model, job, create_time."""
        return self._drive(_lists.artifacts(filter, order_by, limit, page_token))

    def execute(self, artifact: Artifact | str, inputs: Mapping[str, Any], *, threads: int = 1,
                queue_timeout: float | None = None, run_timeout: float | None = None) -> dict[str, Any]:
        """Runs an artifact once on a worker; returns outputs by name."""
        deadlines = _requests.deadlines(queue_timeout, run_timeout)
        return self._drive(_jobs.execute(_requests.id_of(artifact), inputs, threads, deadlines))

    def profile(self, artifact: Artifact | str, inputs: Mapping[str, Any] | None = None, *, threads: int = 1,
                warmup: int = 3, repeat: int = 10, seed: int = 1, queue_timeout: float | None = None,
                run_timeout: float | None = None) -> Profile:
        """Times an artifact and its kernels on a worker; the times become records. Missing inputs are generated from `seed`."""
        options = {"threads": threads, "warmup": warmup, "repeat": repeat, "seed": seed}
        deadlines = _requests.deadlines(queue_timeout, run_timeout)
        return Profile.of(self._drive(_jobs.profile(_requests.id_of(artifact), inputs or {}, options, deadlines)))

    # Data of the service.

    def records(self, filter: str = "", order_by: str = "create_time desc", limit: int = 50,
                page_token: str = "") -> Table[record_pb2.TuningRecord]:
        """Measurements. Filters over workload, summary, target, host, job, mode, median_ms, create_time."""
        return self._drive(_lists.records(filter, order_by, limit, page_token))

    def targets(self, filter: str = "", order_by: str = "name", limit: int = 0,
                page_token: str = "") -> Table[target_service_pb2.GetTargetResponse]:
        """Filters over name, family and others, e.g. ``family = "X86_64"``."""
        return self._drive(_lists.targets(filter, order_by, limit, page_token))

    def target(self, name: str) -> target_pb2.Target:
        """Returns a target's description by name; "host" is this machine."""
        return targets.host() if name == "host" else self._drive(_requests.get_target(name))

    def validate_target(self, target: TargetLike) -> list[tuple[str, str]]:
        """Returns all problems of a description as (field, message)."""
        return self._drive(_requests.validate_target(target))

    def register_target(self, target: TargetLike) -> bool:
        """Registers a description under its name; False if it is registered already."""
        return self._drive(_requests.register_target(target))

    def workers(self, filter: str = "", order_by: str = "id", limit: int = 0,
                page_token: str = "") -> Table[worker_service_pb2.Worker]:
        return self._drive(_lists.workers(filter, order_by, limit, page_token))

    def wanted_workers(self, kind: str = "", target: str = "") -> Table[worker_service_pb2.WantedWorkers]:
        """How many workers would run all waiting and running tasks at once, by kind of task ("build", "measure", ...) and
        target, over all projects."""
        return self._drive(_lists.wanted_workers(kind, target))

    def operators(self, filter: str = "", order_by: str = "name", limit: int = 0,
                  page_token: str = "") -> Table[operator_service_pb2.OperatorInfo]:
        """The supported operators with their versions."""
        return self._drive(_lists.operators(filter, order_by, limit, page_token))


_default: Client | None = None
_default_lock = threading.Lock()


def default_client() -> Client:
    """The client of ``tessera.compile`` and similar functions: TESSERA_SERVER, or localhost:7400."""
    global _default
    with _default_lock:
        address, identity = address_or_default(None), Identity.of_environment()
        if _default is None or (_default.address, _default._connection.identity) != (address, identity):
            _default = Client(address, identity)
        return _default
