#pragma once

#include <string>
#include <vector>

#include "clients/cli/drawing/chart.h"
#include "tessera/v1/record.pb.h"

/// How searches went on: made of their records.
namespace tessera::client {

/// One trial of a search, and the best of it and those before.
struct CurvePoint {
  int trial = 0;          ///< from 1, in the order of the records; those that failed count
  double seconds = 0;     ///< since the search began
  double ms = 0;          ///< 0: it failed
  double best_ms = 0;     ///< 0: nothing ran yet
  double best_speed = 0;  ///< against the default; 0: not compared
};
struct LearningCurve {
  std::string workload, summary, target, method, job;
  int threads = 0;
  uint64_t seed = 0;
  int64_t flops = 0;
  std::vector<CurvePoint> points;
};

/// A curve for each search of each workload: records of one job (one method and seed where there is no job) on one chip
/// with one number of threads. In the order in which they began.
std::vector<LearningCurve> curvesOf(std::vector<v1::TuningRecord> records);

enum class CurveOver { kTrials, kSeconds };
enum class CurveOf { kMs, kSpeed, kGflops };
/// Points that say nothing of what is asked are left out.
Curve drawnCurve(const LearningCurve& curve, CurveOver over, CurveOf what);

std::string curvesJson(const std::vector<LearningCurve>& curves);

}  // namespace tessera::client
