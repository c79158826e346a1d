#include "compiler/backends/spatial/plan_cost.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/run_cost.h"

namespace tessera::compiler::simulator {
namespace {

constexpr char kMatrixLane[] = "matrix", kVectorLane[] = "vector";

/// The entry of that name in a repeated field; adds one where there is none.
template <typename Entries>
auto& entryNamed(Entries& entries, std::map<std::string, int>& positions, const std::string& name) {
  const auto [found, fresh] = positions.try_emplace(name, entries.size());
  if (fresh) entries.Add()->set_name(name);
  return entries[found->second];
}

std::string jsonText(const std::string& text) {
  google::protobuf::Value value;
  value.set_string_value(text);
  std::string json;
  // A string always converts.
  static_cast<void>(google::protobuf::util::MessageToJsonString(value, &json));
  return json;
}

}  // namespace

void PlanCost::add(const std::string& name, const std::string& symbol, const KernelCost& cost, int64_t runs) {
  const auto times = static_cast<double>(runs);
  total_.set_cycles(total_.cycles() + cost.cycles() * times);
  total_.set_energy_pj(total_.energy_pj() + cost.energy_pj() * times);
  v1::SimulatedRun::Step& step = *total_.add_steps();
  step.set_name(name);
  step.set_symbol(symbol);
  step.set_cycles(cost.cycles() * times);
  step.set_energy_pj(cost.energy_pj() * times);
  step.set_runs(runs);
  for (const v1::SimulatedRun::Step& nest : cost.steps()) {
    step.set_outermost_bytes(step.outermost_bytes() + nest.outermost_bytes() * runs);
    step.set_matrix_cycles(step.matrix_cycles() + nest.matrix_cycles() * times);
    step.set_vector_cycles(step.vector_cycles() + nest.vector_cycles() * times);
  }
  for (const v1::SimulatedRun::Level& level : cost.levels()) {
    auto& sum = entryNamed(*total_.mutable_levels(), levels_, level.name());
    sum.set_read_bytes(sum.read_bytes() + level.read_bytes() * runs);
    sum.set_written_bytes(sum.written_bytes() + level.written_bytes() * runs);
    sum.set_energy_pj(sum.energy_pj() + level.energy_pj() * times);
    sum.set_capacity_bytes(level.capacity_bytes());
    if (runs > 0) sum.set_peak_bytes(std::max(sum.peak_bytes(), level.peak_bytes()));
  }
  for (const v1::SimulatedRun::Unit& unit : cost.units()) {
    auto& sum = entryNamed(*total_.mutable_units(), units_, unit.name());
    sum.set_busy_cycles(sum.busy_cycles() + unit.busy_cycles() * times);
    sum.set_operations(sum.operations() + unit.operations() * times);
    // Until take(), `utilization` is the unit's peak in operations per cycle. A unit that runs instructions and other
    // nests has two peaks; the larger one counts.
    if (unit.utilization() > 0)
      sum.set_utilization(std::max(sum.utilization(), unit.operations() / unit.utilization() / cost.cycles()));
  }
}

v1::SimulatedRun PlanCost::take() && {
  if (const double ghz = frequencyGhz(target_); ghz > 0) total_.set_seconds(total_.cycles() / ghz / 1e9);
  for (v1::SimulatedRun::Unit& unit : *total_.mutable_units()) {
    const double peak = unit.utilization() * total_.cycles();
    unit.set_utilization(peak > 0 ? unit.operations() / peak : 0);
  }
  return std::move(total_);
}

std::vector<RunEvent> eventsOf(const std::string& step, const KernelCost& cost, int64_t runs, double start) {
  std::vector<RunEvent> events;
  const auto times = static_cast<double>(runs);
  for (const v1::SimulatedRun::Step& nest : cost.steps()) {
    if (nest.cycles() <= 0) continue;  // part of another nest
    const bool matrix = nest.matrix_cycles() > nest.vector_cycles();
    events.push_back({.unit = matrix ? kMatrixLane : kVectorLane,
                      .name = runs > 1 ? absl::StrCat(nest.name(), " x ", runs) : nest.name(),
                      .step = step,
                      .start = start,
                      .cycles = nest.cycles() * times});
    start += nest.cycles() * times;
  }
  return events;
}

std::string traceJson(const std::string& chip, const std::vector<RunEvent>& events, double frequency_ghz) {
  const double scale = frequency_ghz > 0 ? 1 / (frequency_ghz * 1e3) : 1;
  std::string json = absl::StrCat(R"({"displayTimeUnit":"ns","otherData":{"chip":)", jsonText(chip), R"(,"unit":")",
                                  frequency_ghz > 0 ? "us" : "cycles", R"("},"traceEvents":[)");
  int lane = 0;
  for (const char* name : {kMatrixLane, kVectorLane}) {
    absl::StrAppend(&json, lane > 0 ? "," : "", R"({"ph":"M","name":"thread_name","pid":0,"tid":)", lane,
                    R"(,"args":{"name":")", name, "\"}}");
    ++lane;
  }
  for (const RunEvent& event : events) {
    absl::StrAppend(&json, R"(,{"ph":"X","pid":0,"tid":)", event.unit == kMatrixLane ? 0 : 1, R"(,"name":)",
                    jsonText(event.name), R"(,"ts":)", event.start * scale, R"(,"dur":)", event.cycles * scale,
                    R"(,"args":{"step":)", jsonText(event.step), R"(,"cycles":)", event.cycles, "}}");
  }
  return absl::StrCat(json, "]}\n");
}

}  // namespace tessera::compiler::simulator
