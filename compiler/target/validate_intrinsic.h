#pragma once

#include <set>
#include <string>

#include "compiler/target/problems.h"

namespace tessera::compiler {

/// Places of operands without a level's name: registers, and any memory that the compiler chooses.
inline constexpr char kRegisters[] = "registers";
inline constexpr char kAnyMemory[] = "memory";

/// Adds all faults of a self-contained instruction. `at`: its path, ending with '.'; `memories`: the names that its
/// operands and transfers may use.
void validateIntrinsic(const std::string& at, const v1::Intrinsic& intrinsic, const std::set<std::string>& memories,
                       Problems& problems);

/// Adds all faults of a chip's entry for an instruction that one of its sets describes. The entry may override what the
/// chip does differently (times, unit, emission, transfers), not what the instruction computes. Validate the merged
/// instruction with validateIntrinsic().
void validateOverride(const std::string& at, const v1::Intrinsic& own, const v1::Intrinsic& described,
                      Problems& problems);

/// Adds a fault if `text` cannot be part of a line of assembly: the text of a chip's file is emitted literally.
void checkAssembly(const std::string& field, const std::string& text, Problems& problems);

/// Names of the memories that hold operands of the instruction, without "registers" and "memory".
std::set<std::string> memoriesOf(const v1::Intrinsic& intrinsic);

}  // namespace tessera::compiler
