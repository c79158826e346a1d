// Predicted and measured gains of running groups slice by slice. Each model is compiled twice: with all priced chains
// and regions fused, and with none. Both run alternately on one thread. Not a test; prints a table.
//   fusion_gains [--rounds N] [--pairs] MODEL.onnx...
// --pairs: compares the compiler's choice with its best choice of pairs only, and with no fusion.
// tests/bench/fusion_gains_models writes the models of tests/bench/results/fusion.csv.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "compiler/target/host.h"
#include "tests/bench/compiled_variant.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using compiler::fusion::FusionPolicy;

void measure(const fs::path& model, const v1::Target& target, int rounds, const fs::path& folder) {
  std::map<std::string, v1::BuiltObject> built;
  Side apart(model, target, FusionPolicy::kNever, folder / "apart", {}, built),
      fused(model, target, FusionPolicy::kWheneverPossible, folder / "fused", {}, built);
  double saved = 0, most = 0;  // of the cost model, and of equation 4.10
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
  // Relative to the time of the whole unfused model: the prediction covers only the fused part.
  std::printf(
      "%-24s %-22s at most %8.1f us  predicted %8.1f us  %6.1f %%   apart %9.1f us  fused %9.1f us  gain %6.1f %%  "
      "difference %.0e\n",
      model.stem().c_str(), kinds.c_str(), most, saved, 100 * saved / (before * 1e3), before * 1e3, after * 1e3,
      100 * (1 - ratios[ratios.size() / 2]), fused.difference(apart));
  std::fflush(stdout);
}

/// Whether a priced candidate is a proper part of `place`, so that more than a pair is fused there.
bool isMoreThanAPair(const std::string& place, const v1::Plan& plan) {
  const std::set<std::string> all = absl::StrSplit(place, " + ");
  return std::ranges::any_of(plan.report().decisions(), [&](const v1::Decision& other) {
    if (!isFusion(other.kind()) || other.profit().fused_us() <= 0) return false;
    const std::set<std::string> part = absl::StrSplit(other.place(), " + ");
    return part.size() < all.size() && std::ranges::includes(all, part);
  });
}

/// Pins of the best choice that fuses nothing but pairs.
v1::Pins pairsOf(const fs::path& model, const v1::Target& target) {
  compiler::PlanRequest request;
  request.model_path = model;
  request.target = target;
  request.spec.set_pin_use(v1::PINS);
  for (;;) {
    const auto planned = compiler::plan(request, [](const v1::Progress&) {});
    if (!planned.ok()) fail(model.string() + ": " + std::string(planned.status().message()));
    const int before = request.pins.choices_size();
    for (const v1::Choice& choice : planned->plan.report().choices()) {
      if (!isFusion(choice.kind()) || choice.choice() != "fused" || !isMoreThanAPair(choice.place(), planned->plan))
        continue;
      v1::Choice& pin = *request.pins.add_choices();
      pin.set_kind(choice.kind());
      pin.set_place(choice.place());
      pin.set_choice("apart");
    }
    if (request.pins.choices_size() == before) return request.pins;
  }
}

void measureAgainstPairs(const fs::path& model, const v1::Target& target, int rounds, const fs::path& folder) {
  const v1::Pins pins = pairsOf(model, target);
  if (pins.choices().empty()) {
    std::printf("%-28s no chain of three or more is chosen\n", model.stem().c_str());
    return;
  }
  std::map<std::string, v1::BuiltObject> built;
  Side apart(model, target, FusionPolicy::kNever, folder / "apart", {}, built),
      pairs(model, target, FusionPolicy::kWhereItPays, folder / "pairs", pins, built),
      chosen(model, target, FusionPolicy::kWhereItPays, folder / "chosen", {}, built);
  std::vector<double> over_pairs, over_apart, microseconds;
  for (int round = 0; round <= rounds; ++round) {
    double a = 1e9, p = 1e9, c = 1e9;  // other work on the machine only adds time
    for (int i = 0; i < 3; ++i) {
      a = std::min(a, apart.milliseconds());
      p = std::min(p, pairs.milliseconds());
      c = std::min(c, chosen.milliseconds());
    }
    if (round == 0) continue;  // warms the caches
    over_pairs.push_back(p / c), over_apart.push_back(a / c), microseconds.push_back(1e3 * c);
  }
  const auto [least, most] = std::ranges::minmax(over_pairs);
  std::printf(
      "%-28s %d, %d and %d steps   chosen %9.1f us   as fast as pairs %5.2f (%.2f to %.2f)   as nothing fused %5.2f   "
      "difference %.0e\n",
      model.stem().c_str(), chosen.plan.steps_size(), pairs.plan.steps_size(), apart.plan.steps_size(),
      median(microseconds), median(over_pairs), least, most, median(over_apart), chosen.difference(apart));
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  auto target = compiler::detectHostTarget();
  if (!target.ok()) fail(std::string(target.status().message()));
  // One thread runs, so slices are planned for one core.
  for (v1::ComputeUnit& unit : *target->mutable_units()) unit.set_count(1);
  const fs::path folder = fs::temp_directory_path() / ("fusion_gains." + std::to_string(std::rand()));
  int rounds = 15;
  auto measured = measure;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
      rounds = static_cast<int>(std::strtol(argv[++i], nullptr, 10));
    } else if (std::strcmp(argv[i], "--pairs") == 0) {
      measured = measureAgainstPairs;
    } else {
      measured(argv[i], *target, rounds, folder);
    }
  }
  fs::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(argc, argv); }
