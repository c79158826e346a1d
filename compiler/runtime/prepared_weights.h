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

/// Weights that an artifact does not store but computes of those it does (tessera_module.preparation): larger ones,
/// such as filters in Winograd's domain. Computed once, for the first session, and shared by all; read-only afterwards.
class PreparedWeights {
 public:
  /// Computes them on `threads` threads unless that has been done. Another thread that calls meanwhile waits. Fails
  /// with OUT_OF_MEMORY, and may be tried again then.
  RuntimeStatus make(const std::shared_ptr<const LoadedArtifact>& artifact, int threads);

  /// The first byte of one, 64-byte aligned; after make().
  const uint8_t* data(int32_t index) const { return memory_->data() + offsets_[static_cast<size_t>(index)]; }

  /// What they take of a module's, computed or not.
  static int64_t bytesOf(const tessera_module& module);

 private:
  std::mutex mutex_;
  std::vector<int64_t> offsets_;
  std::unique_ptr<MemoryRegion> memory_;  ///< null until they are computed
};

}  // namespace tessera::compiler
