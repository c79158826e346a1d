#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/npy.h"

namespace tessera::client {

/// Reads the files that `--input` or a similar flag names: NAME=FILE.npy, or FILE.npz with arrays by name. Later files
/// replace earlier ones.
absl::StatusOr<std::map<std::string, Tensor>> readInputs(const std::vector<std::string>& values,
                                                         const char* flag = "--input");

/// Fails unless `given` has exactly the described tensors, each with its type and shape. INVALID_INPUT names the
/// tensor with the found and the accepted value.
absl::Status checkInputs(const std::map<std::string, Tensor>& given, std::span<const v1::TensorSpec> described);

/// Generates a tensor of small seeded values (floats in [-1, 1), integers in [0, 100), booleans).
Tensor seededTensor(const v1::TensorSpec& spec, uint64_t seed);

/// Writes the outputs of one run to a folder.
class OutputFolder {
 public:
  explicit OutputFolder(std::string folder) : folder_(std::move(folder)) {}
  /// Writes DIR/<name>.npy and creates the folder. In the file's name '/' becomes '_', unprintable characters become
  /// their codes, and the middle of a long name becomes "..."; a name that another output already uses gets -2, -3, ...
  /// appended.
  absl::Status write(const v1::TensorSpec& spec, std::string_view bytes);
  /// The written files, in order.
  const std::vector<std::string>& files() const { return files_; }

 private:
  std::string folder_;
  std::set<std::string> taken_;
  std::vector<std::string> files_;
};

/// " in out/y.npy" for the `index`th file; empty if there is none.
std::string inFile(const OutputFolder& folder, size_t index);

/// `[{"name":"y","dtype":"f32","shape":[1,8],"file":"out/y.npy"}, ...]`; `file` is omitted if there is none.
std::string outputsJson(const std::vector<v1::TensorSpec>& outputs, const std::vector<std::string>& files);

}  // namespace tessera::client
