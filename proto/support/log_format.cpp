#include "proto/support/log_format.h"

#include <google/protobuf/stubs/common.h>

#include <chrono>
#include <cstdio>
#include <ctime>

namespace tessera {
namespace {

using Fields = std::vector<std::pair<const char*, std::string>>;

Fields& fieldsOfThread() {
  thread_local Fields fields;
  return fields;
}

/// Appends a JSON string. If the text is not UTF-8, its bytes are escaped as Latin-1, so that the line stays valid
/// JSON.
void appendJson(std::string_view text, std::string& out) {
  const bool utf8 = google::protobuf::internal::IsStructurallyValidUTF8(text.data(), static_cast<int>(text.size()));
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8)) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
      out += escaped;
    } else {
      out += c;
    }
  }
  out += '"';
}

class JsonFormatter : public spdlog::formatter {
 public:
  JsonFormatter(std::string program, Fields about) : program_(std::move(program)), about_(std::move(about)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    using namespace std::chrono;
    const auto since = message.time.time_since_epoch();
    const std::time_t whole = duration_cast<std::chrono::seconds>(since).count();
    std::tm utc{};
    gmtime_r(&whole, &utc);
    char time[40];
    const size_t length = std::strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &utc);
    std::snprintf(time + length, sizeof(time) - length, ".%03dZ",
                  static_cast<int>(duration_cast<milliseconds>(since).count() % 1000));
    std::string line = "{\"time\":\"";
    line += time;
    line += "\",\"level\":";
    const auto level = spdlog::level::to_string_view(message.level);
    appendJson({level.data(), level.size()}, line);
    line += ",\"program\":";
    appendJson(program_, line);
    line += ",\"message\":";
    appendJson({message.payload.data(), message.payload.size()}, line);
    for (const Fields* fields : {&about_, &std::as_const(fieldsOfThread())}) {
      for (const auto& [name, value] : *fields) {
        line += ',';
        appendJson(name, line);
        line += ':';
        appendJson(value, line);
      }
    }
    line += "}\n";
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>(program_, about_);
  }

 private:
  const std::string program_;
  const Fields about_;
};

}  // namespace

LogContext::LogContext(Fields fields) : before_(fieldsOfThread().size()) {
  for (auto& field : fields) {
    fieldsOfThread().push_back(std::move(field));
  }
}

LogContext::~LogContext() { fieldsOfThread().resize(before_); }

std::unique_ptr<spdlog::formatter> jsonLogFormat(std::string program, Fields about) {
  return std::make_unique<JsonFormatter>(std::move(program), std::move(about));
}

}  // namespace tessera
