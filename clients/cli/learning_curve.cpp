#include "clients/cli/learning_curve.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/output.h"
#include "clients/cli/record_stream.h"

namespace tessera::client {
namespace {

using Key = std::tuple<std::string, std::string, std::string, int, std::string, std::string, uint64_t>;

Key keyOf(const v1::TuningRecord& record) {
  return {record.workload_hash(),
          record.target_name(),
          record.target_hash(),
          record.threads(),
          record.job_id(),
          record.method(),
          record.job_id().empty() ? record.seed() : 0};
}

constexpr char kChoiceMode[] = "choice";  // measured once, without a search

}  // namespace

std::vector<LearningCurve> curvesOf(std::vector<v1::TuningRecord> records) {
  std::ranges::sort(records, {}, [](const v1::TuningRecord& record) {
    return std::tuple(record.create_time_us(), record.trial(), record.id());
  });
  std::vector<LearningCurve> curves;
  std::map<Key, size_t> known;
  std::map<Key, int64_t> begun;
  for (const v1::TuningRecord& record : records) {
    if (record.mode() == kChoiceMode) continue;
    const Key key = keyOf(record);
    const auto [place, met] = known.try_emplace(key, curves.size());
    if (met) {
      LearningCurve& curve = curves.emplace_back();
      curve.workload = record.workload_hash();
      curve.summary = record.workload_summary();
      curve.target = record.target_name();
      curve.method = record.method();
      curve.job = record.job_id();
      curve.threads = record.threads();
      curve.seed = record.seed();
      begun[key] = record.create_time_us();
    }
    LearningCurve& curve = curves[place->second];
    curve.flops = std::max(curve.flops, record.flops());
    CurvePoint point = curve.points.empty() ? CurvePoint{} : curve.points.back();
    ++point.trial;
    point.seconds = record.elapsed_ms() > 0 ? record.elapsed_ms() / 1e3
                                            : static_cast<double>(record.create_time_us() - begun[key]) / 1e6;
    point.ms = hasValidTime(record) ? record.median_ms() : 0;
    if (point.ms > 0) {
      point.best_ms = point.best_ms > 0 ? std::min(point.best_ms, point.ms) : point.ms;
      if (record.baseline_ms() > 0) point.best_speed = std::max(point.best_speed, record.baseline_ms() / point.ms);
    }
    curve.points.push_back(point);
  }
  return curves;
}

Curve drawnCurve(const LearningCurve& curve, CurveOver over, CurveOf what) {
  Curve drawn;
  drawn.name = absl::StrCat(curve.summary.empty() ? curve.workload.substr(0, 12) : curve.summary,
                            curve.method.empty() ? "" : absl::StrCat(", ", curve.method), ", ", curve.threads,
                            curve.threads == 1 ? " thread" : " threads",
                            curve.job.empty() ? "" : absl::StrCat(", job ", curve.job));
  for (const CurvePoint& point : curve.points) {
    const double value = what == CurveOf::kMs      ? point.best_ms
                         : what == CurveOf::kSpeed ? point.best_speed
                         : point.best_ms > 0       ? static_cast<double>(curve.flops) / point.best_ms / 1e6
                                                   : 0;
    if (value > 0) drawn.points.emplace_back(over == CurveOver::kTrials ? point.trial : point.seconds, value);
  }
  std::ranges::sort(drawn.points, {}, &std::pair<double, double>::first);
  return drawn;
}

std::string curvesJson(const std::vector<LearningCurve>& curves) {
  std::vector<std::string> all;
  for (const LearningCurve& curve : curves) {
    std::vector<std::string> points;
    for (const CurvePoint& point : curve.points)
      points.push_back(
          absl::StrFormat("{\"trial\":%d,\"seconds\":%.6f,\"ms\":%.17g,\"best_ms\":%.17g,\"best_speed\":%.17g}",
                          point.trial, point.seconds, point.ms, point.best_ms, point.best_speed));
    all.push_back(absl::StrCat("{\"workload\":", jsonString(curve.workload), ",\"summary\":", jsonString(curve.summary),
                               ",\"target\":", jsonString(curve.target), ",\"threads\":", curve.threads, ",\"method\":",
                               jsonString(curve.method), ",\"job\":", jsonString(curve.job), ",\"seed\":\"", curve.seed,
                               "\",\"flops\":", curve.flops, ",\"points\":[", absl::StrJoin(points, ","), "]}"));
  }
  return absl::StrCat("{\"curves\":[", absl::StrJoin(all, ","), "]}\n");
}

}  // namespace tessera::client
