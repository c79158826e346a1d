#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/runtime/memory_region.h"
#include "compiler/runtime/session.h"
#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// One value of a state. Its elements are dense for `extents`, or laid out for `bounds` with zeros everywhere else:
/// then steps of a run read it in place, and a run writes its new rows only.
class StateValue {
 public:
  /// `bytes`: the greatest size in any variant. Requires a checked module. Fails with OUT_OF_MEMORY.
  RuntimeStatus prepare(const tessera_module& module, int32_t index, int64_t bytes);

  const std::string& name() const { return name_; }
  int32_t dtype() const { return dtype_; }
  int32_t growingDim() const { return growing_dim_; }
  /// Extents; -1 for one that the first run decides: the size of a range, or one that differs between variants.
  std::span<const int64_t> extents() const { return extents_; }
  bool decided() const;
  /// Elements times bytes of one; requires decided().
  int64_t sizeBytes() const;
  int64_t rows() const { return extents_[static_cast<size_t>(growing_dim_)]; }

  /// The initial value: that of a default input, or zeros, with no rows along the growing dimension.
  void reset();
  /// Gives undecided extents the sizes of the first run; the elements are zeros.
  void decide(std::span<const int64_t> extents);
  /// Replaces the value by a dense tensor, whose shape the caller has checked.
  void assign(std::span<const int64_t> extents, const void* data);
  /// Copies the elements densely to `to`; requires decided().
  void copyTo(void* to) const;

  /// Rearranges the elements, if they are not so yet.
  void makeDense();
  void layOut(std::span<const int64_t> bounds);

  uint8_t* data() { return memory_[current_].data(); }
  /// Memory for the value after the run in progress.
  uint8_t* next() {
    clean_[1 - current_] = false;
    return memory_[1 - current_].data();
  }
  /// Memory of the same size as data(), whose content means nothing.
  const uint8_t* unused() const { return memory_[1 - current_].data(); }

  /// Makes next(), dense in these extents, the value.
  void accept(std::span<const int64_t> extents);
  /// In laid-out memory: makes the rows before `rows` part of the value.
  void acceptRows(int64_t rows);
  /// After a run that failed: undoes decide().
  void abandon();

  // Laid-out memory has outer() parts of capacity() rows each.
  int64_t outer() const;
  int64_t capacity() const { return layout_[static_cast<size_t>(growing_dim_)]; }
  int64_t rowBytes() const;
  /// Copies rows [rows(), end) of one part from `from`, which holds just these rows. Parts beyond the extents are left.
  void writeRows(int64_t part, int64_t end, const uint8_t* from);
  /// Overwrites rows [first, last) of all parts by zeros.
  void clearRows(int64_t first, int64_t last);

 private:
  size_t elementBytes() const;
  /// Fills with zeros what may be something else.
  void clean(size_t which);

  std::string name_;
  int32_t dtype_ = 0, growing_dim_ = -1;
  std::vector<int64_t> initial_, extents_, layout_;
  const tessera_module_fixed_input* value_ = nullptr;  // the initial value; null: zeros
  int64_t bytes_ = 0;
  bool fresh_ = false;  // the run in progress has decided extents
  std::array<MemoryRegion, 2> memory_;
  std::array<bool, 2> clean_ = {true, true};  // all zeros, except the value in laid-out memory
  size_t current_ = 0;
};

/// The values that an artifact keeps from one run to the next, for one stream of runs. Any session of an artifact with
/// the same states can use it. Not thread-safe, except that a run detects another one that uses the same state.
class State {
 public:
  static RuntimeStatus create(std::shared_ptr<const LoadedArtifact> artifact, std::unique_ptr<State>* state);

  size_t size() const { return values_.size(); }
  StateValue& value(size_t index) { return *values_[index]; }
  const StateValue& value(size_t index) const { return *values_[index]; }
  const tessera_module& module() const { return artifact_->module(); }
  void reset();
  /// Checks the shape against the artifact's variants, then replaces the value. INVALID_ARGUMENT.
  RuntimeStatus set(size_t index, std::span<const int64_t> shape, const void* data, size_t size_bytes);

  /// One safetensors file with a tensor for each value, named as the input. load() replaces all values or none: it
  /// fails with IO_ERROR, CORRUPT (not such a file), or INVALID_ARGUMENT (other tensors than this state has).
  RuntimeStatus save(const char* path) const;
  RuntimeStatus load(const char* path);

  /// Whether runs of this module can use the state.
  RuntimeStatus fits(const tessera_module& module) const;
  std::atomic_flag& running() const { return running_; }

 private:
  explicit State(std::shared_ptr<const LoadedArtifact> artifact) : artifact_(std::move(artifact)) {}
  RuntimeStatus checkShape(size_t index, std::span<const int64_t> shape) const;

  std::shared_ptr<const LoadedArtifact> artifact_;
  std::vector<std::unique_ptr<StateValue>> values_;
  mutable std::atomic_flag running_;
};

}  // namespace tessera::compiler
