#pragma once

#include <string>
#include <vector>

#include "tessera/v1/target.pb.h"

/// Instructions described once (compiler/target/instructions/*.textproto), and which of them a chip has.
namespace tessera::compiler {

/// All of them, sorted by name.
const std::vector<v1::InstructionSet>& builtinInstructionSets();

/// The set of this name, or null.
const v1::InstructionSet* findInstructionSet(const std::string& name);

/// "amx-int8, avx2, ...": for messages.
std::string instructionSetNames();

/// The sets of a chip: those whose features its code requires, those that list its cpu, and those that it names.
/// Pointers stay valid until the process ends.
std::vector<const v1::InstructionSet*> instructionSetsOf(const v1::Target& target);

/// `described`, from a set, merged with the chip's own entry.
v1::Intrinsic completed(v1::Intrinsic described, v1::Intrinsic own);

/// Every instruction of a chip: those of its sets, in the order of the sets, merged with the chip's own entries of the
/// same name, then the chip's other entries. Each lists the features it needs. Deterministic order.
std::vector<v1::Intrinsic> instructionsOf(const v1::Target& target);

/// Features that the instruction needs and the chip's code does not require: a program must check the host for them
/// first.
std::vector<std::string> featuresToCheckAtRunTime(const v1::Target& target, const v1::Intrinsic& intrinsic);

}  // namespace tessera::compiler
