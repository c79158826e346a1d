"""Faults at random moments of a compilation, repeated: shared by all suites that kill processes."""

import time

from checks import check, check_equal
from faults import fault_service as faults


class Campaign:
    """A service, the artifact of an undisturbed compilation, and the reasons of all lost attempts so far."""

    def __init__(self, service, name):
        self.service = service
        self.random = faults.seeded_random(name)
        self.expected, self.seconds = service.baseline_artifact()
        self.reasons = []

    def check_finished(self, job, follower=None):
        """Checks that the job ended once, with the undisturbed artifact's bytes. Returns the reasons of its failed attempts."""
        events, finished = self.service.history(job, follower)
        faults.check_finished_once(events, finished)
        check_equal(self.service.fetch(finished), self.expected, "artifact")
        return faults.failed_attempts(events)

    def run_with_fault(self, harm, *arguments):
        """One compilation, and `harm(follower)` at a random moment of it: (job, follower, reasons of failed attempts).

        The follower is one `tessera watch` for the whole time; harm returns when the service can continue.
        """
        job = self.service.submit(*arguments)
        follower = self.service.follow(job)
        time.sleep(self.random.uniform(0, self.seconds))
        harm(follower)
        return job, follower, self.check_finished(job, follower)

    def note_lost(self, reasons):
        # CANCELLED: the worker died between the commit of its lease and the answer, and the server took the task back.
        check(set(reasons) <= {"LEASE_LOST", "CANCELLED"}, f"attempts failed for other reasons: {reasons}")
        self.reasons += reasons

    def some_kill_hit_a_task(self):
        print(f"   {len(self.reasons)} attempts were lost")
        check(self.reasons, "no kill came while a task was at work")
