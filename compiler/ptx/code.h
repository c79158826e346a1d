#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// The text of a kernel as instructions, for the machine that runs it.
namespace tessera::compiler::ptx {

struct Operand {
  enum Kind { kRegister, kNumber, kAddress, kList, kName } kind = kName;
  int reg = -1;         ///< of kRegister and kAddress; -1: an address that is a number
  uint64_t number = 0;  ///< of kNumber, and what kAddress adds
  std::vector<int> list;
  std::string name;
};

struct Instruction {
  std::vector<std::string> op;  ///< words between the dots
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

  /// Of a register, which is made where it is new.
  int numberOf(const std::string& name) {
    return registers.try_emplace(name, static_cast<int>(registers.size())).first->second;
  }
};

/// Every line that is an instruction or a label; directives but parameters' are left out. What an instruction means,
/// and whether there is one, is not asked.
Code parse(const std::string& text);

}  // namespace tessera::compiler::ptx
