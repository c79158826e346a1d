#pragma once

#include <spdlog/pattern_formatter.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/support/printable.h"

namespace tessera {

/// What this thread's log entries are about, for as long as it lives: fields of their own in a JSON log ("job",
/// "request_id", "task"), nothing in a plain one, whose messages name what they need. Goes in the reverse order of
/// coming.
class LogAbout {
 public:
  explicit LogAbout(std::vector<std::pair<const char*, std::string>> fields);
  ~LogAbout();
  LogAbout(const LogAbout&) = delete;
  LogAbout& operator=(const LogAbout&) = delete;

 private:
  size_t before_;
};

/// A log's message with what others put into it made harmless: one entry is one line.
class PrintableMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string shown = printable(std::string_view(message.payload.data(), message.payload.size()));
    out.append(shown.data(), shown.data() + shown.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PrintableMessage>(); }
};

/// The format of our logs. `named`: with the program's name.
inline std::unique_ptr<spdlog::formatter> logFormat(bool named) {
  auto format = std::make_unique<spdlog::pattern_formatter>();
  format->add_flag<PrintableMessage>('*').set_pattern(named ? "[%Y-%m-%d %H:%M:%S.%e] [%n] [%^%l%$] %*"
                                                            : "[%Y-%m-%d %H:%M:%S.%e] [%^%l%$] %*");
  return format;
}

/// One JSON object a line: time (UTC), level, program, message, and what LogAbout says. `about`: of every entry.
std::unique_ptr<spdlog::formatter> jsonLogFormat(std::string program,
                                                 std::vector<std::pair<const char*, std::string>> about = {});

}  // namespace tessera
