#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/npy.h"

namespace tessera::client {

/// Reads what `--input`, or another flag of its kind, names: NAME=FILE.npy, or FILE.npz with arrays by name. Later
/// ones win.
absl::StatusOr<std::map<std::string, Tensor>> readInputs(const std::vector<std::string>& values,
                                                         const char* flag = "--input");

/// Fails unless `given` has exactly the tensors described, each with its type and shape: INVALID_INPUT says
/// which, what was found and what is accepted.
absl::Status checkInputs(const std::map<std::string, Tensor>& given, std::span<const v1::TensorSpec> described);

/// A tensor of small seeded values that suit its type (floats in [-1, 1), integers in [0, 100), booleans).
Tensor seededTensor(const v1::TensorSpec& spec, uint64_t seed);

/// Where the outputs of one run are written.
class OutputFolder {
 public:
  explicit OutputFolder(std::string folder) : folder_(std::move(folder)) {}
  /// Writes DIR/<name>.npy; '/' in a name becomes '_', what cannot be printed its code, the middle of a long one "...",
  /// and a name that another output has by then ends in -2, -3, ... Makes the folder.
  absl::Status write(const v1::TensorSpec& spec, std::string_view bytes);
  /// What was written, in that order.
  const std::vector<std::string>& files() const { return files_; }

 private:
  std::string folder_;
  std::set<std::string> taken_;
  std::vector<std::string> files_;
};

/// " in out/y.npy" of the `index`th file; empty where there is none.
std::string inFile(const OutputFolder& folder, size_t index);

/// `[{"name":"y","dtype":"f32","shape":[1,8],"file":"out/y.npy"}, ...]`, `file` where there is one.
std::string outputsJson(const std::vector<v1::TensorSpec>& outputs, const std::vector<std::string>& files);

}  // namespace tessera::client
