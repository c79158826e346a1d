// Predicted and measured cost of each chain and region that has a predicted cost, fused or declined. Each runs alone,
// alternately with the same steps unfused, on one thread. Not a test; prints a table, Spearman's rank correlation and
// the number of correct decisions.
//   cost_ranking [--rounds N] [--most N] MODEL.onnx...
// Candidates of a model with equal predictions are measured once; --most limits the candidates of a model.
#include <cstring>
#include <memory>
#include <numeric>
#include <set>

#include "compiler/target/host.h"
#include "tests/bench/compiled_variant.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using compiler::fusion::FusionPolicy;

/// Time of the fused form divided by the time of the separate steps.
struct Row {
  double predicted = 0, measured = 0;
  bool taken = false;
};

/// The plan in which only the chain or region at `place` is fused.
absl::StatusOr<compiler::PlanResult> planOnly(compiler::PlanRequest& request, const v1::Plan& plan,
                                              const v1::Decision& wanted) {
  request.pins.Clear();
  std::set<std::pair<std::string, std::string>> pinned;
  auto pinAll = [&](const v1::Plan& from) {
    bool more = false;
    for (const v1::Choice& choice : from.report().choices()) {
      if (!isFusion(choice.kind()) || !pinned.emplace(choice.kind(), choice.place()).second) continue;
      v1::Choice& pin = *request.pins.add_choices() = choice;
      pin.set_choice(choice.kind() == wanted.kind() && choice.place() == wanted.place() ? "fused" : "apart");
      pin.clear_refusal();
      more |= choice.choice() == "fused";
    }
    return more;
  };
  pinAll(plan);
  for (;;) {
    auto planned = compiler::plan(request, [](const v1::Progress&) {});
    if (!planned.ok() || !pinAll(planned->plan)) return planned;
  }
}

/// Microseconds of the steps that have no equal in `other`.
double ownTime(const v1::Plan& plan, const v1::Plan& other, const std::vector<double>& times) {
  std::multiset<std::string> known;
  for (const v1::Step& step : other.steps()) known.insert(step.name() + other.workloads(step.workload()).hash());
  double sum = 0;
  for (int i = 0; i < plan.steps_size(); ++i) {
    const auto found = known.find(plan.steps(i).name() + plan.workloads(plan.steps(i).workload()).hash());
    if (found == known.end()) {
      sum += times[i];
    } else {
      known.erase(found);
    }
  }
  return sum;
}

std::string shortened(const std::string& place) {
  constexpr size_t kMost = 44;
  return place.size() <= kMost ? place : place.substr(0, kMost - 3) + "...";
}

void measure(const fs::path& model, const v1::Target& target, int rounds, size_t most, const fs::path& folder,
             std::vector<Row>& rows) {
  std::map<std::string, v1::BuiltObject> built;
  compiler::PlanRequest request;
  request.model_path = model;
  request.target = target;
  const auto planned = compiler::plan(request, [](const v1::Progress&) {});
  if (!planned.ok()) fail(model.string() + ": " + std::string(planned.status().message()));
  Side apart(model, target, FusionPolicy::kNever, folder / "apart", {}, built);
  std::set<std::pair<double, double>> seen;
  for (const v1::Decision& decision : planned->plan.report().decisions()) {
    const double fused_us = decision.profit().fused_us(), separate_us = decision.profit().separate_us();
    if (!isFusion(decision.kind()) || fused_us <= 0 || separate_us <= 0 || !std::isfinite(fused_us)) continue;
    if (seen.size() >= most || !seen.emplace(fused_us, separate_us).second) continue;
    if (const auto possible = planOnly(request, planned->plan, decision); !possible.ok()) {
      std::printf("%-28s %-44s not built: %s\n", model.stem().c_str(), shortened(decision.place()).c_str(),
                  std::string(possible.status().message()).c_str());
      continue;
    }
    Side fused(model, target, FusionPolicy::kWhereItPays, folder / "fused", request.pins, built);
    std::vector<double> ratios, before, after;
    for (int round = 0; round <= rounds; ++round) {
      double a = INFINITY, f = INFINITY;  // other work on the machine only adds time
      for (int i = 0; i < 3; ++i) {
        a = std::min(a, ownTime(apart.plan, fused.plan, apart.stepTimes()));
        f = std::min(f, ownTime(fused.plan, apart.plan, fused.stepTimes()));
      }
      if (round == 0) continue;  // warms the caches
      before.push_back(a);
      after.push_back(f);
      ratios.push_back(f / a);
    }
    rows.push_back({fused_us / separate_us, median(ratios), decision.taken()});
    std::printf("%-28s %-44s %-8s predicted %9.1f of %9.1f us %6.2f   measured %9.1f of %9.1f us %6.2f\n",
                model.stem().c_str(), shortened(decision.place()).c_str(), decision.taken() ? "taken" : "left",
                fused_us, separate_us, rows.back().predicted, median(after), median(before), rows.back().measured);
    std::fflush(stdout);
  }
}

/// Ranks from 0; equal values share their mean rank.
std::vector<double> ranksOf(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (size_t i = first; i < end; ++i) ranks[order[i]] = static_cast<double>(first + end - 1) / 2;
    first = end;
  }
  return ranks;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count,
               mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double both = 0, own_a = 0, own_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    own_a += (a[i] - mean_a) * (a[i] - mean_a);
    own_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return own_a > 0 && own_b > 0 ? both / std::sqrt(own_a * own_b) : 0;
}

void conclude(const std::vector<Row>& rows) {
  std::vector<double> predicted, measured;
  int right = 0, harmful = 0;
  constexpr double kNoise = 0.02;  // closer times are a tie: both decisions count as correct
  for (const Row& row : rows) {
    predicted.push_back(row.predicted);
    measured.push_back(row.measured);
    const bool fair = row.taken ? row.measured < 1 + kNoise : row.measured > 1 - kNoise;
    right += fair;
    harmful += row.taken && !fair;
  }
  std::printf("%zu candidates, rank correlation %.2f, %d decided rightly (within %.0f %%), %d taken that lose\n",
              rows.size(), rows.size() < 2 ? 0 : correlation(ranksOf(predicted), ranksOf(measured)), right,
              100 * kNoise, harmful);
}

int run(int argc, char** argv) {
  auto target = compiler::detectHostTarget();
  if (!target.ok()) fail(std::string(target.status().message()));
  // One thread runs, so slices are planned for one core.
  for (v1::ComputeUnit& unit : *target->mutable_units()) unit.set_count(1);
  const fs::path folder = fs::temp_directory_path() / ("cost_ranking." + std::to_string(std::rand()));
  long rounds = 15, most = 1000;
  std::vector<Row> rows;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
      rounds = std::max(1L, std::strtol(argv[++i], nullptr, 10));
    } else if (std::strcmp(argv[i], "--most") == 0 && i + 1 < argc) {
      most = std::max(1L, std::strtol(argv[++i], nullptr, 10));
    } else {
      measure(argv[i], *target, static_cast<int>(rounds), static_cast<size_t>(most), folder, rows);
    }
  }
  conclude(rows);
  fs::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(argc, argv); }
