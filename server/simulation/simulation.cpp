#include "server/simulation/simulation.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "server/queue/jobs.h"
#include "server/simulation/checker.h"
#include "server/simulation/client.h"
#include "server/simulation/worker.h"
#include "server/simulation/world.h"

namespace tessera::server::simulation {

Outcome simulate(uint64_t seed, bool keep_trace) {
  spdlog::set_level(spdlog::level::off);  // late reports are expected in thousands
  const Options options = optionsOf(seed);
  World world(options);
  world.keep_trace = keep_trace;
  world.start();
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < options.workers; ++i) {
    workers.push_back(std::make_unique<Worker>(world, i));
    workers.back()->start();
  }
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < options.clients; ++i) {
    clients.push_back(std::make_unique<Client>(world, i));
    clients.back()->start();
  }
  const auto run = [&](int64_t end_us, const auto& over) {
    while (world.problems.empty() && !over() && world.loop.step(end_us)) {
    }
  };
  run(options.fault_phase_us, [] { return false; });
  world.heal();
  for (const auto& worker : workers) {
    worker->heal();
  }
  const int64_t healed_us = world.loop.now_us();
  run(healed_us + kSettleUs,
      [&] { return std::all_of(clients.begin(), clients.end(), [](const auto& client) { return client->done(); }); });

  Outcome outcome;
  outcome.settled_us = world.loop.now_us() - healed_us;
  // Attempts that no job needs end with their next heartbeat, or with their lease.
  run(world.loop.now_us() + 30'000'000, [] { return false; });
  if (world.problems.empty()) {
    for (const auto& client : clients) {
      if (!client->done()) {
        world.wrong("a client still waits");
      }
      checkClient(world, *client);
    }
    checkLeftovers(world);
  }
  for (const auto& client : clients) {
    for (const auto& [id, promise] : client->promises()) {
      ++outcome.jobs;
      outcome.succeeded += promise.job.state() == v1::Job::SUCCEEDED ? 1 : 0;
    }
  }
  outcome.options = options.text();
  outcome.problems = world.problems;
  outcome.trace = world.trace;
  outcome.trace_hash = world.trace_hash;
  outcome.steps = world.loop.steps();
  return outcome;
}

}  // namespace tessera::server::simulation
