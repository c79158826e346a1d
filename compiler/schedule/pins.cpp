#include "compiler/schedule/pins.h"

#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/schedule/text.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr int kIndent = 2;        // of a tree below its workload
constexpr size_t kMaxFound = 80;  // bytes of the text that an error repeats
constexpr const char* kStatements =
    "choice KIND \"PLACE\" CHOICE [refused \"WHY\"] [for \"VARIANT\"], or workload HASH";

/// Escapes quotes, backslashes and line breaks: names of nodes may contain anything.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

absl::Status refuse(int line, size_t column, const std::string& message, const std::string& given,
                    const std::string& accepted) {
  const std::string found = given.substr(0, kMaxFound);
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_SCHEDULE);
  failure.set_message(absl::StrCat("pins, line ", line, ", column ", column + 1, ": ", message, ": found \"", found,
                                   "\", accepted: ", accepted));
  failure.set_found(found);
  failure.set_accepted(accepted);
  return failureStatus(failure);
}

struct Word {
  std::string text;
  size_t column = 0;
};

absl::StatusOr<std::vector<Word>> wordsOf(int line, absl::string_view text) {
  std::vector<Word> words;
  for (size_t at = 0; at < text.size() && text[at] != '#';) {
    if (absl::ascii_isspace(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    Word& word = words.emplace_back(Word{"", at});
    if (text[at] != '"') {
      const size_t stop = std::min(text.find_first_of(" \t\r#", at), text.size());
      word.text = std::string(text.substr(at, stop - at));
      at = stop;
      continue;
    }
    for (++at;; ++at) {
      if (at >= text.size())
        return refuse(line, word.column, "a quotation has no end", word.text, "a closing \" on the same line");
      if (text[at] == '"') break;
      const bool escaped = text[at] == '\\' && at + 1 < text.size();
      if (escaped) ++at;
      word.text += escaped && text[at] == 'n' ? '\n' : text[at];
    }
    ++at;
  }
  return words;
}

absl::Status readChoice(int line, const std::vector<Word>& words, v1::Pins& pins) {
  size_t next = 4;
  auto given = [&](const char* word) {
    if (words.size() < next + 2 || words[next].text != word) return std::string();
    next += 2;
    return words[next - 1].text;
  };
  const std::string refusal = given("refused"), variant = given("for");
  if (words.size() != next) return refuse(line, words.back().column, "no choice", words.back().text, kStatements);
  v1::Choice& choice = *pins.add_choices();
  choice.set_kind(words[1].text);
  choice.set_place(words[2].text);
  choice.set_choice(words[3].text);
  choice.set_refusal(refusal);
  choice.set_variant(variant);
  return absl::OkStatus();
}

bool isHash(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::string variantText(const std::vector<v1::TensorSpec>& inputs) {
  return absl::StrJoin(inputs, " ", [](std::string* out, const v1::TensorSpec& input) {
    absl::StrAppend(out, input.name(), "=", absl::StrJoin(input.shape(), "x"));
  });
}

void pinWorkload(v1::Pins& pins, const std::string& hash, const std::string& summary, const v1::Schedule& schedule) {
  v1::Pins::PinnedWorkload& pin = *pins.add_workloads();
  pin.set_hash(hash);
  pin.set_summary(summary);
  *pin.mutable_schedule() = schedule;
}

v1::Pins pinsOf(const v1::Plan& plan) {
  v1::Pins pins;
  auto addChoices = [&](const v1::Plan& variant) {
    for (const v1::Choice& choice : variant.report().choices()) {
      v1::Choice& pin = *pins.add_choices();
      pin = choice;
      if (plan.variants_size() > 0) pin.set_variant(variantText({variant.inputs().begin(), variant.inputs().end()}));
    }
  };
  addChoices(plan);
  for (const v1::Plan& variant : plan.variants()) addChoices(variant);
  for (const v1::Workload& workload : plan.workloads())
    pinWorkload(pins, workload.hash(), workload.summary(), workload.schedule());
  return pins;
}

std::string printPins(const v1::Pins& pins) {
  std::string text;
  for (const v1::Choice& choice : pins.choices()) {
    absl::StrAppend(&text, "choice ", choice.kind(), " ", quoted(choice.place()), " ", quoted(choice.choice()));
    if (!choice.refusal().empty()) absl::StrAppend(&text, " refused ", quoted(choice.refusal()));
    if (!choice.variant().empty()) absl::StrAppend(&text, " for ", quoted(choice.variant()));
    text += "\n";
  }
  for (const v1::Pins::PinnedWorkload& workload : pins.workloads()) {
    absl::StrAppend(&text, "workload ", workload.hash());
    if (!workload.summary().empty())
      absl::StrAppend(&text, "   # ", absl::StrReplaceAll(workload.summary(), {{"\n", " "}}));
    text += "\n";
    const std::string tree = printSchedule(workload.schedule());
    for (absl::string_view line : absl::StrSplit(absl::StripSuffix(tree, "\n"), '\n'))
      absl::StrAppend(&text, "  ", line, "\n");
  }
  return text;
}

absl::StatusOr<v1::Pins> parsePins(const std::string& text) {
  if (text.size() > kMaxBytes)
    return refuse(1, 0, "the text is too long", absl::StrCat(text.size(), " bytes"),
                  absl::StrCat("at most ", kMaxBytes, " bytes"));
  v1::Pins pins;
  std::set<std::tuple<std::string, std::string, std::string>> places;
  std::set<std::string> hashes;
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  for (size_t at = 0; at < lines.size(); ++at) {
    const int number = static_cast<int>(at) + 1;
    TESSERA_ASSIGN_OR_RETURN(std::vector<Word> words, wordsOf(number, lines[at]));
    if (words.empty()) continue;
    const Word& first = words.front();
    if (first.text == "choice") {
      TESSERA_RETURN_IF_ERROR(readChoice(number, words, pins));
      const v1::Choice& choice = pins.choices(pins.choices_size() - 1);
      if (!places.emplace(choice.kind(), choice.place(), choice.variant()).second)
        return refuse(number, words[2].column, "a place is decided twice", choice.place(), "one choice for each");
      continue;
    }
    if (first.text != "workload" || words.size() != 2 || !isHash(words[1].text))
      return refuse(number, words.back().column, "no statement", words.back().text, kStatements);
    if (!hashes.insert(words[1].text).second)
      return refuse(number, words[1].column, "a workload is decided twice", words[1].text, "one tree for each");
    size_t end = at + 1;
    // The tree consists of the indented lines that follow.
    while (end < lines.size() && (lines[end].empty() || lines[end][0] == ' ' || lines[end][0] == '#')) ++end;
    const std::string tree = absl::StrJoin(lines.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                                           lines.begin() + static_cast<std::ptrdiff_t>(end), "\n");
    TESSERA_ASSIGN_OR_RETURN(v1::Schedule schedule, parseSchedule(tree, {.line = number + 1, .indent = kIndent}));
    v1::Pins::PinnedWorkload& workload = *pins.add_workloads();
    workload.set_hash(words[1].text);
    *workload.mutable_schedule() = std::move(schedule);
    at = end - 1;
  }
  return pins;
}

}  // namespace tessera::compiler
