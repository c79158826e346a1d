// Predicted against measured gains of running groups slice by slice: each model is compiled twice, with every chain and
// region that has a price taken and with none, and both are run by turns on one thread. Not a test; prints a table.
//   fusion_gains [--rounds N] MODEL.onnx...
// The models of the table in tests/bench/fusion.md: tests/bench/fusion_gains_models.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compiler/target/host.h"
#include "tests/bench/compiled_side.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using compiler::fusion::Merging;

void measure(const fs::path& model, const v1::Target& target, int rounds, const fs::path& folder) {
  std::map<std::string, v1::BuiltObject> built;
  Side apart(model, target, Merging::kNever, folder / "apart", {}, built),
      fused(model, target, Merging::kWhereverItCan, folder / "fused", {}, built);
  double saved = 0, most = 0;  // as priced, and by equation 4.10
  std::string kinds;
  for (const v1::Decision& decision : fused.plan.report().decisions()) {
    if (!decision.taken() || !decision.has_profit()) continue;
    kinds += (kinds.empty() ? "" : ", ") + decision.kind() + " " + decision.profit().kind();
    saved += decision.alternative_cost() - decision.cost();
    most += decision.profit().profit_us();
  }
  if (kinds.empty()) {
    std::printf("%-24s nothing to merge\n", model.stem().c_str());
    return;
  }
  double before = 1e9, after = 1e9;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    double a = 1e9, f = 1e9;
    for (int i = 0; i < 3; ++i) {
      a = std::min(a, apart.milliseconds());
      f = std::min(f, fused.milliseconds());
    }
    ratios.push_back(f / a);
    before = std::min(before, a), after = std::min(after, f);
  }
  std::sort(ratios.begin(), ratios.end());
  // Against what the unfused model takes as a whole: what is predicted is about its part in the chain.
  std::printf(
      "%-24s %-22s at most %8.1f us  predicted %8.1f us  %6.1f %%   apart %9.1f us  fused %9.1f us  gain %6.1f %%  "
      "difference %.0e\n",
      model.stem().c_str(), kinds.c_str(), most, saved, 100 * saved / (before * 1e3), before * 1e3, after * 1e3,
      100 * (1 - ratios[ratios.size() / 2]), fused.difference(apart));
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  auto target = compiler::detectHostTarget();
  if (!target.ok()) fail(std::string(target.status().message()));
  // One thread runs, so slices are dealt to one core.
  for (v1::ComputeUnit& unit : *target->mutable_units()) unit.set_count(1);
  const fs::path folder = fs::temp_directory_path() / ("fusion_gains." + std::to_string(std::rand()));
  int rounds = 15;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
      rounds = static_cast<int>(std::strtol(argv[++i], nullptr, 10));
    } else {
      measure(argv[i], *target, rounds, folder);
    }
  }
  fs::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(argc, argv); }
