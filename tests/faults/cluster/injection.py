"""Carries out a plan on a cluster."""

import errno
import os
import random
import signal
import time

from faults.cluster.links import BACKWARD, FORWARD, Harm

HARM_OF = {"silent": lambda _: Harm(silent=(FORWARD, BACKWARD)), "one-way": lambda direction: Harm(silent=(direction,)),
           "refused": lambda _: Harm(refuses=True), "delayed": lambda _: Harm(delay_s=0.3), "lossy": lambda _: Harm(loss=0.3)}


class Injection:
    """Injects faults; they may overlap. end() heals everything."""

    def __init__(self, cluster, plan):
        self.cluster, self.plan = cluster, plan
        self.notes = []  # what happened, with times
        self._chance = random.Random(f"injection {plan.seed}")
        self._start = time.monotonic()
        self._undo = []                 # (time, action)
        self._down, self._frozen, self._promoting = set(), set(), False

    def note(self, text):
        self.notes.append(f"{time.monotonic() - self._start:6.2f} s: {text}")

    def run(self):
        """Injects all faults at their times, and ends each at its time."""
        self._start = time.monotonic()
        for fault in self.plan.faults:
            self._wait_until(fault.at_s)
            self._inject(fault)
        self._wait_until(max((fault.at_s + fault.lasts_s for fault in self.plan.faults), default=0))
        self.end()

    def _wait_until(self, at_s):
        while True:
            due = [entry for entry in self._undo if entry[0] <= time.monotonic()]
            for entry in sorted(due, key=lambda each: each[0]):
                self._undo.remove(entry)
                entry[1]()
            for name in self.cluster.start_ended(self._down):
                self.note(f"{name} ended and is started again")
            left = self._start + at_s - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.05))

    def _later(self, seconds, action):
        self._undo.append((time.monotonic() + seconds, action))

    def end(self):
        for _, action in self._undo:
            action()
        self._undo.clear()
        self.cluster.network.heal()
        self.note("all faults are healed")

    def _inject(self, fault):
        getattr(self, "_" + fault.kind.replace("-", "_"))(fault)

    def _kill(self, fault):
        [name] = fault.names
        if self._unavailable(name):
            return
        self.note(f"kill -9 {name}")
        self._down.add(name)
        self.cluster.kill(name)
        self._later(fault.lasts_s, lambda: self._start_again(name))

    def _unavailable(self, name):
        """Whether the process is dead, frozen, or about to be promoted."""
        return name in self._down or name in self._frozen or (self._promoting and name == "database-1")

    def _start_again(self, name):
        self._down.discard(name)
        self.note(f"start {name}")
        self.cluster.start_again(name)

    def _freeze(self, fault):
        [name] = fault.names
        if self._unavailable(name):
            return
        self.note(f"SIGSTOP {name}")
        self._frozen.add(name)
        self.cluster.signal(name, signal.SIGSTOP)

        def go_on():
            self._frozen.discard(name)
            self.note(f"SIGCONT {name}")
            self.cluster.signal(name, signal.SIGCONT)
        self._later(fault.lasts_s, go_on)

    def _kill_task(self, fault):
        tasks = self.cluster.task_processes()
        if tasks:
            self.note("kill -9 a task process")
            try:
                os.kill(self._chance.choice(sorted(tasks)), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _connection(self, fault):
        network = self.cluster.network
        links = network.between(set(fault.names), set(fault.others))
        self.note(f"connections {','.join(fault.names)} - {','.join(fault.others)}: {fault.harm}")
        if fault.harm == "reset":
            network.reset(links)
        elif fault.harm == "half-closed":
            network.half_close(links, fault.direction)
        else:
            network.harm(links, HARM_OF[fault.harm](fault.direction))

            def heal():
                self.note(f"connections {','.join(fault.names)} - {','.join(fault.others)}: healed")
                network.heal(links)
                # A connection may also have been given up meanwhile.
                if self._chance.random() < 0.5:
                    network.reset(links)
            self._later(fault.lasts_s, heal)

    def _promote(self, fault):
        """The primary dies; the standby replaces it after a while."""
        database = self.cluster.database
        if database.standby is None or {"database-0", "database-1"} & (self._down | self._frozen):
            return
        self.note("kill -9 the primary")
        self._down.add("database-0")
        self._promoting = True
        database.primary.kill()

        def promote():
            self.note("promote the standby")
            database.promote()
            self._promoting = False
        self._later(fault.lasts_s, promote)

    def _full_disk(self, fault):
        [name] = fault.names
        path = self.cluster.disk_of(name) / "filler"
        self.note(f"fill the disk of {name}")
        with open(path, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

        def free():
            self.note(f"free the disk of {name}")
            path.unlink()
        self._later(fault.lasts_s, free)
