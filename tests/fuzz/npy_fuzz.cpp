// Untrusted bytes as .npy and .npz files give an error that names the file, or tensors with as many bytes as their
// shapes need.
#include <cstdlib>
#include <string>
#include <string_view>

#include "clients/cli/npy.h"
#include "tests/fuzz/memory_file.h"

namespace {

using tessera::client::Tensor;

void check(const Tensor& tensor) {
  int64_t bytes = tessera::client::dtypeBytes(tensor.spec.dtype());
  if (bytes == 0) std::abort();
  for (const int64_t extent : tensor.spec.shape()) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) std::abort();
  }
  if (bytes != static_cast<int64_t>(tensor.bytes.size())) std::abort();
}

void named(const absl::Status& status, std::string_view where) {
  if (std::string(status.message()).find(where) == std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto array = tessera::client::parseNpy({reinterpret_cast<const char*>(data), size}, "the array");
  if (array.ok()) {
    check(*array);
  } else {
    named(array.status(), "the array");
  }
  const MemoryFile file(data, size);
  const auto archive = tessera::client::readNpz(file.path());
  if (!archive.ok()) {
    named(archive.status(), file.path());
    return 0;
  }
  for (const auto& [name, tensor] : *archive) check(tensor);
  return 0;
}
