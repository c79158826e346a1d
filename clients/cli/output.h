#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/tensor.pb.h"

/// Output for people (tables, sentences) and for scripts (JSON).
namespace tessera::client {

/// Converts a message to one line of JSON: field names as in the proto, fields without presence included, 64-bit
/// integers as strings (protobuf's JSON mapping).
std::string toJson(const google::protobuf::Message& message);

/// Writes a file; an error names it.
absl::Status writeText(const std::string& path, std::string_view text);

/// Quotes and escapes a string for JSON.
std::string jsonString(const std::string& text);

/// Formats rows under headings; columns are as wide as needed, two spaces between. Here and in all functions below,
/// control characters are printed escaped.
std::string table(const std::vector<std::string>& headings, std::vector<std::vector<std::string>> rows);

/// "2026-03-01 12:00:05" in local time; "-" for 0.
std::string timeText(int64_t time_us);
/// "1.2 s", "35 ms", "2 min 3 s", "18 ns".
std::string durationText(double milliseconds);
/// "12.3456": milliseconds with `least` decimals, or more if three significant digits need them.
std::string millisecondsText(double milliseconds, int least = 4);
/// "97.8 MiB".
std::string bytesText(int64_t bytes);
/// "float32[1,3,224,224]"; "int64[<=100,3]" where the data decide an extent.
std::string typeText(const v1::TensorSpec& spec);

/// " and 3 more" after some listed names; empty if `others` is 0 or less.
std::string andMore(int64_t others);

/// "batch=4"; "batch<=64" for a range.
std::string dimensionText(const v1::DimensionBinding& dimension);
/// "resnet50 for cascadelake", "execute 3f2a...".
std::string jobSubject(const v1::Job& job);
/// "RUNNING" -> "running".
std::string stateText(v1::Job::State state);

/// Formats a failure in several lines: message, place, found, accepted, remedy.
std::string failureText(const v1::Failure& failure);

/// Prints an error to stderr as text, or to stdout as {"error": {...}}, and returns the exit code.
int reportError(const absl::Status& status, bool json);

}  // namespace tessera::client
