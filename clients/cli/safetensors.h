#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/tensor.pb.h"

/// The safetensors format: 8 bytes with the length of a header, the header as JSON, then the bytes of the tensors.
namespace tessera::client {

struct StoredTensor {
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  int64_t offset = 0;  ///< in the file, in bytes
  int64_t bytes = 0;   ///< those of the type and the shape
};
using StoredTensors = std::map<std::string, StoredTensor>;

/// Reads the header of a file. INVALID_ARGUMENT names the file and the tensor for a header that is not JSON of this
/// format, an unknown type, and a tensor that lies outside the file, overlaps another one or has another size than its
/// shape.
absl::StatusOr<StoredTensors> readSafetensors(const std::string& path);

}  // namespace tessera::client
