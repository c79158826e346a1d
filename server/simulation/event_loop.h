#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <utility>

namespace tessera::server::simulation {

/// Events in the order of simulated time; those of equal time in the order in which they were added.
class EventLoop {
 public:
  int64_t now_us() const { return now_us_; }
  void at(int64_t time_us, std::function<void()> what) {
    events_.emplace(std::pair(std::max(time_us, now_us_), ++asked_), std::move(what));
  }
  void after(int64_t delay_us, std::function<void()> what) { at(now_us_ + delay_us, std::move(what)); }
  /// Runs the next event; false if there is none before `end_us`.
  bool step(int64_t end_us) {
    if (events_.empty() || events_.begin()->first.first > end_us) return false;
    auto event = events_.extract(events_.begin());
    now_us_ = event.key().first;
    ++steps_;
    event.mapped()();
    return true;
  }
  int64_t steps() const { return steps_; }

 private:
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>> events_;
  int64_t now_us_ = 0;
  uint64_t asked_ = 0;
  int64_t steps_ = 0;
};

/// The only source of randomness of a simulation.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  /// 0 to n - 1.
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool percent(int chance) { return below(100) < chance; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace tessera::server::simulation
