"""The faults of a run and their times: a function of the seed alone, so a seed replays."""

import dataclasses
import random

from faults.cluster.cluster import CLIENTS, SERVERS, WORKERS

SERVER_NAMES = [f"server-{number}" for number in range(SERVERS)]
WORKER_NAMES = [f"worker-{number}" for number in range(WORKERS)]
CLIENT_NAMES = [f"client-{number}" for number in range(CLIENTS)]
DATABASES = ["database-0", "database-1"]

# Pairs of groups that a partition separates.
PAIRS = ((SERVER_NAMES, DATABASES), (SERVER_NAMES, ["bucket"]), (WORKER_NAMES, SERVER_NAMES), (CLIENT_NAMES, SERVER_NAMES),
         (["database-0"], ["database-1"]))
HARMS = ("silent", "one-way", "reset", "refused", "delayed", "lossy", "half-closed")


@dataclasses.dataclass(frozen=True)
class Fault:
    at_s: float      # since the load began
    kind: str        # kill, freeze, kill-task, connection, promote, full-disk
    lasts_s: float   # until the process starts again, continues, or the connection is healed
    names: tuple = ()   # processes; of connections: one side
    others: tuple = ()  # of connections: the other side
    harm: str = ""      # of connections: one of HARMS
    direction: int = 0  # of one-way and half-closed

    def __str__(self):
        what = f"{self.harm} {','.join(self.names)} - {','.join(self.others)}" if self.harm else ",".join(self.names)
        return f"{self.at_s:5.1f} s: {self.kind} {what} for {self.lasts_s:.1f} s"


@dataclasses.dataclass(frozen=True)
class Plan:
    seed: int
    faults: tuple
    small_disk: str | None  # the process whose disk a fault fills

    def __str__(self):
        return "\n".join([f"seed {self.seed}", *(f"   {fault}" for fault in self.faults)])


def connection_fault(chance, at_s):
    some, others = chance.choice(PAIRS)
    harm = chance.choice(HARMS)
    # One process, a few or all of each side.
    names = tuple(chance.sample(some, chance.randint(1, len(some))))
    others = tuple(chance.sample(others, chance.randint(1, len(others))))
    return Fault(at_s, "connection", chance.uniform(0.5, 6), names, others, harm, chance.randint(0, 1))


def make_plan(seed, seconds, may_mount):
    """`may_mount`: whether a run may mount a small disk."""
    chance = random.Random(f"plan {seed}")
    small_disk, faults, at_s = None, [], 0.5
    kinds = ("kill", "kill", "freeze", "freeze", "kill-task", "connection", "connection", "connection", "promote", "full-disk")
    promoted = False
    while at_s < seconds:
        lasts_s = chance.uniform(0.3, 6)
        kind = chance.choice(kinds)
        if kind in ("kill", "freeze"):
            name = chance.choice(SERVER_NAMES + WORKER_NAMES + DATABASES + ["bucket"])
            faults.append(Fault(at_s, kind, lasts_s, (name,)))
        elif kind == "kill-task":
            faults.append(Fault(at_s, kind, 0))
        elif kind == "connection":
            faults.append(connection_fault(chance, at_s))
        elif kind == "promote" and not promoted:
            promoted = True
            faults.append(Fault(at_s, kind, lasts_s))
        elif kind == "full-disk" and may_mount and small_disk is None:
            small_disk = chance.choice(SERVER_NAMES + WORKER_NAMES)
            faults.append(Fault(at_s, kind, lasts_s, (small_disk,)))
        at_s += chance.uniform(0.2, 3)
    return Plan(seed, tuple(faults), small_disk)
