#include "server/simulation/world.h"

#include "proto/support/sha256.h"
#include "server/testing/scheduler_bench.h"
#include "storage/memory_store.h"

namespace tessera::server::simulation {
namespace {

using Survival = storage::FaultyDisk::Survival;

constexpr const char* kBlobs = "/data/blobs";
constexpr int64_t kSweepUs = 1'000'000;

Rules rulesOfSimulation() {
  Rules rules = SchedulerFixture::defaultRules();
  rules.lease_us = 6'000'000;
  rules.heartbeat_us = 2'000'000;
  rules.run_timeout_us = 60'000'000;
  return rules;
}

}  // namespace

World::World(const Options& chosen)
    : dice(chosen.seed),
      options(chosen),
      clock_(loop),
      files_(storage::filesOn(disk_)),
      store_(storage::makeMemoryStore()),
      rows_from_life_(chosen.seed % 3 == 2 ? INT64_MAX : static_cast<int64_t>(chosen.seed % 3)) {
  disk_.makeFolder("/data");
  disk_.syncFolder("/");
}

void World::start() {
  if (up()) {
    return;
  }
  note("server starts");
  if (!healed_ && dice.percent(options.clock_steps)) {
    clock_.offset_us = dice.between(-3'600'000'000, 3'600'000'000);
    note(absl::StrCat("its clock is wrong by ", clock_.offset_us));
  }
  storage::BlobStoreOptions blob_options;
  blob_options.files = files_.get();
  // In a data folder that predates rows, files stay files.
  blob_options.rows = life_ >= rows_from_life_ ? store_.get() : nullptr;
  auto blobs = storage::openBlobStore(kBlobs, blob_options);
  if (!blobs.ok()) {
    return wrong(absl::StrCat("blobs do not open: ", blobs.status().ToString()));
  }
  blobs_ = *std::move(blobs);
  scheduler_ = std::make_unique<Scheduler>(*store_, *blobs_, clock_, ids_, workflows_, rulesOfSimulation());
  if (const absl::Status status = scheduler_->recover("local-"); !status.ok()) {
    wrong(absl::StrCat("recover: ", status.ToString()));
  }
  const int64_t life = ++life_;
  loop.after(kSweepUs, [this, life] { sweepOften(life); });
  if (!healed_ && options.server_crash_us > 0) {
    loop.after(dice.between(1, 2 * options.server_crash_us), [this, life] {
      if (life == life_ && up() && !healed_) {
        crash(dice.percent(options.power_losses));
        restartLater();
      }
    });
  }
}

void World::crash(bool power) {
  note(power ? "server loses power" : "server is killed");
  disk_.cutPower();
  scheduler_.reset();
  blobs_.reset();
  disk_.restart(power ? (dice.percent(50) ? Survival::kNothing : Survival::kSome) : Survival::kEverything,
                static_cast<uint32_t>(dice.below(1 << 30)));
}

void World::restartLater() {
  loop.after(dice.between(100'000, 3'000'000), [this] { start(); });
}

void World::sweepOften(int64_t life) {
  if (life != life_ || !up()) {
    return;
  }
  if (loop.now_us() < stalled_until_us_) {
    return loop.at(stalled_until_us_, [this, life] { sweepOften(life); });
  }
  if (const absl::Status status = scheduler_->sweep(); !status.ok()) {
    wrong(absl::StrCat("sweep: ", status.ToString()));
  }
  loop.after(kSweepUs, [this, life] { sweepOften(life); });
}

void World::deliver(bool to_server, const std::function<void()>& message, int64_t delay_us) {
  loop.after(delay_us, [this, to_server, message] {
    if (to_server && loop.now_us() < stalled_until_us_) {
      return deliver(to_server, message, stalled_until_us_ - loop.now_us());
    }
    if (to_server && !up()) {
      return;
    }
    const bool breaks = to_server && !healed_ && dice.below(1000) < options.broken_operations;
    if (breaks) {
      disk_.plan({storage::FaultyDisk::Fault::kPowerLoss, dice.between(1, 12)});
    }
    message();
    if (breaks && disk_.powerLost()) {
      crash(dice.percent(options.power_losses));
      return restartLater();
    }
    disk_.plan({});
  });
}

void World::send(bool to_server, const std::function<void()>& message) {
  if (!to_server && disk_.powerLost()) {
    return;  // the server crashed during this call
  }
  if (healed_) {
    return deliver(to_server, message, dice.between(100, 2'000));
  }
  if (!dice.percent(options.lost)) {
    deliver(to_server, message, dice.between(100, options.longest_delay_us));
  }
  if (dice.percent(options.repeated)) {
    deliver(to_server, message, dice.between(100, 3 * options.longest_delay_us));
  }
}

void World::heal() {
  note("faults end");
  healed_ = true;
  start();
}

FakeWork World::work(std::map<std::string, std::string>& files) const {
  FakeWork work([&files](const v1::Digest& digest) { return files[digest.sha256()]; },
                [&files](const std::string& bytes) {
                  v1::Digest digest;
                  digest.set_sha256(sha256Hex(bytes));
                  digest.set_size_bytes(static_cast<int64_t>(bytes.size()));
                  files[digest.sha256()] = bytes;
                  return digest;
                });
  work.finishes_small = true;
  return work;
}

void World::note(const std::string& line) {
  const std::string stamped = absl::StrCat(loop.now_us(), " ", line);
  for (const char c : stamped) {
    trace_hash = (trace_hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;  // FNV-1a
  }
  if (keep_trace) {
    trace.push_back(stamped);
  }
}

}  // namespace tessera::server::simulation
