#pragma once

#include <cstdint>
#include <string>

namespace tessera::server::simulation {

/// What a seed stands for: how many take part, and what goes wrong how often. Chances are in percent.
struct Options {
  uint64_t seed = 0;
  int clients = 0;
  int workers = 0;
  int jobs_per_client = 0;
  int models = 0;
  // The network, each message.
  int lost = 0;
  int repeated = 0;
  int64_t longest_delay_us = 0;
  // Processes: the mean time between incidents; 0 = none.
  int64_t server_crash_us = 0;
  int64_t worker_incident_us = 0;  ///< it dies, restarts, or stands still
  int broken_operations = 0;       ///< of the calls, in tenths: the server ends at one of the call's disk operations
  int power_losses = 0;            ///< of the server's crashes
  int clock_steps = 0;             ///< of the server's starts: its clock says something else then
  int suspensions = 0;             ///< of the worker's incidents: the machine of the server stands still too
  // What workers and clients do wrong.
  int child_crashes = 0;   ///< of the attempts
  int ghosts = 0;          ///< of the deaths: the process lives on unseen and reports late
  int hangs = 0;           ///< of the attempts: they beat and never end
  int sick_workers = 0;    ///< of the workers: they can do nothing, until the faults end
  int untold = 0;          ///< of the sick: their attempts crash; the others' are reported as the worker's fault
  int wrong_sizes = 0;     ///< of the jobs: the digest's size is not the blob's
  int unequal_limits = 0;  ///< of the jobs: a short limit for a run, the wait or all of it
  int cancels = 0;
  int64_t fault_phase_us = 0;

  std::string text() const;
};

/// Equal seeds give equal options: swarms of few faults as well as of many.
Options optionsOf(uint64_t seed);

}  // namespace tessera::server::simulation
