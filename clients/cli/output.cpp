#include "clients/cli/output.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/npy.h"
#include "clients/cpp/local_file.h"
#include "proto/messages/failure.h"
#include "proto/support/printable.h"

namespace tessera::client {

std::string toJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  return status.ok() ? json : "{}";
}

absl::Status writeText(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? absl::OkStatus() : fileError(errno, absl::StrCat("cannot write ", path));
}

std::string jsonString(const std::string& text) {
  google::protobuf::Value value;
  value.set_string_value(text);
  return toJson(value);
}

namespace {

/// Counts UTF-8 characters, the unit of column widths.
size_t lettersOf(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::string table(const std::vector<std::string>& headings, std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows) {
    for (std::string& cell : row) cell = printable(cell);
  }
  std::vector<size_t> width;
  width.reserve(headings.size());
  for (const std::string& heading : headings) width.push_back(lettersOf(heading));
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], lettersOf(row[i]));
  }
  std::string text;
  const auto addRow = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      absl::StrAppend(&line, row[i], std::string(width[i] + 2 - lettersOf(row[i]), ' '));
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  };
  addRow(headings);
  for (const auto& row : rows) addRow(row);
  return text;
}

std::string timeText(int64_t time_us) {
  if (time_us == 0) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMicros(time_us), absl::LocalTimeZone());
}

std::string durationText(double milliseconds) {
  if (milliseconds > 0 && milliseconds < 0.001) return absl::StrFormat("%.0f ns", milliseconds * 1e6);
  if (milliseconds < 1) return absl::StrFormat("%.0f us", milliseconds * 1000);
  if (milliseconds < 100) return absl::StrFormat("%.1f ms", milliseconds);
  if (milliseconds < 1000) return absl::StrFormat("%.0f ms", milliseconds);
  if (milliseconds < 120'000) return absl::StrFormat("%.1f s", milliseconds / 1000);
  const auto seconds = static_cast<int64_t>(milliseconds / 1000);
  return absl::StrFormat("%d min %d s", seconds / 60, seconds % 60);
}

std::string millisecondsText(double milliseconds, int least) {
  constexpr int kMost = 7;  // a tenth of a nanosecond
  int decimals = least;
  for (double scaled = std::abs(milliseconds) * std::pow(10, least); scaled > 0 && scaled < 99.5 && decimals < kMost;
       scaled *= 10)
    ++decimals;
  return absl::StrFormat("%.*f", decimals, milliseconds);
}

std::string bytesText(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return absl::StrFormat("%.1f %s", value, unit);
}

std::string dimensionText(const v1::DimensionBinding& dimension) {
  const int64_t size = dimension.size();
  return absl::StrCat(dimension.name(), size < 0 ? "<=" : "=", size < 0 ? -size : size);
}

std::string andMore(int64_t others) { return others > 0 ? absl::StrCat(" and ", others, " more") : ""; }

std::string typeText(const v1::TensorSpec& spec) {
  std::vector<std::string> extents;
  for (int64_t extent : spec.shape()) extents.push_back(absl::StrCat(extent));
  for (int32_t d : spec.bounded_dims()) {
    if (d >= 0 && d < spec.shape_size()) extents[static_cast<size_t>(d)].insert(0, "<=");
  }
  return absl::StrCat(dtypeName(spec.dtype()), "[", absl::StrJoin(extents, ","), "]");
}

std::string stateText(v1::Job::State state) { return absl::AsciiStrToLower(v1::Job::State_Name(state)); }

namespace {

// "resnet50 for cascadelake"
std::string modelSubject(const v1::CompileSpec& spec) {
  const v1::TargetRef& target = spec.target();
  return absl::StrCat(spec.name().empty() ? spec.model().sha256().substr(0, 12) : spec.name(), " for ",
                      target.has_inline_() ? target.inline_().name() : target.name());
}

std::string subjectOf(const v1::Job& job) {
  switch (job.spec_case()) {
    case v1::Job::kCompile:
      return absl::StrCat("compile ", modelSubject(job.compile()));
    case v1::Job::kAnalyze:
      return absl::StrCat(job.analyze().question() == v1::AnalyzeSpec::CHECK ? "check " : "explain ",
                          modelSubject(job.analyze().compile()));
    case v1::Job::kTune:
      return absl::StrCat("tune ", modelSubject(job.tune().compile()));
    case v1::Job::kExecute:
      return absl::StrCat("execute ", job.execute().artifact_id().substr(0, 12));
    case v1::Job::kProfile:
      return absl::StrCat("profile ", job.profile().artifact_id().substr(0, 12));
    default:
      return "-";
  }
}

}  // namespace

std::string jobSubject(const v1::Job& job) { return printable(subjectOf(job)); }

std::string failureText(const v1::Failure& failure) {
  std::string text = absl::StrCat(printable(failure.message(), true), "\n");
  const auto line = [&](const char* label, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&text, "  ", label, ": ", printable(value, true), "\n");
  };
  line("reason", v1::Failure::Reason_Name(failure.reason()));
  line("node", failure.node());
  line("operator", failure.op_type());
  line("at", failure.attribute());
  line("found", failure.found());
  line("accepted", failure.accepted());
  if (failure.signal() != 0) line("signal", absl::StrCat(failure.signal()));
  if (const std::string& blob = failure.reproducer().sha256(); !blob.empty()) {
    line("reproducer", absl::StrCat(blob, " (`tessera fetch --blob ", blob, "`)"));
  }
  line("what to do", failure.fix());
  return text;
}

int reportError(const absl::Status& status, bool json) {
  v1::Failure failure = failureOf(status);
  const ExitCode code = exitCodeOf(status);
  if (json) {
    // A plain status with its own code (a wrong flag, an unknown id) is not an internal error.
    if (failure.reason() == v1::Failure::INTERNAL && !absl::IsInternal(status)) failure.clear_reason();
    std::cout << absl::StrCat("{\"error\":", toJson(failure), ",\"code\":\"", absl::StatusCodeToString(status.code()),
                              "\",\"exit_code\":", code, "}\n");
  } else if (failure.reason() == v1::Failure::INTERNAL && failure.fix().empty()) {
    std::cerr << "tessera: " << printable(std::string_view(status.message().data(), status.message().size()), true)
              << "\n";  // a plain status: the message is complete
  } else {
    std::cerr << "tessera: " << failureText(failure);
  }
  return code;
}

}  // namespace tessera::client
