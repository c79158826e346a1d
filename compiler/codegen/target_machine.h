#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tessera/v1/target.pb.h"

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

/// LLVM's view of a target, for all that emit objects: workloads, the tables of an artifact. No MLIR.
namespace tessera::compiler {

/// Lays a machine aside for the next who asks for one of the same code form.
struct LayMachineAside {
  std::string code;
  void operator()(llvm::TargetMachine* machine) const;
};
using BorrowedMachine = std::unique_ptr<llvm::TargetMachine, LayMachineAside>;

/// A machine that nobody else uses meanwhile; making one takes longer than reading a small workload.
/// Errors: INVALID_TARGET with the field when LLVM does not know triple or cpu.
absl::StatusOr<BorrowedMachine> targetMachineOf(const v1::CodeForm& code);

/// The module as a relocatable object; no function of it is taken for one of a library. Equal modules give equal bytes.
/// Errors: INTERNAL when LLVM cannot emit objects for the target.
absl::StatusOr<std::string> objectOf(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace tessera::compiler
