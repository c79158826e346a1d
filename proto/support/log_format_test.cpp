#include "proto/support/log_format.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace tessera {
namespace {

/// Formats one log entry.
class JsonLog : public testing::Test {
 protected:
  JsonLog() : log_("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out_)) {
    log_.set_formatter(jsonLogFormat("tesserad", {{"host", "h\"1"}}));
  }
  nlohmann::json entry(const std::string& message) {
    out_.str("");
    log_.warn("{}", message);
    const std::string line = out_.str();
    EXPECT_EQ(line.find('\n'), line.size() - 1) << "an entry is one line";
    return nlohmann::json::parse(line);
  }

  std::ostringstream out_;
  spdlog::logger log_;
};

TEST_F(JsonLog, AnEntryIsOneObject) {
  const auto entry = this->entry("a \"quoted\" \\ line\nand \x1b another");
  EXPECT_EQ(entry["level"], "warning");
  EXPECT_EQ(entry["program"], "tesserad");
  EXPECT_EQ(entry["message"], "a \"quoted\" \\ line\nand \x1b another");
  EXPECT_EQ(entry["host"], "h\"1");
  const std::string time = entry["time"];
  ASSERT_EQ(time.size(), 24u) << time;
  EXPECT_EQ(time[10], 'T');
  EXPECT_EQ(time.back(), 'Z');
}

TEST_F(JsonLog, BytesThatAreNoTextAreStillJson) {
  EXPECT_EQ(entry("r\xc3\xa9seau")["message"], "r\xc3\xa9seau");
  EXPECT_EQ(entry("\xff\xc3")["message"], "\xc3\xbf\xc3\x83");
}

TEST_F(JsonLog, WhatEntriesAreAboutIsTheirFields) {
  EXPECT_FALSE(entry("before").contains("job"));
  {
    const LogContext job({{"job", "job-1"}, {"request_id", "r\n1"}});
    {
      const LogContext task({{"task", "task-1"}});
      EXPECT_EQ(entry("both")["task"], "task-1");
      EXPECT_EQ(entry("both")["request_id"], "r\n1");
    }
    EXPECT_EQ(entry("one")["job"], "job-1");
    EXPECT_FALSE(entry("one").contains("task"));
  }
  EXPECT_FALSE(entry("after").contains("job"));
}

}  // namespace
}  // namespace tessera
