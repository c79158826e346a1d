#pragma once

#include <set>
#include <string>

#include "compiler/target/problems.h"

namespace tessera::compiler {

/// Where operands may be without a level's name: in registers, and in whatever memory the compiler chooses.
inline constexpr char kRegisters[] = "registers";
inline constexpr char kAnyMemory[] = "memory";

/// Adds every fault of an instruction that stands for itself; `at` is its path with a '.' at the end, `memories` the
/// names its operands and transfers may use.
void validateIntrinsic(const std::string& at, const v1::Intrinsic& intrinsic, const std::set<std::string>& memories,
                       Problems& problems);

/// Adds every fault of a chip's entry for an instruction that a set of its describes: it may say what the chip does
/// otherwise (times, unit, emission, transfers), not what the instruction computes. What both make together is for
/// validateIntrinsic.
void validateOverride(const std::string& at, const v1::Intrinsic& own, const v1::Intrinsic& described,
                      Problems& problems);

/// Adds a fault where `text` cannot stand in a line of assembly: what a chip's file says is written out.
void checkAssembly(const std::string& field, const std::string& text, Problems& problems);

/// Names of the memories in which the instruction has operands, "registers" and "memory" left out.
std::set<std::string> memoriesOf(const v1::Intrinsic& intrinsic);

}  // namespace tessera::compiler
