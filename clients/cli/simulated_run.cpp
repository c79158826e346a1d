#include "clients/cli/simulated_run.h"

#include <iostream>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/drawing/chart.h"
#include "clients/cli/output.h"
#include "clients/cli/plan_inputs.h"
#include "clients/cli/tensor_flags.h"
#include "clients/cpp/local_file.h"
#include "compiler/backends/spatial/run_cost.h"
#include "compiler/backends/spatial/session.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using compiler::simulator::RunEvent;
using compiler::simulator::SimulatedArtifact;
using compiler::simulator::SimulatedSession;

struct Ran {
  std::string chip;
  v1::SimulatedRun cost;
  std::vector<RunEvent> events;
  double frequency_ghz = 0;
  std::vector<v1::TensorSpec> outputs;
  OutputFolder folder;
};

// Reads the inputs, runs the program and writes the outputs.
absl::Status compute(const SimulatedRunRequest& request, const v1::Plan& plan, SimulatedSession& session, Ran& ran,
                     std::map<std::string, Tensor> given) {
  TESSERA_ASSIGN_OR_RETURN(given, completedInputs(request.inputs, plan, std::move(given)));
  std::vector<std::string_view> inputs;
  for (const v1::TensorSpec& spec : plan.inputs()) inputs.emplace_back(given.at(spec.name()).bytes);
  std::vector<std::string> outputs;
  TESSERA_RETURN_IF_ERROR(session.run(inputs, outputs));
  ran.outputs = session.outputSpecs();
  if (request.output_folder.empty()) return absl::OkStatus();
  for (size_t i = 0; i < outputs.size(); ++i) TESSERA_RETURN_IF_ERROR(ran.folder.write(ran.outputs[i], outputs[i]));
  return absl::OkStatus();
}

absl::StatusOr<Ran> simulate(const SimulatedRunRequest& request) {
  TESSERA_ASSIGN_OR_RETURN(const auto artifact, SimulatedArtifact::open(request.file, request.verify_weights));
  TESSERA_ASSIGN_OR_RETURN(auto given, readInputs(request.inputs.files));
  TESSERA_ASSIGN_OR_RETURN(const size_t variant, selectVariantOf(artifact->plan(), artifact->module(),
                                                                 artifact->variants(), request.inputs, given));
  TESSERA_ASSIGN_OR_RETURN(const auto session, SimulatedSession::create(*artifact, variant));
  const v1::Target& chip = artifact->plan().target();
  Ran ran{.chip = chip.name(),
          .cost = {},
          .events = {},
          .frequency_ghz = compiler::simulator::frequencyGhz(chip),
          .outputs = {artifact->variant(variant).outputs().begin(), artifact->variant(variant).outputs().end()},
          .folder = OutputFolder(request.output_folder)};
  if (!request.flags.cost_only)
    TESSERA_RETURN_IF_ERROR(compute(request, artifact->variant(variant), *session, ran, std::move(given)));
  TESSERA_ASSIGN_OR_RETURN(ran.cost, session->cost());
  if (!request.flags.timeline.empty()) {
    TESSERA_ASSIGN_OR_RETURN(ran.events, session->events());
  }
  return ran;
}

Gantt ganttOf(const Ran& ran) {
  Gantt chart{.title = absl::StrCat("Simulated run on ", ran.chip), .lanes = {"matrix", "vector"}, .bars = {}};
  // Without a frequency, one cycle is drawn as a nanosecond.
  const double seconds = 1e-9 / (ran.frequency_ghz > 0 ? ran.frequency_ghz : 1);
  for (const RunEvent& event : ran.events) {
    chart.bars.push_back({.lane = event.unit == chart.lanes[0] ? 0 : 1,
                          .from = event.start * seconds,
                          .to = (event.start + event.cycles) * seconds,
                          .kind = event.unit,
                          .tooltip = absl::StrFormat("%s: %s, %.0f cycles", event.step, event.name, event.cycles)});
  }
  return chart;
}

absl::Status writeTimeline(const std::string& path, const Ran& ran) {
  if (absl::EndsWith(path, ".svg")) return writeText(path, ganttSvg(ganttOf(ran)));
  return writeText(path, compiler::simulator::traceJson(ran.chip, ran.events, ran.frequency_ghz));
}

std::string energyText(double picojoules) {
  if (picojoules >= 1e9) return absl::StrFormat("%.3g mJ", picojoules / 1e9);
  if (picojoules >= 1e6) return absl::StrFormat("%.3g uJ", picojoules / 1e6);
  return absl::StrFormat("%.3g nJ", picojoules / 1e3);
}

std::string percentText(double share) { return share > 0 ? absl::StrFormat("%.1f %%", share * 100) : "-"; }

std::string levelTable(const v1::SimulatedRun& cost) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::SimulatedRun::Level& level : cost.levels()) {
    std::string peak = bytesText(level.peak_bytes());
    if (level.capacity_bytes() > 0) absl::StrAppend(&peak, " of ", bytesText(level.capacity_bytes()));
    rows.push_back({level.name(), bytesText(level.read_bytes()), bytesText(level.written_bytes()), peak,
                    level.energy_pj() > 0 ? energyText(level.energy_pj()) : "-"});
  }
  return table({"MEMORY", "READ", "WRITTEN", "PEAK", "ENERGY"}, rows);
}

std::string unitTable(const v1::SimulatedRun& cost) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::SimulatedRun::Unit& unit : cost.units()) {
    rows.push_back({unit.name(), absl::StrFormat("%.0f", unit.busy_cycles()),
                    percentText(cost.cycles() > 0 ? unit.busy_cycles() / cost.cycles() : 0),
                    percentText(unit.utilization())});
  }
  return table({"UNIT", "BUSY CYCLES", "BUSY", "OF PEAK"}, rows);
}

std::string stepTable(const v1::SimulatedRun& cost) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::SimulatedRun::Step& step : cost.steps()) {
    rows.push_back({absl::StrFormat("%.0f", step.cycles()), absl::StrFormat("%.0f", step.matrix_cycles()),
                    absl::StrFormat("%.0f", step.vector_cycles()), bytesText(step.outermost_bytes()), step.symbol(),
                    step.name()});
  }
  return table({"CYCLES", "MATRIX", "VECTOR", "OUTERMOST", "KERNEL", "NODES"}, rows);
}

void print(const CommandLine& line, const SimulatedRunRequest& request, Ran ran) {
  if (line.json) {
    if (!request.steps) ran.cost.clear_steps();
    std::cout << "{\"simulated\":" << toJson(ran.cost) << ",\"chip\":" << jsonString(ran.chip)
              << ",\"outputs\":" << outputsJson(ran.outputs, ran.folder.files()) << "}\n";
    return;
  }
  std::cout << ran.chip << ": " << simulatedText(ran.cost);
  if (request.steps) std::cout << stepTable(ran.cost);
  for (size_t i = 0; i < ran.outputs.size(); ++i)
    std::cout << "  " << ran.outputs[i].name() << ": " << typeText(ran.outputs[i]) << inFile(ran.folder, i) << "\n";
}

}  // namespace

std::string simulatedText(const v1::SimulatedRun& cost) {
  std::string text = absl::StrFormat("%.0f cycles", cost.cycles());
  if (cost.seconds() > 0) absl::StrAppend(&text, ", ", millisecondsText(cost.seconds() * 1e3), " ms");
  if (cost.energy_pj() > 0) absl::StrAppend(&text, ", ", energyText(cost.energy_pj()));
  return absl::StrCat(text, " (simulated)\n", levelTable(cost), unitTable(cost));
}

void SimulatedRunFlags::addTo(CLI::App* command) {
  command->add_option("--timeline", timeline,
                      "artifact for a described chip: write when each nest ran, as FILE.svg or as FILE.json for "
                      "Perfetto and chrome://tracing");
  command->add_flag("--cost-only", cost_only,
                    "artifact for a described chip: time, energy and traffic only; no inputs, no outputs");
}

int runSimulated(const CommandLine& line, const SimulatedRunRequest& request) {
  if (const std::string& path = request.flags.timeline; !path.empty()) {
    if (!absl::EndsWith(path, ".svg") && !absl::EndsWith(path, ".json"))
      return reportError(absl::InvalidArgumentError(absl::StrCat("--timeline ", path, ": name a .svg or .json file")),
                         line.json);
    if (absl::Status place = checkOutputPath(path); !place.ok()) return reportError(place, line.json);
  }
  absl::StatusOr<Ran> ran = simulate(request);
  if (!ran.ok()) return reportError(ran.status(), line.json);
  if (!request.flags.timeline.empty()) {
    if (absl::Status written = writeTimeline(request.flags.timeline, *ran); !written.ok())
      return reportError(written, line.json);
  }
  print(line, request, *std::move(ran));
  return 0;
}

}  // namespace tessera::client
