#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/tensor.pb.h"

/// How results and errors reach a person (tables, sentences) or a script (JSON).
namespace tessera::client {

/// A message as one line of JSON: field names as in the proto, fields without presence included,
/// 64-bit integers as strings (protobuf's JSON mapping).
std::string toJson(const google::protobuf::Message& message);

/// Writes a file as it is; an error names it.
absl::Status writeText(const std::string& path, std::string_view text);

/// A string as a JSON string, quotes included.
std::string jsonString(const std::string& text);

/// Rows under headings, columns as wide as needed, two spaces between. Control characters are shown, not obeyed,
/// here and in all below.
std::string table(const std::vector<std::string>& headings, std::vector<std::vector<std::string>> rows);

/// "2026-03-01 12:00:05" in local time; "-" for 0.
std::string timeText(int64_t time_us);
/// "1.2 s", "35 ms", "2 min 3 s", "18 ns".
std::string durationText(double milliseconds);
/// "12.3456": milliseconds with four decimals (or `least`), and as many more as three digits that say something take.
std::string millisecondsText(double milliseconds, int least = 4);
/// "97.8 MiB".
std::string bytesText(int64_t bytes);
/// "float32[1,3,224,224]"; "int64[<=100,3]" where the data decide an extent.
std::string typeText(const v1::TensorSpec& spec);

/// " and 3 more" behind what is named of several; nothing behind all of them, 0 or less.
std::string andMore(int64_t others);

/// "batch=4"; "batch<=64" of a range.
std::string dimensionText(const v1::DimensionBinding& dimension);
/// "resnet50 for cascadelake", "execute 3f2a...".
std::string jobSubject(const v1::Job& job);
/// "RUNNING" -> "running".
std::string stateText(v1::Job::State state);

/// A failure for a person: what, where, found, accepted, what to do. Several lines.
std::string failureText(const v1::Failure& failure);

/// Prints an error to stderr, as text or as {"error": {...}} on stdout, and answers the exit code.
int reportError(const absl::Status& status, bool json);

}  // namespace tessera::client
