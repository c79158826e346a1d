#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/runtime/guarded_memory.h"
#include "compiler/runtime/module_abi.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen {

/// A unit for the machine this runs on: cpu and instructions of the target "host", registers as LLVM detects them.
v1::BuildUnit hostUnit(const std::string& ir);

/// A built object loaded into this process. Nothing of the process is visible to it, so an object that
/// needed any library would not load.
class LoadedUnit {
 public:
  /// `needs`: what the code was made for. Fails where the kernel denies this process the registers of one of its
  /// features; whether the host has them is the caller's to know.
  static absl::StatusOr<std::unique_ptr<LoadedUnit>> load(const v1::BuiltObject& built, const v1::CodeForm& needs = {});
  ~LoadedUnit();

  /// Runs all phases; the grid of each is cut into `pieces` ranges, run last to first.
  void run(const std::vector<void*>& operands, int pieces);

  /// The same between guard pages: workspace and scratch are guarded memory that touches `end`, as the operands should
  /// be, and poisoned. Returns "", or which phase left its memory and where to, in a sentence.
  std::string runGuarded(const std::vector<GuardedMemory>& operands, int pieces, GuardedMemory::End end);

  int phases() const { return static_cast<int>(phases_.size()); }
  void runPhase(int phase, const std::vector<void*>& operands, int pieces);

  /// Fills workspace and scratch with NaN: nothing may be read before it is written.
  void poison();

 private:
  struct Jit;
  LoadedUnit();
  std::unique_ptr<Jit> jit_;
  struct LoadedPhase {
    tessera_kernel_fn kernel;
    int64_t grid;
    std::string symbol;
  };
  std::vector<LoadedPhase> phases_;
  size_t workspace_bytes_ = 0, scratch_bytes_ = 0;
  std::unique_ptr<char, void (*)(void*)> workspace_, scratch_;
};

}  // namespace tessera::compiler::codegen
