#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// Name of an element type in a safetensors header ("F32"); "?" for an unknown one.
const char* safetensorsTypeName(int32_t dtype);

/// A tensor of a safetensors file: its bytes are those from `begin`, counted from the end of the header.
struct SafetensorsPlace {
  std::string name;
  int32_t dtype = 0;  ///< tessera_dtype
  std::vector<int64_t> shape;
  uint64_t begin = 0, size_bytes = 0;
};

/// Reads the JSON of a header whose file has `data_bytes` after it; the tensors are in the order of their bytes. The
/// text is untrusted: each tensor's bytes lie within the file, do not overlap others, and are as many as its shape
/// says. Fails with CORRUPT, naming the tensor or the position.
RuntimeStatus readSafetensorsHeader(std::string_view text, uint64_t data_bytes, std::vector<SafetensorsPlace>* tensors);

/// A safetensors file (https://github.com/huggingface/safetensors) in memory: u64 length of the header, the header as
/// JSON, then the bytes of the tensors. The file is untrusted, and checked by readSafetensorsHeader().
class SafetensorsFile {
 public:
  struct Tensor {
    std::string name;
    int32_t dtype = 0;  ///< tessera_dtype
    std::vector<int64_t> shape;
    const uint8_t* data = nullptr;  ///< not aligned
    size_t size_bytes = 0;
  };

  /// Fails with IO_ERROR, or CORRUPT with the position in the header.
  static RuntimeStatus read(const char* path, SafetensorsFile* file);
  static RuntimeStatus parse(std::string bytes, SafetensorsFile* file);

  std::span<const Tensor> tensors() const { return tensors_; }
  /// Null if there is none.
  const Tensor* find(std::string_view name) const;

 private:
  std::string bytes_;
  std::vector<Tensor> tensors_;
};

/// Collects tensors and writes them as one safetensors file.
class SafetensorsWriter {
 public:
  void add(const std::string& name, int32_t dtype, std::span<const int64_t> shape, size_t size_bytes);

  /// `copy(index, to)` writes the bytes of a tensor, which are in the order of the calls of add(). Writes another file
  /// and renames it, so that `path` is complete or unchanged. Fails with IO_ERROR.
  RuntimeStatus write(const char* path, const std::function<void(size_t index, void* to)>& copy) const;

 private:
  std::string header_;
  std::vector<size_t> sizes_;
  size_t offset_ = 0;
};

}  // namespace tessera::compiler
