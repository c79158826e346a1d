#include "compiler/target/target.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/target/text_parser.h"
#include "proto/messages/deterministic_bytes.h"
#include "proto/messages/failure.h"
#include "proto/messages/former_names.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Collects the text parser's errors; keeps the first few.
class Complaints : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    constexpr size_t kShown = 20;
    if (lines_.size() < kShown) lines_.push_back(absl::StrCat("line ", line + 1, ":", column + 1, ": ", message));
  }
  std::string text() const { return absl::StrJoin(lines_, "\n"); }

 private:
  std::vector<std::string> lines_;
};

absl::Status invalidTarget(const std::string& message, const std::string& fix) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_TARGET);
  failure.set_message(message);
  failure.set_accepted("a text proto of tessera.v1.Target");
  failure.set_fix(fix);
  return failureStatus(failure);
}

}  // namespace

absl::StatusOr<v1::Target> parseTargetText(const std::string& text) { return parseTargetText(text, nullptr); }

absl::StatusOr<v1::Target> parseTargetText(const std::string& given,
                                           google::protobuf::TextFormat::ParseInfoTree* tree) {
  if (given.size() > kMaxTargetBytes) {
    return invalidTarget(
        absl::StrCat("the target description has ", given.size(), " bytes; at most ", kMaxTargetBytes, " are accepted"),
        "give a description, not a data file");
  }
  const std::string text = withPresentNamesInText(given);
  // The deepest legal message is Target > Intrinsic > Operand.
  constexpr int kMaxDepth = 8;
  google::protobuf::TextFormat::Parser parser;
  Complaints complaints;
  parser.RecordErrorsTo(&complaints);
  parser.SetRecursionLimit(kMaxDepth);
  if (tree) parser.WriteLocationsTo(tree);
  v1::Target target;
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&stream, &target)) {
    return invalidTarget(absl::StrCat("the target description does not parse:\n", complaints.text()),
                         "correct the lines named, or start from a built-in target: `tessera target show NAME`");
  }
  return target;
}

absl::StatusOr<v1::Target> parseTarget(const std::string& text) {
  absl::StatusOr<v1::Target> target = parseTargetText(text);
  if (!target.ok()) return target;
  TESSERA_RETURN_IF_ERROR(statusOfProblems(target->name(), validateTarget(*target)));
  return target;
}

absl::Status statusOfProblems(const std::string& target_name, const std::vector<v1::TargetProblem>& problems) {
  if (problems.empty()) return absl::OkStatus();
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_TARGET);
  std::string message = absl::StrCat("target '", absl::CHexEscape(target_name), "' has ", problems.size(),
                                     problems.size() == 1 ? " problem:" : " problems:");
  for (const v1::TargetProblem& problem : problems) {
    absl::StrAppend(&message, "\n  ", problem.field(), ": ", problem.message());
  }
  failure.set_message(message);
  failure.set_attribute(problems.front().field());
  failure.set_fix("correct the fields named; `tessera target check FILE` checks again");
  return failureStatus(failure);
}

namespace {

/// How models compiled for a family run.
struct FamilyService {
  v1::Target::Family family;
  bool simulated = false;
  bool opencl = false;
};
constexpr FamilyService kServed[] = {{v1::Target::X86_64},
                                     {v1::Target::AARCH64},
                                     {.family = v1::Target::SPATIAL, .simulated = true},
                                     {.family = v1::Target::OPENCL, .opencl = true}};

const FamilyService* serviceFor(v1::Target::Family family) {
  const auto* found = std::ranges::find(kServed, family, &FamilyService::family);
  return found == std::end(kServed) ? nullptr : found;
}

}  // namespace

bool isSimulated(const v1::Target& target) {
  const FamilyService* service = serviceFor(target.family());
  return service != nullptr && service->simulated;
}

bool runsOnOpenCl(const v1::Target& target) {
  const FamilyService* service = serviceFor(target.family());
  return service != nullptr && service->opencl;
}

absl::Status modelsCompileFor(const v1::Target& target) {
  if (serviceFor(target.family()) != nullptr) return absl::OkStatus();
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_TARGET);
  failure.set_message(absl::StrCat("target ", target.name(), " is of family ", v1::Target::Family_Name(target.family()),
                                   ", for which no code is generated"));
  failure.set_attribute("family");
  failure.set_found(v1::Target::Family_Name(target.family()));
  failure.set_accepted(absl::StrJoin(kServed, ", ", [](std::string* out, const FamilyService& each) {
    absl::StrAppend(out, v1::Target::Family_Name(each.family));
  }));
  failure.set_fix(target.has_logic() ? absl::StrCat("name a target of these families; `tessera kernel --target ",
                                                    target.name(), "` writes the design of one operator")
                                     : absl::StrCat("name a target of these families; `tessera mappings --target ",
                                                    target.name(), "` shows what its instructions could compute"));
  return failureStatus(failure);
}

v1::Target canonicalTarget(v1::Target target) {
  target.clear_summary();
  auto* features = target.mutable_code()->mutable_features();
  std::sort(features->begin(), features->end());
  features->erase(std::unique(features->begin(), features->end()), features->end());
  for (v1::ComputeUnit& unit : *target.mutable_units()) {
    std::ranges::sort(*unit.mutable_rates(), std::ranges::less(),
                      [](const v1::ComputeUnit::Rate& rate) { return std::pair(rate.operation(), rate.dtype()); });
  }
  return target;
}

namespace {

std::string hashOf(const v1::Target& target) { return sha256Hex(deterministicBytes(canonicalTarget(target))); }

}  // namespace

std::string targetHash(const v1::Target& target) {
  // The hashes of built-in targets, which every request needs, are computed once.
  static const std::vector<std::string> known = [] {
    std::vector<std::string> hashes;
    for (const v1::Target& builtin : builtinTargets()) hashes.push_back(hashOf(builtin));
    return hashes;
  }();
  for (size_t at = 0; at < known.size(); ++at)
    if (&builtinTargets()[at] == &target) return known[at];
  return hashOf(target);
}

}  // namespace tessera::compiler
