#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/runtime/guarded_memory.h"
#include "compiler/runtime/module_abi.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen {

/// A unit for this machine: cpu and instructions of the target "host", registers as LLVM detects them.
v1::BuildUnit hostUnit(const std::string& ir);

/// A built object loaded into this process. The object sees no symbol of the process, so one that needs a library fails
/// to load.
class LoadedUnit {
 public:
  /// `needs`: the code form that the object was built for. Fails if the operating system does not let this process use
  /// the registers of one of its features (AMX needs a permission). The caller must know that the host has the
  /// features.
  static absl::StatusOr<std::unique_ptr<LoadedUnit>> load(const v1::BuiltObject& built, const v1::CodeForm& needs = {});
  ~LoadedUnit();

  /// Runs all phases. Divides the grid of each into `ranges` ranges, and runs these from last to first.
  void run(const std::vector<void*>& operands, int ranges);

  /// Like run(), with memory between guard pages: workspace and scratch touch the guard page at `end`, and are
  /// poisoned. The caller allocates the operands in the same way. Returns an empty string, or a sentence that names the
  /// phase that left its memory, and the address.
  std::string runGuarded(const std::vector<GuardedMemory>& operands, int ranges, GuardedMemory::End end);

  int phases() const { return static_cast<int>(phases_.size()); }
  void runPhase(int phase, const std::vector<void*>& operands, int ranges);

  /// Fills workspace and scratch with NaN, to reveal reads before writes.
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
