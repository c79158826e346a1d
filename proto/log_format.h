#pragma once

#include <spdlog/pattern_formatter.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <string_view>

#include "proto/printable.h"

namespace tessera {

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

}  // namespace tessera
