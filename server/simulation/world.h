#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/queue/scheduler.h"
#include "server/simulation/event_loop.h"
#include "server/simulation/options.h"
#include "server/testing/fake_work.h"
#include "server/workflows/workflows.h"
#include "storage/testing/faulty_disk.h"
#include "storage/testing/faulty_files.h"

namespace tessera::server::simulation {

/// Time between two polls of a client or a worker.
inline constexpr int64_t kPollUs = 1'500'000;

/// The server's clock: simulated time, plus an offset by which it was set wrong.
class SimulatedClock : public Clock {
 public:
  explicit SimulatedClock(const EventLoop& loop) : loop_(loop) {}
  int64_t nowMicros() override { return 1'700'000'000'000'000 + loop_.now_us() + offset_us; }
  int64_t offset_us = 0;

 private:
  const EventLoop& loop_;
};

class NumberedIds : public IdSource {
 public:
  std::string next(std::string_view prefix) override { return absl::StrCat(std::string(prefix), "-", ++last_); }
  std::string secret() override { return absl::StrCat("secret ", ++last_); }

 private:
  int64_t last_ = 0;
};

/// The service's machine, the network, and the record of all acknowledgements. It runs the real scheduler on the real
/// blob store on a simulated disk, with a store in memory that keeps committed transactions.
class World {
 public:
  explicit World(const Options& chosen);

  EventLoop loop;
  Dice dice;
  const Options options;
  int sound_workers = 0;  ///< workers that can run their tasks

  // --- The server. Only events of its own may call these, and only while it is up.
  bool up() const { return scheduler_ != nullptr; }
  Scheduler& scheduler() { return *scheduler_; }
  storage::BlobStore& blobs() { return *blobs_; }
  storage::Store& store() { return *store_; }
  void start();
  /// Ends the process; with `power`, also loses the machine's page cache.
  void crash(bool power);
  /// The server does nothing for this time, and then catches up.
  void stall(int64_t for_us) { stalled_until_us_ = std::max(stalled_until_us_, loop.now_us() + for_us); }

  // --- The network.
  /// Delivers a message later, once, twice or never. `to_server`: only while the server is up.
  void send(bool to_server, const std::function<void()>& message);
  /// Ends all faults: every message is delivered, and nothing crashes.
  void heal();
  bool healed() const { return healed_; }

  /// A fake compiler that reads and writes `files`.
  FakeWork work(std::map<std::string, std::string>& files) const;

  /// Reports a problem, unless the server is just crashing: then nobody receives its answer.
  void wrong(const std::string& what) {
    if (!disk_.powerLost()) problems.push_back(absl::StrCat(loop.now_us(), " us: ", what));
  }
  std::vector<std::string> problems;
  /// Adds a line to the trace if it is kept. All lines are hashed.
  void note(const std::string& line);
  uint64_t trace_hash = 0;
  bool keep_trace = false;
  std::vector<std::string> trace;

 private:
  void deliver(bool to_server, const std::function<void()>& message, int64_t delay_us);
  void sweepOften(int64_t life);
  void restartLater();

  SimulatedClock clock_;
  NumberedIds ids_;
  storage::FaultyDisk disk_;
  const std::unique_ptr<storage::FileSystem> files_;
  const std::unique_ptr<storage::Store> store_;
  std::unique_ptr<storage::BlobStore> blobs_;
  const Workflows workflows_{};
  std::unique_ptr<Scheduler> scheduler_;
  /// First life of the server in which small blobs are rows, by the seed: all, all but the first, or none.
  const int64_t rows_from_life_;
  int64_t life_ = 0;  ///< of the server's process; events of an earlier life are ignored
  int64_t stalled_until_us_ = 0;
  bool healed_ = false;
};

/// A caller of the server. Each call is repeated until it is answered; only the first answer counts.
class Caller {
 public:
  explicit Caller(World& world) : world_(world) {}

  /// `request` runs on the server, `answered` at the caller. A call replaces one that is not answered yet.
  template <typename Answer>
  void call(const std::function<Answer()>& request, const std::function<void(Answer)>& answered) {
    const int64_t number = ++number_;
    world_.send(true, [this, number, request, answered] {
      // The server processes a request whether or not the caller still waits.
      const Answer answer = request();
      world_.send(false,
                  [this, number, answer, answered] { receive(number, [answered, answer] { answered(answer); }); });
    });
    world_.loop.after(kPatienceUs, [this, number, request, answered] {
      receive(number, [this, request, answered] { call<Answer>(request, answered); });
    });
  }
  /// Ignores the answers under way.
  void hangUp() { ++number_; }
  /// Receives nothing until then.
  void pauseUntil(int64_t time_us) { paused_until_us_ = time_us; }

 private:
  static constexpr int64_t kPatienceUs = 2'000'000;

  void receive(int64_t number, const std::function<void()>& what) {
    if (number != number_) {
      return;
    }
    if (world_.loop.now_us() < paused_until_us_) {
      return world_.loop.at(paused_until_us_, [this, number, what] { receive(number, what); });
    }
    ++number_;
    what();
  }

  World& world_;
  int64_t number_ = 0;
  int64_t paused_until_us_ = 0;
};

}  // namespace tessera::server::simulation
