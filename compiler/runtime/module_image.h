#pragma once

#include <memory>
#include <span>

#include "compiler/runtime/artifact_reader.h"
#include "compiler/runtime/module_abi.h"

namespace tessera::compiler {

/// A loaded code.so. The destructor unloads it.
class ModuleImage {
 public:
  /// Maps the code from memory, finds its tables and checks them completely: afterwards every pointer, count and index
  /// in `table()` is valid. Executes no code of the library. `weights_bytes` is the size of the artifact's weights.
  /// Fails with CORRUPT, INCOMPATIBLE or IO_ERROR.
  static RuntimeStatus load(std::span<const uint8_t> code, const Requirements& requirements, uint64_t weights_bytes,
                            std::unique_ptr<ModuleImage>* image);
  ~ModuleImage();
  ModuleImage(const ModuleImage&) = delete;
  ModuleImage& operator=(const ModuleImage&) = delete;

  const tessera_module& table() const { return *table_; }

 private:
  ModuleImage() = default;

  int fd_ = -1;
  void* handle_ = nullptr;
  const tessera_module* table_ = nullptr;
};

/// The largest rank of a tensor that checkModule() accepts.
inline constexpr int32_t kMaxRank = 64;

/// A readable segment of a loaded image, as addresses [begin, end).
struct ImageSegment {
  uintptr_t begin, end;
  bool executable;
};

/// Checks every table of a module whose readable memory is `segments`. Fails with CORRUPT (or INCOMPATIBLE for another
/// ABI version), naming the table and the entry.
RuntimeStatus checkModule(const tessera_module* module, std::span<const ImageSegment> segments,
                          const Requirements& requirements, uint64_t weights_bytes);

}  // namespace tessera::compiler
