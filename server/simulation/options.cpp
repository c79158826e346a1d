#include "server/simulation/options.h"

#include "absl/strings/str_cat.h"
#include "server/simulation/event_loop.h"

namespace tessera::server::simulation {
namespace {

/// Half of the seeds have no fault of this kind, so that faults which occur alone are found too.
int chance(Dice& dice, int highest) { return dice.percent(50) ? 0 : static_cast<int>(dice.between(1, highest)); }
int64_t interval(Dice& dice, int64_t shortest_us, int64_t longest_us) {
  return dice.percent(50) ? 0 : dice.between(shortest_us, longest_us);
}

}  // namespace

Options optionsOf(uint64_t seed) {
  Dice dice(seed * 2 + 1);
  Options options;
  options.seed = seed;
  options.clients = static_cast<int>(dice.between(1, 3));
  options.workers = static_cast<int>(dice.between(1, 4));
  options.jobs_per_client = static_cast<int>(dice.between(1, 4));
  options.models = static_cast<int>(dice.between(1, 4));
  options.lost = chance(dice, 30);
  options.repeated = chance(dice, 30);
  options.longest_delay_us = dice.percent(50) ? 5'000 : dice.between(5'000, 3'000'000);
  options.server_crash_us = interval(dice, 3'000'000, 20'000'000);
  options.worker_incident_us = interval(dice, 2'000'000, 20'000'000);
  options.broken_operations = options.server_crash_us > 0 ? chance(dice, 10) : 0;
  options.power_losses = chance(dice, 100);
  options.clock_steps = chance(dice, 60);
  options.suspensions = chance(dice, 20);
  options.child_crashes = chance(dice, 20);
  options.ghosts = chance(dice, 80);
  options.hangs = chance(dice, 10);
  options.sick_workers = chance(dice, 50);
  options.wrong_sizes = chance(dice, 20);
  options.unequal_limits = chance(dice, 40);
  options.cancels = chance(dice, 30);
  options.fault_phase_us = dice.between(10'000'000, 40'000'000);
  options.untold = chance(dice, 100);
  return options;
}

std::string Options::text() const {
  return absl::StrCat("seed ", seed, ": clients ", clients, ", workers ", workers, ", jobs per client ",
                      jobs_per_client, ", models ", models, "; network: lost ", lost, " %, repeated ", repeated,
                      " %, delay up to ", longest_delay_us, " us; server crashes every ", server_crash_us, " us, in ",
                      broken_operations, " of 1000 calls, power lost ", power_losses, " %, clock steps ", clock_steps,
                      " %; worker incidents every ", worker_incident_us, " us, ghosts ", ghosts, " %, suspensions ",
                      suspensions, " %; attempts: crash ", child_crashes, " %, hang ", hangs, " %; sick workers ",
                      sick_workers, " % (crash ", untold, " %); jobs: wrong sizes ", wrong_sizes, " %, unequal limits ",
                      unequal_limits, " %, cancelled ", cancels, " %; faults for ", fault_phase_us, " us");
}

}  // namespace tessera::server::simulation
