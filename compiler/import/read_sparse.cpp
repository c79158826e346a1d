#include "compiler/import/read_sparse.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/import/limits.h"
#include "compiler/import/model_error.h"
#include "compiler/import/model_file.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Returns the row-major positions of the values; nothing if one is outside `shape`, or if they do not ascend.
std::optional<std::vector<int64_t>> placesOf(const Constant& indices, const Shape& shape) {
  const bool by_coordinate = indices.shape.size() == 2;
  const std::vector<int64_t> numbers = indices.integers();
  const auto rank = static_cast<int64_t>(shape.size()), parts = by_coordinate ? rank : int64_t{1};
  const int64_t elements = elementCount(shape);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < indices.shape[0]; ++i) {
    int64_t place = by_coordinate ? 0 : numbers[static_cast<size_t>(i)];
    for (int64_t d = 0; by_coordinate && d < rank; ++d) {
      const int64_t at = numbers[static_cast<size_t>(i * parts + d)];
      if (at < 0 || at >= shape[static_cast<size_t>(d)]) return std::nullopt;
      place = place * shape[static_cast<size_t>(d)] + at;
    }
    // Ascending places also exclude duplicates.
    if (place < 0 || place >= elements || (!places.empty() && place <= places.back())) return std::nullopt;
    places.push_back(place);
  }
  return places;
}

}  // namespace

absl::StatusOr<ConstantPtr> readSparseTensor(const onnx::SparseTensorProto& proto,
                                             const std::shared_ptr<const void>& keep_alive, ExternalData& external,
                                             int64_t& dense_bytes) {
  const std::string label = absl::StrCat("sparse tensor '", printable(proto.values().name()), "'");
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr values, readTensor(proto.values(), keep_alive, external));
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr indices, readTensor(proto.indices(), keep_alive, external));
  const Shape shape(proto.dims().begin(), proto.dims().end());
  TESSERA_RETURN_IF_ERROR(checkShape(shape, values->dtype, label));
  // The dense form counts against one limit of the whole file: a few bytes may describe gigabytes.
  const int64_t bytes = elementBytes(values->dtype), whole = elementCount(shape) * bytes;
  if (whole > limits::kSparseBytes - dense_bytes) {
    return fault(v1::Failure::LIMIT_EXCEEDED,
                 absl::StrCat(label, " claims ", whole, " bytes, sparse tensors before it ", dense_bytes),
                 {.attribute = printable(proto.values().name()),
                  .found = absl::StrCat(whole, " bytes"),
                  .accepted = absl::StrCat(limits::kSparseBytes, " bytes of all sparse tensors together"),
                  .remedy = "store it as a dense initializer"});
  }
  dense_bytes += whole;
  const auto rank = static_cast<int64_t>(shape.size());
  // ONNX allows linear positions, or one coordinate per dimension.
  const bool listed = indices->dtype == v1::DATA_TYPE_I64 && values->shape.size() == 1 &&
                      (indices->shape == values->shape || indices->shape == Shape{values->shape[0], rank});
  const auto places = listed ? placesOf(*indices, shape) : std::nullopt;
  if (!places) {
    return fault(v1::Failure::INVALID_MODEL, absl::StrCat("the indices of ", label, " do not fit"),
                 {.attribute = printable(proto.values().name()),
                  .found = absl::StrCat(typeName(indices->dtype), " of ", shapeText(indices->shape), " for values of ",
                                        shapeText(values->shape)),
                  .accepted = absl::StrCat("ascending positions, or coordinates, in ", shapeText(shape),
                                           ", i64, one for each value")});
  }
  std::string dense(static_cast<size_t>(whole), '\0');
  for (size_t i = 0; i < places->size(); ++i) {
    const size_t to = static_cast<size_t>((*places)[i] * bytes), size = static_cast<size_t>(bytes);
    dense.replace(to, size, values->bytes.substr(i * size, size));
  }
  return makeConstant(values->dtype, shape, std::move(dense));
}

}  // namespace tessera::compiler
