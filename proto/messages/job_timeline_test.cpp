#include "proto/messages/job_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

v1::JobEvent ended(const std::string& worker, const std::string& phase, int64_t at_us, double wall_ms,
                   const std::string& failure = "") {
  v1::JobEvent event;
  event.set_time_us(at_us);
  v1::JobEvent::AttemptEnded& attempt = *event.mutable_attempt();
  attempt.set_worker(worker);
  attempt.set_phase(phase);
  attempt.set_task_id(phase + "-task");
  attempt.set_attempt(1);
  attempt.set_wall_ms(wall_ms);
  if (!failure.empty()) attempt.mutable_failure()->set_message(failure);
  return event;
}

std::vector<v1::JobEvent> sampleEvents() {
  v1::JobEvent other;
  other.mutable_progress()->set_phase("build");
  return {ended("w1", "search", 2'000'000, 1000),
          other,
          ended("w2", "build", 3'000'000, 1500, "it crashed"),
          ended("w1", "measure", 4'000'000, 2000),
          ended("w1", "build", 3'500'000, 1000),
          ended("", "build", 9'000'000, 1)};
}

TEST(JobTimeline, AttemptsSideBySideHaveLanesOfTheirOwn) {
  const std::vector<Span> spans = spansOf(sampleEvents());
  ASSERT_EQ(spans.size(), 4U) << "what no worker did is left out";
  EXPECT_EQ(spans[0].phase, "search");
  EXPECT_EQ(spans[0].from_us, 1'000'000);
  EXPECT_EQ(spans[1].phase, "measure");
  EXPECT_EQ(spans[1].lane, 0) << "it began when the search ended";
  EXPECT_EQ(spans[2].lane, 1) << "it ran beside the measuring";
  EXPECT_EQ(spans[3].failure, "it crashed");
  const auto busy = utilizationOf(spans);
  EXPECT_NEAR(busy.at("w1"), 4.0 / 6, 1e-9) << "two lanes of three seconds";
  EXPECT_NEAR(busy.at("w2"), 1.5 / 3, 1e-9);
}

TEST(JobTimeline, PerfettoReadsTheTrace) {
  const auto trace = nlohmann::json::parse(traceJson("j\"1", spansOf(sampleEvents())));
  EXPECT_EQ(trace["otherData"]["job"], "j\"1");
  EXPECT_EQ(trace["otherData"]["start_us"], 1'000'000);
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "w1");
  EXPECT_EQ(trace["traceEvents"][0]["args"]["lanes"], 2);
  EXPECT_NEAR(double(trace["traceEvents"][0]["args"]["busy"]), 4.0 / 6, 1e-3);
  int processes = 0, attempts = 0;
  for (const auto& event : trace["traceEvents"]) {
    processes += event["ph"] == "M" ? 1 : 0;
    if (event["ph"] != "X") continue;
    ++attempts;
    EXPECT_GE(event["ts"], 0);
    EXPECT_GT(event["dur"], 0);
  }
  EXPECT_EQ(processes, 2);
  EXPECT_EQ(attempts, 4);
  EXPECT_TRUE(nlohmann::json::parse(traceJson("none", {}))["traceEvents"].empty());
}

}  // namespace
}  // namespace tessera
