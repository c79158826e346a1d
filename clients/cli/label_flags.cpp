#include "clients/cli/label_flags.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

absl::Status wrongLabel(const std::string& found, const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_attribute("--label");
  failure.set_message(absl::StrCat("--label: found '", found, "', accepted: ", accepted));
  failure.set_found(found);
  failure.set_accepted(accepted);
  return failureStatus(failure);
}

}  // namespace

void LabelFlags::addTo(CLI::App* command) {
  command->add_option("--label", words,
                      "KEY=VALUE, kept with the job and found by `tessera jobs --label KEY=VALUE`; may be repeated");
}

absl::StatusOr<std::map<std::string, std::string>> LabelFlags::parse() const {
  std::map<std::string, std::string> labels;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) return wrongLabel(word, "KEY=VALUE");
    if (!labels.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
      return wrongLabel(word, "each key once");
    }
  }
  return labels;
}

absl::StatusOr<std::string> LabelFlags::narrowed(const std::string& filter) const {
  TESSERA_ASSIGN_OR_RETURN(const auto labels, parse());
  std::string all = filter.empty() || labels.empty() ? filter : absl::StrCat("(", filter, ")");
  for (const auto& [key, value] : labels) {
    // A key becomes part of a filter expression, so other characters could be parsed as further conditions.
    if (key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") != std::string::npos) {
      return wrongLabel(key, "a key of a-z, 0-9, '_' and '-'");
    }
    absl::StrAppend(&all, all.empty() ? "" : " AND ", "labels.", key, " = \"",
                    absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
  }
  return all;
}

}  // namespace tessera::client
