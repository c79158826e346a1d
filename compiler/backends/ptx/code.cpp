#include "compiler/backends/ptx/code.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera::compiler::ptx {
namespace {

Operand operandOf(Code& code, absl::string_view text) {
  Operand operand;
  const std::string word(absl::StripAsciiWhitespace(text));
  if (word.starts_with("{")) {
    operand.kind = Operand::kList;
    for (const auto part : absl::StrSplit(word.substr(1, word.size() - 2), ',')) {
      operand.list.push_back(code.numberOf(std::string(absl::StripAsciiWhitespace(part))));
    }
  } else if (word.starts_with("[")) {
    operand.kind = Operand::kAddress;
    const std::vector<std::string> parts = absl::StrSplit(word.substr(1, word.size() - 2), '+');
    if (parts[0].starts_with("%")) {
      operand.reg = code.numberOf(parts[0]);
    } else {
      operand.name = parts[0];
    }
    int64_t number = 0;
    if (parts.size() > 1 && absl::SimpleAtoi(parts[1], &number)) operand.number = static_cast<uint64_t>(number);
    // Special registers are names.
  } else if (word.starts_with("%") && !word.starts_with("%tid") && !word.starts_with("%ctaid")) {
    operand.kind = Operand::kRegister;
    operand.reg = code.numberOf(word);
  } else if (word.starts_with("0f") || word.starts_with("0d")) {
    operand.kind = Operand::kNumber;
    operand.number = std::stoull(word.substr(2), nullptr, 16);
  } else if (int64_t number = 0; absl::SimpleAtoi(word, &number)) {
    operand.kind = Operand::kNumber;
    operand.number = static_cast<uint64_t>(number);
  } else {
    operand.name = word;
  }
  return operand;
}

}  // namespace

Code parse(const std::string& text) {
  Code code;
  int number = 0;
  for (const auto whole : absl::StrSplit(text, '\n')) {
    ++number;
    absl::string_view line = absl::StripAsciiWhitespace(whole);
    if (absl::StartsWith(line, ".param")) {
      const std::vector<std::string> words = absl::StrSplit(absl::StripSuffix(line, ","), ' ');
      code.parameters.push_back(words.back());
    }
    if (line.empty() || line[0] == '.' || line[0] == '{' || line[0] == '}' || line[0] == '(' || line[0] == ')' ||
        absl::StartsWith(line, "//")) {
      continue;
    }
    if (absl::EndsWith(line, ":")) {
      code.labels[std::string(line.substr(0, line.size() - 1))] = code.instructions.size();
      continue;
    }
    Instruction instruction;
    instruction.line = number;
    absl::ConsumeSuffix(&line, ";");
    if (absl::ConsumePrefix(&line, "@")) {
      instruction.negated = absl::ConsumePrefix(&line, "!");
      const size_t end = line.find(' ');
      instruction.guard = code.numberOf(std::string(line.substr(0, end)));
      line.remove_prefix(end + 1);
    }
    const size_t end = std::min(line.find(' '), line.size());
    instruction.op = absl::StrSplit(line.substr(0, end), '.');
    line.remove_prefix(end);
    int depth = 0;
    std::string word;
    // Splits at commas outside of lists and addresses.
    for (const char c : std::string(line) + ",") {
      depth += (c == '{' || c == '[') - (c == '}' || c == ']');
      if (c != ',' || depth > 0) {
        word += c;
        continue;
      }
      if (!absl::StripAsciiWhitespace(word).empty()) instruction.operands.push_back(operandOf(code, word));
      word.clear();
    }
    code.instructions.push_back(std::move(instruction));
  }
  return code;
}

}  // namespace tessera::compiler::ptx
