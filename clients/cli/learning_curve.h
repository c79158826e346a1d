#pragma once

#include <string>
#include <vector>

#include "clients/cli/drawing/chart.h"
#include "tessera/v1/record.pb.h"

/// Learning curves of searches, computed from their records.
namespace tessera::client {

/// One trial of a search, with the best result up to it.
struct CurvePoint {
  int trial = 0;          ///< from 1, in the order of the records, including failures
  double seconds = 0;     ///< since the start of the search
  double ms = 0;          ///< 0: failed
  double best_ms = 0;     ///< 0: no result yet
  double best_speed = 0;  ///< relative to the default; 0: not compared
};
struct LearningCurve {
  std::string workload, summary, target, method, job;
  int threads = 0;
  uint64_t seed = 0;
  int64_t flops = 0;
  std::vector<CurvePoint> points;
};

/// Returns one curve for each search of each workload: the records of one job (without a job, of one method and seed)
/// on one chip with one number of threads, ordered by their start.
std::vector<LearningCurve> curvesOf(std::vector<v1::TuningRecord> records);

enum class CurveOver { kTrials, kSeconds };
enum class CurveOf { kMs, kSpeed, kGflops };
/// Selects the axes of a curve. Points without the requested quantity are omitted.
Curve drawnCurve(const LearningCurve& curve, CurveOver over, CurveOf what);

std::string curvesJson(const std::vector<LearningCurve>& curves);

}  // namespace tessera::client
