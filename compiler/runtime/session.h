#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "compiler/runtime/memory_region.h"
#include "compiler/runtime/module_image.h"
#include "compiler/runtime/status.h"
#include "compiler/runtime/worker_team.h"

namespace tessera::compiler {

/// An artifact ready to run: code and weights in memory. Immutable, shared by its sessions.
struct LoadedArtifact {
  ArtifactFile file;
  std::unique_ptr<ModuleImage> image;
  MemoryRegion copied_weights;       ///< only when the file's own are not aligned
  const uint8_t* weights = nullptr;  ///< 64-byte aligned; null when there are none

  const tessera_module& module() const { return image->table(); }
};

/// Takes over `file`: checks manifest and code, maps the code, finds the weights. Errors as in tessera.h.
RuntimeStatus loadArtifact(ArtifactFile file, uint32_t flags, std::shared_ptr<const LoadedArtifact>* loaded);

/// Intermediates, threads and argument lists of one run at a time.
class Session {
 public:
  static RuntimeStatus create(std::shared_ptr<const LoadedArtifact> artifact, int threads,
                              std::unique_ptr<Session>* session);

  /// The variant that runs; its tables.
  size_t variant() const { return variant_; }
  const tessera_module_variant& tables() const { return module_.variants[variant_]; }
  const tessera_module& module() const { return module_; }
  /// Lets later runs be of another variant, below module().num_variants. Fails with BUSY while one runs.
  RuntimeStatus select(size_t variant);

  /// Runs every step. `step_ns`, when not empty, has an element per step of the variant. Does not allocate.
  RuntimeStatus run(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs,
                    std::span<int64_t> step_ns);

 private:
  /// A place in `operands` that is filled anew by each run.
  struct CallerSlot {
    size_t operand;
    int32_t tensor;
    bool output;
  };

  /// What the steps of one variant are called with.
  struct Bound {
    std::vector<void*> operands;        // of all steps, one after another
    std::vector<size_t> first_operand;  // per step
    std::vector<CallerSlot> caller_slots;
  };

  Session(std::shared_ptr<const LoadedArtifact> artifact, int threads);
  RuntimeStatus prepare();
  Bound bind(const tessera_module_variant& variant) const;
  RuntimeStatus checkBuffers(std::span<const tessera_const_buffer> inputs,
                             std::span<const tessera_buffer> outputs) const;
  void runThread(int thread);
  void* operandAddress(const tessera_module_buffer& buffer) const;

  std::shared_ptr<const LoadedArtifact> artifact_;
  const tessera_module& module_;
  MemoryRegion arena_, workspace_, scratch_;
  size_t scratch_stride_ = 0;  // bytes from one thread's scratch to the next
  std::vector<Bound> bound_;   // per variant
  size_t variant_ = 0;
  std::span<int64_t> step_ns_;  // of the run in progress
  std::atomic_flag running_;
  WorkerTeam team_;  // last: its threads use what is above
};

}  // namespace tessera::compiler
