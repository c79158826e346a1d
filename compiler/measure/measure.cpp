#include "compiler/measure/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/measure/bench.h"
#include "compiler/measure/description.h"
#include "compiler/measure/fields.h"
#include "compiler/measure/probes.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/instruction_sets.h"
#include "compiler/target/target.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

constexpr int kFewest = 3;  // the fewest repetitions with a meaningful median

/// A figure rounded to the precision of descriptions: further digits would be noise.
double rounded(double value) {
  double read = 0;
  return absl::SimpleAtod(absl::StrFormat("%.3g", value), &read) ? read : value;
}

/// Adds the widest multiply-add of f32 as an entry of the chip itself, since latencies differ between chips. Returns
/// its position; -1 if there is none.
int ownMultiplyAdd(v1::Target& target) {
  const v1::Intrinsic* widest = nullptr;
  const std::vector<v1::Intrinsic> known = instructionsOf(target);
  for (const v1::Intrinsic& each : known)
    if (isMultiplyAdd(each) && (!widest || each.iterations(0).extent() > widest->iterations(0).extent()))
      widest = &each;
  if (!widest) return -1;
  for (int i = 0; i < target.intrinsics_size(); ++i)
    if (target.intrinsics(i).name() == widest->name()) return i;
  target.add_intrinsics()->set_name(widest->name());
  return target.intrinsics_size() - 1;
}

Figure figureOf(const Formula& formula, const std::vector<Series>& series, int repetitions) {
  Figure figure{.field = formula.field,
                .unit = formula.unit,
                .how = formula.how,
                .cores = formula.cores,
                .repetitions = repetitions};
  std::vector<double> values;
  for (int round = 0; round < repetitions; ++round) {
    std::vector<double> sources;
    for (size_t source : formula.sources) sources.push_back(series[source].cycles[static_cast<size_t>(round)]);
    values.push_back(formula.value(sources));
  }
  for (size_t source : formula.sources) figure.away = std::max(figure.away, series[source].away());
  figure.value = spreadOf(std::move(values));
  return figure;
}

}  // namespace

absl::StatusOr<Measured> measureHost(const MeasureOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(v1::Target host, detectHostTarget(options.paths));
  Measured measured{.target = std::move(host)};
  v1::Target& target = measured.target;
  target.set_name(options.name.empty() ? absl::StrCat(target.code().cpu(), "-measured") : options.name);
  TESSERA_RETURN_IF_ERROR(statusOfProblems(target.name(), validateTarget(target)));
  if (options.repetitions < kFewest)
    return absl::InvalidArgumentError(
        absl::StrCat("a median needs ", kFewest, " repetitions at least, not ", options.repetitions));
  const int multiply_add = ownMultiplyAdd(target);

  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<Bench> bench, Bench::of(target, options.paths));
  if (bench->cores() < target.units(0).count())
    measured.left.push_back(
        absl::StrCat("figures of all ", target.units(0).count(), " cores: this program may use ", bench->cores()));
  Probes probes = probesOf(target, *bench, multiply_add);
  const int total = (options.repetitions + 1) * static_cast<int>(probes.series.size());
  const auto begun = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); };
  int done = 0, rounds = 0;
  // the first round determines repetition counts and is dropped
  for (int round = -1; round < options.repetitions; ++round) {
    if (rounds >= kFewest && passed() > options.seconds) break;
    for (Series& series : probes.series) {
      if (rounds < kFewest && passed() > 2 * options.seconds)
        return absl::DeadlineExceededError(
            absl::StrFormat("after %.0f s only %d of %d repetitions are done: this machine has other work to do",
                            passed(), rounds, options.repetitions));
      if (options.progress) options.progress(done++, total, series.what);
      TESSERA_RETURN_IF_ERROR(bench->sample(series, round < 0));
    }
    rounds = round + 1;
  }
  if (options.progress) options.progress(total, total, "done");
  if (rounds < options.repetitions)
    measured.left.push_back(absl::StrFormat("%d of %d repetitions: %.0f s were over", options.repetitions - rounds,
                                            options.repetitions, passed()));

  for (const Formula& formula : probes.formulas) {
    Figure figure = figureOf(formula, probes.series, rounds);
    if (!std::isfinite(figure.value.median) || figure.value.median <= 0) {
      measured.left.push_back(absl::StrCat(figure.field, ": not above the noise, ", figureText(figure)));
      continue;
    }
    if (figure.isWritten()) setField(target, figure.field, rounded(figure.value.median));
    measured.figures.push_back(std::move(figure));
  }
  TESSERA_RETURN_IF_ERROR(statusOfProblems(target.name(), validateTarget(target)));
  return measured;
}

}  // namespace tessera::compiler
