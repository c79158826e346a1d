#include "clients/cli/learning_curve.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera::client {
namespace {

v1::TuningRecord trial(const std::string& job, int number, double ms, int64_t at_us) {
  v1::TuningRecord record;
  record.set_id(job + std::to_string(number));
  record.set_workload_hash("w");
  record.set_workload_summary("matmul");
  record.set_job_id(job);
  record.set_method("q");
  record.set_threads(1);
  record.set_trial(number);
  record.set_flops(2'000'000);
  record.set_median_ms(ms);
  record.set_baseline_ms(4);
  record.set_outcome(ms > 0 ? v1::TuningRecord::PASSED : v1::TuningRecord::REFUSED);
  record.set_create_time_us(at_us);
  return record;
}

TEST(LearningCurve, TheBestSoFarNeverRisesAndFailuresCountAsTrials) {
  const auto curves = curvesOf({trial("b", 1, 3, 50), trial("a", 3, 2.5, 3'000'010), trial("a", 1, 4, 10),
                                trial("a", 2, 0, 1'000'010), trial("a", 4, 3, 4'000'010)});
  ASSERT_EQ(curves.size(), 2U);
  ASSERT_EQ(curves[0].job, "a") << "in the order in which they began";
  std::vector<double> best;
  for (const CurvePoint& point : curves[0].points) best.push_back(point.best_ms);
  EXPECT_EQ(best, (std::vector<double>{4, 4, 2.5, 2.5}));
  EXPECT_EQ(curves[0].points[1].ms, 0);
  EXPECT_DOUBLE_EQ(curves[0].points[2].seconds, 3);
  EXPECT_DOUBLE_EQ(curves[0].points[3].best_speed, 1.6);
}

TEST(LearningCurve, AChoiceOfTheGraphIsNone) {
  v1::TuningRecord choice = trial("a", 1, 3, 20);
  choice.set_workload_hash("question");
  choice.set_mode("choice");
  EXPECT_EQ(curvesOf({trial("a", 1, 4, 10), choice}).size(), 1U);
}

TEST(LearningCurve, IsDrawnOverTrialsOrTime) {
  const auto curves = curvesOf({trial("a", 1, 0, 0), trial("a", 2, 4, 1'000'000), trial("a", 3, 2, 5'000'000)});
  const Curve trials = drawnCurve(curves[0], CurveOver::kTrials, CurveOf::kMs);
  EXPECT_EQ(trials.points, (std::vector<std::pair<double, double>>{{2, 4}, {3, 2}}));
  const Curve seconds = drawnCurve(curves[0], CurveOver::kSeconds, CurveOf::kGflops);
  EXPECT_EQ(seconds.points, (std::vector<std::pair<double, double>>{{1, 0.5}, {5, 1}}));
  EXPECT_EQ(trials.name, "matmul, q, 1 thread, job a");
  const auto json = nlohmann::json::parse(curvesJson(curves));
  EXPECT_EQ(json["curves"][0]["points"].size(), 3U);
  EXPECT_EQ(json["curves"][0]["points"][2]["best_ms"], 2);
}

}  // namespace
}  // namespace tessera::client
