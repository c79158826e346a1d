#include "clients/cli/metaschedule.h"

#include <google/protobuf/struct.pb.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/util/json_util.h"
#include "proto/support/median.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Value;

constexpr char kWorkloads[] = "database_workload.json", kRecords[] = "database_tuning_record.json";
constexpr double kFailedSeconds = 1e9;  // MetaSchedule writes 1e10 for a candidate that did not run
constexpr int kMaxBlocks = 8;           // limit of names in a summary
constexpr int kMaxProblems = 100;

/// An error for a line that MetaSchedule does not write.
absl::Status notMetaScheduleLine(const std::string& path, int64_t line, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ":", line, ": not a line of MetaSchedule's database: ", what,
                   "; accepted: what TVM's JSONDatabase writes, [hash, module] in ", kWorkloads,
                   " and [workload, [trace, run_secs, target, args_info]] in ", kRecords));
}

/// Calls `use(number, array)` for each line that is not blank.
absl::Status forEachLine(const std::string& path, const std::function<absl::Status(int64_t, const ListValue&)>& use) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": there is no such file to read"));
  std::string text;
  for (int64_t number = 1; std::getline(in, text); ++number) {
    if (absl::StripAsciiWhitespace(text).empty()) continue;
    ListValue line;
    if (const auto parsed = google::protobuf::util::JsonStringToMessage(text, &line); !parsed.ok())
      return notMetaScheduleLine(path, number, std::string(parsed.message()));
    TESSERA_RETURN_IF_ERROR(use(number, line));
  }
  return in.bad() ? absl::DataLossError(absl::StrCat(path, ": cannot be read to its end")) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> readWorkloads(const std::string& path) {
  std::vector<std::string> hashes;
  absl::Status status = forEachLine(path, [&](int64_t number, const ListValue& line) {
    const bool pair = line.values_size() == 2 && line.values(0).has_string_value() && line.values(1).has_string_value();
    if (!pair) return notMetaScheduleLine(path, number, "a workload is two strings");
    const std::string& hash = line.values(0).string_value();
    if (hash.empty() || hash.size() > 64 || !std::ranges::all_of(hash, absl::ascii_isalnum))
      return notMetaScheduleLine(path, number, "the first string is no structural hash");
    hashes.push_back(hash);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return hashes;
}

/// Returns the block names in the trace's instructions [kind, inputs, [block, function], outputs].
std::vector<std::string> blocksOf(const Value& trace) {
  std::vector<std::string> names;
  if (trace.list_value().values().empty()) return names;
  for (const Value& instruction : trace.list_value().values(0).list_value().values()) {
    const auto& parts = instruction.list_value().values();
    if (parts.size() < 3 || (parts[0].string_value() != "GetBlock" && parts[0].string_value() != "GetSBlock")) continue;
    if (parts[2].list_value().values().empty()) continue;
    const std::string& name = parts[2].list_value().values(0).string_value();
    if (!name.empty() && name != "root" && std::ranges::find(names, name) == names.end()) names.push_back(name);
    if (names.size() == kMaxBlocks) break;
  }
  return names;
}

/// Builds "T_matmul_NT float32[128,768] float32[3072,768] float32[128,3072]"; false if an argument is not a tensor.
bool summaryOf(const Value& trace, const Value& arguments, std::string& summary) {
  std::vector<std::string> words = blocksOf(trace);
  for (const Value& argument : arguments.list_value().values()) {
    const auto& parts = argument.list_value().values();
    const bool tensor = parts.size() == 3 && parts[0].string_value() == "TENSOR" && parts[1].has_string_value() &&
                        parts[2].has_list_value();
    if (!tensor) return false;
    std::vector<std::string> extents;
    for (const Value& extent : parts[2].list_value().values()) {
      const double value = extent.number_value();
      if (!extent.has_number_value() || value != std::floor(value) || std::abs(value) > 0x1p53) return false;
      extents.push_back(absl::StrCat(static_cast<int64_t>(value)));
    }
    words.push_back(absl::StrCat(parts[1].string_value(), "[", absl::StrJoin(extents, ","), "]"));
  }
  summary = absl::StrJoin(words, " ");
  return true;
}

std::string textOf(const google::protobuf::Struct& target, const char* field) {
  const auto found = target.fields().find(field);
  return found == target.fields().end() ? "" : found->second.string_value();
}

/// Fills in the chip's name and threads. Returns an error text if the target lacks them.
std::string readTarget(const google::protobuf::Struct& target, v1::TuningRecord& record) {
  const std::string kind = textOf(target, "kind");
  if (kind.empty()) return "the target has no kind";
  std::vector<std::string> parts = {kind};
  for (const char* field : {"mtriple", "mcpu", "arch"}) {
    if (const std::string part = textOf(target, field); !part.empty()) parts.push_back(part);
  }
  const std::string tag = textOf(target, "tag");
  record.set_target_name(tag.empty() ? absl::StrJoin(parts, " ") : tag);
  const auto cores = target.fields().find("num-cores");
  if (cores != target.fields().end()) {
    const double number = cores->second.number_value();
    if (!(number >= 1) || number != std::floor(number) || number > INT32_MAX) return "num-cores is no count";
    record.set_threads(static_cast<int>(number));
  } else if (kind == "llvm" || kind == "c") {
    return "the target does not say how many cores ran it (num-cores)";
  } else {
    record.set_threads(1);
  }
  return "";
}

/// Fills in the rest of a record whose workload is known. Returns an error text if the record cannot be represented.
std::string readRecord(const ListValue& line, v1::TuningRecord& record) {
  const Value &trace = line.values(0), &seconds = line.values(1), &target = line.values(2), &arguments = line.values(3);
  if (!seconds.has_list_value() || seconds.list_value().values().empty()) return "it was not run (no run_secs)";
  if (!target.has_struct_value()) return "it has no target";
  if (std::string reason = readTarget(target.struct_value(), record); !reason.empty()) return reason;
  std::string summary;
  if (!summaryOf(trace, arguments, summary)) return "an argument is not [\"TENSOR\", type, shape]";
  record.set_workload_summary(summary);
  record.set_mode("metaschedule");
  record.set_compiler_version("TVM");
  std::vector<double> times;
  for (const Value& value : seconds.list_value().values()) {
    if (!value.has_number_value() || !(value.number_value() > 0)) return "a time is no number above 0";
    times.push_back(value.number_value() * 1e3);
  }
  if (std::ranges::any_of(times, [](double time) { return time >= kFailedSeconds * 1e3; })) {
    record.set_validation("failed: TVM does not say why");
    return "";
  }
  record.set_validation("unchecked");
  record.set_outcome(v1::TuningRecord::UNCHECKED);
  record.mutable_times_ms()->Assign(times.begin(), times.end());
  record.set_median_ms(medianOf(record.times_ms()));
  record.set_mad_ms(relativeMad(record.times_ms()) * record.median_ms());
  return "";
}

}  // namespace

absl::Status readMetaSchedule(const std::string& folder, const std::function<bool(v1::TuningRecord)>& use,
                              v1::ImportRecordsResponse& result) {
  const std::filesystem::path at(folder);
  TESSERA_ASSIGN_OR_RETURN(const auto workloads, readWorkloads((at / kWorkloads).string()));
  const std::string path = (at / kRecords).string();
  std::map<std::string, int> trials;  // number of trials of each workload so far
  bool going = true;
  return forEachLine(path, [&](int64_t number, const ListValue& line) {
    if (!going) return absl::OkStatus();
    const bool pair = line.values_size() == 2 && line.values(0).has_number_value() && line.values(1).has_list_value() &&
                      line.values(1).list_value().values_size() == 4;
    if (!pair) return notMetaScheduleLine(path, number, "a record is a number and an array of four");
    const double index = line.values(0).number_value();
    if (!(index >= 0) || index != std::floor(index) || index >= static_cast<double>(workloads.size()))
      return notMetaScheduleLine(
          path, number,
          absl::StrCat("workload ", index, " is none of the ", workloads.size(), " lines of ", kWorkloads));
    v1::TuningRecord record;
    record.set_workload_hash(absl::StrCat("metaschedule-", workloads[static_cast<size_t>(index)]));
    record.set_trial(++trials[record.workload_hash()]);
    const std::string reason = readRecord(line.values(1).list_value(), record);
    if (reason.empty()) {
      going = use(std::move(record));
      return absl::OkStatus();
    }
    result.set_refused(result.refused() + 1);
    if (result.problems_size() < kMaxProblems) result.add_problems(absl::StrCat(path, ":", number, ": ", reason));
    return absl::OkStatus();
  });
}

}  // namespace tessera::client
