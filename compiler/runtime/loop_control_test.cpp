#include "compiler/runtime/loop_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>

namespace tessera::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A variant whose buffers are 8-byte numbers or rows of them, each with its own memory.
class Machine {
 public:
  int32_t memory(int64_t numbers = 1) {
    buffers_.push_back({TESSERA_BUFFER_ARENA, 0, 0, 8 * numbers});
    storage_.emplace_back(static_cast<size_t>(numbers), 0);
    return static_cast<int32_t>(buffers_.size()) - 1;
  }
  int32_t part(int32_t loop) {
    buffers_.push_back({TESSERA_BUFFER_LOOP, loop, 0, 8});
    storage_.emplace_back();
    return static_cast<int32_t>(buffers_.size()) - 1;
  }
  /// A step with these operands and number of phases.
  void step(std::vector<int32_t> operands, int32_t phases = 1) {
    operands_.push_back(std::move(operands));
    phases_.push_back(phases);
  }
  int64_t& number(int32_t buffer, size_t at = 0) { return storage_[static_cast<size_t>(buffer)][at]; }
  std::vector<tessera_module_loop>& loops() { return loops_; }

  /// Runs the calls: `call` receives the step and the addresses of its operands. Returns the steps in the order of
  /// their calls.
  std::vector<int> run(const std::function<void(int step, int64_t* const* operands)>& call) {
    std::vector<tessera_module_step> steps;
    std::vector<int> step_of;
    std::vector<size_t> first;
    size_t operands = 0;
    for (size_t s = 0; s < operands_.size(); ++s) {
      tessera_module_step& step = steps.emplace_back();
      step.operands = operands_[s].data();
      step.num_operands = static_cast<int32_t>(operands_[s].size());
      step.num_phases = phases_[s];
      step_of.insert(step_of.end(), static_cast<size_t>(phases_[s]), static_cast<int>(s));
      first.push_back(operands);
      operands += operands_[s].size();
    }
    tessera_module_variant variant{};
    variant.buffers = buffers_.data();
    variant.num_buffers = static_cast<int32_t>(buffers_.size());
    variant.steps = steps.data();
    variant.num_steps = static_cast<int32_t>(steps.size());
    variant.loops = loops_.data();
    variant.num_loops = static_cast<int32_t>(loops_.size());
    LoopControl control(variant);
    std::vector<void*> places;
    for (const auto& step : operands_)
      for (const int32_t buffer : step) places.push_back(storage_[static_cast<size_t>(buffer)].data());
    for (size_t b = 0; b < storage_.size(); ++b) control.setAddress(b, storage_[b].data());
    std::vector<int> order;
    for (size_t at = control.begin(places); at < step_of.size(); at = control.next(at)) {
      const int step = step_of[at];
      order.push_back(step);
      if (order.size() > 1000) break;  // it does not terminate
      if (at + 1 == step_of.size() || step_of[at + 1] != step)
        call(step, reinterpret_cast<int64_t* const*>(places.data() + first[static_cast<size_t>(step)]));
    }
    return order;
  }

 private:
  std::vector<tessera_module_buffer> buffers_;
  std::vector<std::vector<int64_t>> storage_;
  std::vector<std::vector<int32_t>> operands_;
  std::vector<int32_t> phases_;
  std::vector<tessera_module_loop> loops_;
};

constexpr int32_t kNone = -1;

/// state = 10 * state + row of x; y's row = state.
struct Digits {
  Machine machine;
  int32_t count, initial, result, executed, x, y, iteration;
  tessera_module_carried carried{};
  std::array<tessera_module_scan, 2> scans{};
  std::vector<int64_t> iterations = {};

  explicit Digits(bool reversed = false, int32_t phases = 1) {
    count = machine.memory(), initial = machine.memory(), result = machine.memory(), executed = machine.memory();
    x = machine.memory(4), y = machine.memory(4), iteration = machine.memory();
    carried = {initial, machine.part(0), machine.part(0), result, machine.memory()};
    scans = {tessera_module_scan{x, machine.part(0), 0, reversed ? 1 : 0},
             tessera_module_scan{y, machine.part(0), 1, reversed ? 1 : 0}};
    machine.step({initial});
    machine.step({carried.before, scans[0].part, iteration, carried.after, scans[1].part}, phases);
    machine.step({result});
    machine.loops().push_back({1, 2, 4, count, kNone, kNone, iteration, executed, 1, &carried, scans.data(), 2, 0});
    machine.number(initial) = 7;
    for (size_t i = 0; i < 4; ++i) machine.number(x, i) = static_cast<int64_t>(i) + 1;
  }
  std::vector<int> run(int64_t trips) {
    machine.number(count) = trips;
    return machine.run([&](int step, int64_t* const* operands) {
      if (step != 1) return;
      *operands[3] = 10 * *operands[0] + *operands[1];
      *operands[4] = *operands[3];
      iterations.push_back(*operands[2]);
    });
  }
};

TEST(LoopControl, RunsAsOftenAsTheCountSays) {
  for (const auto& [trips, ran, state] : {std::tuple<int64_t, int64_t, int64_t>{0, 0, 7},
                                          {-3, 0, 7},
                                          {1, 1, 71},
                                          {2, 2, 712},
                                          {3, 3, 7123},
                                          {4, 4, 71234},
                                          {1000, 4, 71234}}) {
    Digits digits;
    const std::vector<int> order = digits.run(trips);
    EXPECT_EQ(std::count(order.begin(), order.end(), 1), ran);
    EXPECT_EQ(order.front(), 0);
    EXPECT_EQ(order.back(), 2);
    EXPECT_EQ(digits.machine.number(digits.result), state) << trips;
    EXPECT_EQ(digits.machine.number(digits.executed), ran);
    EXPECT_EQ(digits.machine.number(digits.initial), 7) << "what was before the loop is not written";
    for (int64_t i = 0; i < ran; ++i) EXPECT_EQ(digits.iterations[static_cast<size_t>(i)], i);
  }
}

TEST(LoopControl, PartsAreReadAndWrittenFromTheEndWhereTheyAreReversed) {
  Digits digits(true, 3);
  EXPECT_EQ(digits.run(3).size(), 1 + 3 * 3 + 1);
  EXPECT_EQ(digits.machine.number(digits.result), 7432);
  EXPECT_EQ(digits.machine.number(digits.y, 3), 74);
  EXPECT_EQ(digits.machine.number(digits.y, 1), 7432);
  EXPECT_EQ(digits.machine.number(digits.y, 0), 0) << "of an iteration that did not run";
}

TEST(LoopControl, ConditionsEndALoop) {
  Machine machine;
  const int32_t first = machine.memory(), condition = machine.memory(), initial = machine.memory(),
                result = machine.memory();
  tessera_module_carried carried{initial, machine.part(0), machine.part(0), result, machine.memory()};
  machine.step({carried.before, carried.after, condition});
  machine.loops().push_back({0, 1, 0, kNone, first, condition, kNone, kNone, 1, &carried, nullptr, 0, 0});
  const auto count_up = [](int, int64_t* const* operands) {
    *operands[1] = *operands[0] + 1;
    *operands[2] = *operands[1] < 5 ? 1 : 0;
  };
  EXPECT_THAT(machine.run(count_up), IsEmpty());
  EXPECT_EQ(machine.number(result), 0);
  machine.number(first) = 1;
  EXPECT_EQ(machine.run(count_up).size(), 5u);
  EXPECT_EQ(machine.number(result), 5);
  machine.number(initial) = 8;  // the condition holds for one iteration only
  EXPECT_EQ(machine.run(count_up).size(), 1u);
  EXPECT_EQ(machine.number(result), 9);
}

/// Runs loops with these step ranges and counts, around steps that count their calls.
std::vector<int> orderOf(int steps, const std::vector<std::array<int, 3>>& loops) {
  Machine machine;
  std::vector<int32_t> counts;
  for (int s = 0; s < steps; ++s) machine.step({});
  for (const auto& [first, last, trips] : loops) {
    const int32_t count = machine.memory();
    machine.number(count) = trips;
    machine.loops().push_back({first, last, 100, count, kNone, kNone, kNone, kNone, 0, nullptr, nullptr, 0, 0});
  }
  return machine.run([](int, int64_t* const*) {});
}

TEST(LoopControl, LoopsLieWithinEachOtherAndBehindEachOther) {
  EXPECT_THAT(orderOf(3, {{0, 3, 2}, {1, 2, 3}}), ElementsAre(0, 1, 1, 1, 2, 0, 1, 1, 1, 2));
  EXPECT_THAT(orderOf(2, {{0, 2, 2}, {0, 1, 2}}), ElementsAre(0, 0, 1, 0, 0, 1));  // both begin at step 0
  EXPECT_THAT(orderOf(2, {{0, 2, 2}, {1, 2, 2}}), ElementsAre(0, 1, 1, 0, 1, 1));  // both end after step 1
  EXPECT_THAT(orderOf(1, {{0, 1, 2}, {0, 1, 3}}), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(orderOf(3, {{0, 1, 2}, {1, 2, 0}, {2, 3, 2}}), ElementsAre(0, 0, 2, 2));
  EXPECT_THAT(orderOf(3, {{0, 3, 2}, {0, 2, 0}, {0, 1, 4}}),
              ElementsAre(2, 2));  // a loop without iterations that contains another one
  EXPECT_THAT(orderOf(2, {{0, 2, 0}}), IsEmpty());
  EXPECT_THAT(orderOf(3, {{0, 3, 2}, {1, 3, 0}}), ElementsAre(0, 0));  // nothing follows the inner loop
}

}  // namespace
}  // namespace tessera::compiler
