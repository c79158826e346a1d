#include "proto/messages/plan_loops.h"

#include <algorithm>
#include <numeric>

namespace tessera {

std::vector<int64_t> iterationsOfSteps(const v1::Plan& plan) {
  constexpr int64_t kMost = int64_t{1} << 31;
  struct Open {
    int last_step;
    int64_t times;
  };
  std::vector<Open> open;  // enclosing loops of the step, innermost last
  std::vector<int64_t> times;
  int next = 0;
  for (int step = 0; step < plan.steps_size(); ++step) {
    while (!open.empty() && open.back().last_step <= step) open.pop_back();
    for (; next < plan.loops_size() && plan.loops(next).first_step() <= step; ++next) {
      const int64_t around = open.empty() ? 1 : open.back().times;
      const int64_t own = std::clamp<int64_t>(plan.loops(next).max_iterations(), 1, kMost);
      // The product stays below 2^62: both factors are at most 2^31.
      if (plan.loops(next).last_step() > step)
        open.push_back({plan.loops(next).last_step(), std::min(kMost, around * own)});
    }
    times.push_back(open.empty() ? 1 : open.back().times);
  }
  return times;
}

std::vector<int> memoryOfBuffers(const v1::Plan& plan) {
  std::vector<int> memory(static_cast<size_t>(plan.buffers_size()));
  std::iota(memory.begin(), memory.end(), 0);
  const auto set = [&](int part, int whole) {
    if (part < 0 || part >= plan.buffers_size() || whole < 0 || whole >= plan.buffers_size()) return;
    memory[static_cast<size_t>(part)] = memory[static_cast<size_t>(whole)];
  };
  // Outer loops come first, so entries that an inner loop refers to are final.
  for (const v1::StepLoop& loop : plan.loops()) {
    for (const v1::StepLoop::Carried& carried : loop.carried()) {
      set(carried.before(), carried.initial());
      set(carried.after(), carried.result());
    }
    for (const v1::StepLoop::Scan& scan : loop.scans()) set(scan.part(), scan.whole());
  }
  return memory;
}

}  // namespace tessera
