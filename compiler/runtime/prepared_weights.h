#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "compiler/runtime/memory_region.h"
#include "compiler/runtime/module_abi.h"
#include "compiler/runtime/status.h"

namespace tessera::compiler {

struct LoadedArtifact;

/// Weights that are larger in memory than in the artifact, such as filters in Winograd's domain, and are computed from
/// the stored ones (tessera_module.preparation). Computed once, for the artifact's first session, and shared by all
/// sessions; read-only afterwards. Thread-safe.
class PreparedWeights {
 public:
  /// Computes the weights with `threads` threads unless that has been done; a concurrent caller waits. Fails with
  /// OUT_OF_MEMORY, after which it may be called again.
  RuntimeStatus make(const std::shared_ptr<const LoadedArtifact>& artifact, int threads);

  /// Address of one weight, 64-byte aligned. Call after make().
  const uint8_t* data(int32_t index) const { return memory_->data() + offsets_[static_cast<size_t>(index)]; }

  /// Bytes of a module's prepared weights, computed or not.
  static int64_t bytesOf(const tessera_module& module);

 private:
  std::mutex mutex_;
  std::vector<int64_t> offsets_;
  std::unique_ptr<MemoryRegion> memory_;  ///< null until they are computed
};

}  // namespace tessera::compiler
