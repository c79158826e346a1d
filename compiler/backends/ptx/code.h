#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// The text of a kernel parsed to instructions, for the machine that runs it.
namespace tessera::compiler::ptx {

struct Operand {
  enum Kind { kRegister, kNumber, kAddress, kList, kName } kind = kName;
  int reg = -1;         ///< for kRegister and kAddress; -1: an absolute address
  uint64_t number = 0;  ///< of kNumber, and the offset of kAddress
  std::vector<int> list;
  std::string name;
};

struct Instruction {
  std::vector<std::string> op;  ///< the words separated by dots
  std::vector<Operand> operands;
  int guard = -1;
  bool negated = false;
  int line = 0;
};

struct Code {
  std::vector<Instruction> instructions;
  std::map<std::string, size_t> labels;
  std::map<std::string, int> registers;
  std::vector<std::string> parameters;

  /// The number of a register, created on first use.
  int numberOf(const std::string& name) {
    return registers.try_emplace(name, static_cast<int>(registers.size())).first->second;
  }
};

/// Parses every line that is an instruction or a label; directives other than parameters are ignored. Does not check
/// whether instructions exist.
Code parse(const std::string& text);

}  // namespace tessera::compiler::ptx
