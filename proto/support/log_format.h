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

/// Adds context fields ("job", "request_id", "task") to the JSON log entries of this thread during its lifetime. Plain
/// logs ignore them, since their messages contain what is needed. Objects must be destroyed in reverse order of
/// construction.
class LogContext {
 public:
  explicit LogContext(std::vector<std::pair<const char*, std::string>> fields);
  ~LogContext();
  LogContext(const LogContext&) = delete;
  LogContext& operator=(const LogContext&) = delete;

 private:
  size_t before_;
};

/// Log message with control characters escaped, so that each entry is one line.
class PrintableMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string shown = printable(std::string_view(message.payload.data(), message.payload.size()));
    out.append(shown.data(), shown.data() + shown.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PrintableMessage>(); }
};

/// Plain log format; `named` adds the program's name.
inline std::unique_ptr<spdlog::formatter> logFormat(bool named) {
  auto format = std::make_unique<spdlog::pattern_formatter>();
  format->add_flag<PrintableMessage>('*').set_pattern(named ? "[%Y-%m-%d %H:%M:%S.%e] [%n] [%^%l%$] %*"
                                                            : "[%Y-%m-%d %H:%M:%S.%e] [%^%l%$] %*");
  return format;
}

/// JSON log format, one object per line: time (UTC), level, program, message, the fields of LogContext, and `about`,
/// which is added to each entry.
std::unique_ptr<spdlog::formatter> jsonLogFormat(std::string program,
                                                 std::vector<std::pair<const char*, std::string>> about = {});

}  // namespace tessera
