#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tessera/v1/target.pb.h"

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

/// LLVM's view of a target, shared by all code that emits objects: workloads, the tables of an artifact. No MLIR.
namespace tessera::compiler {

/// Deleter: keeps the machine for the next caller with the same code form.
struct ReturnToPool {
  std::string code;
  void operator()(llvm::TargetMachine* machine) const;
};
using PooledTargetMachine = std::unique_ptr<llvm::TargetMachine, ReturnToPool>;

/// Borrows a target machine for exclusive use; creating one takes longer than parsing a small workload. Errors:
/// INVALID_TARGET naming the field when LLVM does not know the triple or the cpu.
absl::StatusOr<PooledTargetMachine> targetMachineOf(const v1::CodeForm& code);

/// Emits the module as a relocatable object. None of its functions is treated as a library function. Equal modules give
/// equal bytes. Errors: INTERNAL when LLVM cannot emit objects for the target.
absl::StatusOr<std::string> objectOf(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace tessera::compiler
