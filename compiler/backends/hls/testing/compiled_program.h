#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/hls/emit.h"

namespace tessera::compiler::hls::testing {

/// The emitted sources of several programs, compiled by the build's compiler as plain C++17 and loaded.
class CompiledPrograms {
 public:
  static absl::StatusOr<std::unique_ptr<CompiledPrograms>> compile(
      const std::vector<std::vector<SourceFile>>& programs);
  ~CompiledPrograms();
  CompiledPrograms(const CompiledPrograms&) = delete;
  CompiledPrograms& operator=(const CompiledPrograms&) = delete;

  using Run = void (*)(void* const* buffers);
  /// The function of that name, "NAME_run"; null: there is none.
  Run find(const std::string& name) const;

 private:
  CompiledPrograms() = default;
  void* library_ = nullptr;
  std::string folder_;
};

}  // namespace tessera::compiler::hls::testing
