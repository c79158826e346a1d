#pragma once

#include <cstdint>
#include <string>

namespace tessera::server::simulation {

/// Parameters derived from a seed: participants, and frequencies of faults. Chances are in percent.
struct Options {
  uint64_t seed = 0;
  int clients = 0;
  int workers = 0;
  int jobs_per_client = 0;
  int models = 0;
  // Of the network, per message.
  int lost = 0;
  int repeated = 0;
  int64_t longest_delay_us = 0;
  // Processes: mean time between incidents; 0: none.
  int64_t server_crash_us = 0;
  int64_t worker_incident_us = 0;  ///< the worker dies, restarts, or is suspended
  int broken_operations = 0;       ///< of the calls, in tenths: the server crashes at one of the call's disk operations
  int power_losses = 0;            ///< of the server's crashes
  int clock_steps = 0;             ///< of the server's starts: its clock is set to another time
  int suspensions = 0;             ///< of the worker's incidents: the server's machine is suspended too
  // Faults of workers and clients.
  int child_crashes = 0;  ///< of the attempts
  int ghosts = 0;         ///< of the deaths: the process lives on and reports late
  int hangs = 0;          ///< of the attempts: heartbeats continue, but the attempt never ends
  int sick_workers = 0;   ///< of the workers: every attempt fails until the faults end
  int untold = 0;       ///< of the sick workers: attempts crash; those of the others are reported as the worker's fault
  int wrong_sizes = 0;  ///< of the jobs: the stated size is not the blob's
  int unequal_limits = 0;  ///< of the jobs: a short limit of a run, of the wait or of the whole job
  int cancels = 0;
  int64_t fault_phase_us = 0;

  std::string text() const;
};

/// Equal seeds give equal options. Some seeds have few kinds of faults, some many.
Options optionsOf(uint64_t seed);

}  // namespace tessera::server::simulation
