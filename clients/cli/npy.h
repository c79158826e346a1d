#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cli/zip_file.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::client {

/// A dense row-major tensor in memory. spec.name is empty unless it came from an npz file.
struct Tensor {
  v1::TensorSpec spec;
  std::string bytes;
};

/// NumPy's name of an element type: "float32", "int64", "bool", ...
std::string dtypeName(v1::DataType dtype);

/// Bytes of one element; 0 for DATA_TYPE_UNSPECIFIED.
int64_t dtypeBytes(v1::DataType dtype);

/// Reads an .npy file (format 1 to 3, little-endian or single-byte elements, C or Fortran order; the latter is
/// transposed to row-major). INVALID_ARGUMENT names the file and the fault.
absl::StatusOr<Tensor> readNpy(const std::string& path);

/// Parses the bytes of an .npy file; `where` names it in messages.
absl::StatusOr<Tensor> parseNpy(std::string_view bytes, const std::string& where);

/// Reads every array of an .npz file, stored or deflated, by name. INVALID_ARGUMENT if the arrays together exceed
/// `spare` bytes plus the allowance for the file's size (clients/cli/zip_file.h).
absl::StatusOr<std::map<std::string, Tensor>> readNpz(const std::string& path, int64_t spare = kSpareZipBytes);

/// Writes format 1.0. bf16 is written as uint16, since NumPy lacks the type.
absl::Status writeNpy(const std::string& path, const v1::TensorSpec& spec, std::string_view bytes);

}  // namespace tessera::client
