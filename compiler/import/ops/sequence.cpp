// Sequences and optionals. The length of a sequence, and whether an optional has a value, are always known at import,
// so the module has neither: a sequence is the list of its tensors, an optional its tensor or nothing.
#include "absl/strings/str_cat.h"
#include "compiler/import/bounded_dimensions.h"
#include "compiler/import/limits.h"
#include "compiler/import/operator.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

Tensor sequenceOf(v1::DataType dtype, std::vector<Tensor> tensors) {
  Tensor result;
  result.dtype = dtype;
  result.sequence = std::make_shared<const std::vector<Tensor>>(std::move(tensors));
  return result;
}

/// Returns the tensors of input `input`.
absl::StatusOr<std::vector<Tensor>> tensorsOf(const Node& n, int input) {
  if (n.has(input) && n.in(input).sequence) return *n.in(input).sequence;
  return n.invalid("the input is no sequence",
                   {.attribute = absl::StrCat("input ", input), .found = "a tensor", .accepted = "a sequence"});
}

absl::Status checkTensor(const Node& n, int input, v1::DataType dtype) {
  if (n.has(input) && !n.in(input).sequence && n.in(input).dtype == dtype) return absl::OkStatus();
  return n.invalid("the input does not fit the sequence",
                   {.attribute = absl::StrCat("input ", input),
                    .found = n.has(input) && n.in(input).sequence ? "a sequence" : typeName(n.in(input).dtype),
                    .accepted = absl::StrCat("a tensor of ", typeName(dtype))});
}

/// Returns a position in [-size, last] as a non-negative one; `last` if input `input` is absent.
absl::StatusOr<int64_t> readPosition(const Node& n, int input, int64_t size, int64_t last) {
  if (!n.has(input)) return last;
  TESSERA_ASSIGN_OR_RETURN(const auto position, n.constantIntegers(input, "position"));
  if (position.size() != 1 || position[0] < -size || position[0] > last) {
    return n.invalid("the position is out of range", {.attribute = "position",
                                                      .found = shapeText(position),
                                                      .accepted = absl::StrCat("one number of ", -size, " to ", last)});
  }
  return position[0] < 0 ? position[0] + size : position[0];
}

absl::Status checkLength(const Node& n, int64_t length) {
  if (length <= limits::kSequenceLength) return absl::OkStatus();
  return n.unsupported("a long sequence", {.attribute = "sequence",
                                           .found = absl::StrCat(length, " tensors"),
                                           .accepted = absl::StrCat("up to ", limits::kSequenceLength)});
}

Results lowerConstruct(Node& n, Emitter&) {
  TESSERA_RETURN_IF_ERROR(checkLength(n, n.numInputs()));
  for (int i = 0; i < n.numInputs(); ++i) TESSERA_RETURN_IF_ERROR(checkTensor(n, i, n.in(0).dtype));
  return {{sequenceOf(n.in(0).dtype, n.inputs())}};
}

Results lowerEmpty(Node& n, Emitter&) {
  TESSERA_ASSIGN_OR_RETURN(const v1::DataType dtype, n.dataType("dtype", v1::DATA_TYPE_F32));
  return {{sequenceOf(dtype, {})}};
}

Results lowerLength(Node& n, Emitter&) {
  TESSERA_ASSIGN_OR_RETURN(const auto tensors, tensorsOf(n, 0));
  return {{scalarI64(static_cast<int64_t>(tensors.size()))}};
}

Results lowerAt(Node& n, Emitter&) {
  TESSERA_ASSIGN_OR_RETURN(const auto tensors, tensorsOf(n, 0));
  const auto size = static_cast<int64_t>(tensors.size());
  TESSERA_ASSIGN_OR_RETURN(const int64_t position, readPosition(n, 1, size, size - 1));
  if (size == 0) return n.invalid("the sequence is empty", {.attribute = "input_sequence"});
  return {{tensors[position]}};
}

Results lowerInsert(Node& n, Emitter&) {
  TESSERA_ASSIGN_OR_RETURN(auto tensors, tensorsOf(n, 0));
  TESSERA_RETURN_IF_ERROR(checkTensor(n, 1, n.in(0).dtype));
  const auto size = static_cast<int64_t>(tensors.size());
  TESSERA_RETURN_IF_ERROR(checkLength(n, size + 1));
  TESSERA_ASSIGN_OR_RETURN(const int64_t position, readPosition(n, 2, size, size));
  tensors.insert(tensors.begin() + position, n.in(1));
  return {{sequenceOf(n.in(0).dtype, std::move(tensors))}};
}

Results lowerErase(Node& n, Emitter&) {
  TESSERA_ASSIGN_OR_RETURN(auto tensors, tensorsOf(n, 0));
  const auto size = static_cast<int64_t>(tensors.size());
  TESSERA_ASSIGN_OR_RETURN(const int64_t position, readPosition(n, 1, size, size - 1));
  if (size == 0) return n.invalid("the sequence is empty", {.attribute = "input_sequence"});
  tensors.erase(tensors.begin() + position);
  return {{sequenceOf(n.in(0).dtype, std::move(tensors))}};
}

/// Returns the lengths of the parts along a dimension: a list, parts of one length (the last may be shorter), or single
/// elements.
absl::StatusOr<std::vector<int64_t>> readParts(const Node& n, int64_t dim) {
  std::vector<int64_t> parts;
  int64_t each = 1;
  if (n.has(1)) {
    TESSERA_ASSIGN_OR_RETURN(parts, n.constantIntegers(1, "split"));
    // A scalar is the length of every part.
    if (n.in(1).rank() == 0) {
      each = parts[0];
      parts.clear();
      if (each < 1) {
        return n.invalid("a part has no length",
                         {.attribute = "split", .found = absl::StrCat(each), .accepted = "1 or more"});
      }
    }
  }
  if (!n.has(1) || n.in(1).rank() == 0) {
    TESSERA_RETURN_IF_ERROR(checkLength(n, dim / each + 1));
    for (int64_t at = 0; at < dim; at += each) parts.push_back(std::min(each, dim - at));
  }
  TESSERA_RETURN_IF_ERROR(checkLength(n, static_cast<int64_t>(parts.size())));
  // 128 bits, as sizes of a file may overflow when added.
  __int128 sum = 0;
  bool valid = true;
  for (int64_t part : parts) {
    sum += part;
    valid &= part >= 0;
  }
  if (valid && sum == dim) return parts;
  return n.invalid(
      "the parts do not make up the dimension",
      {.attribute = "split", .found = shapeText(parts), .accepted = absl::StrCat("sizes that add up to ", dim)});
}

Results lowerSplitToSequence(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", 0, x.rank()));
  TESSERA_ASSIGN_OR_RETURN(const bool keep, n.flag("keepdims", true));
  TESSERA_ASSIGN_OR_RETURN(const auto parts, readParts(n, x.shape[axis]));
  std::vector<Tensor> tensors;
  std::vector<int64_t> offsets(x.rank(), 0);
  const std::vector<int64_t> strides(x.rank(), 1);
  for (int64_t part : parts) {
    Shape shape = x.shape;
    shape[axis] = part;
    Tensor tensor = elementCount(shape) == 0 ? Emitter::wrap(makeConstant(x.dtype, shape, ""))
                                             : e.slice(x, offsets, shape, strides);
    offsets[axis] += part;
    // Without lengths each part is one element, whose dimension may be dropped.
    if (!n.has(1) && !keep) {
      shape.erase(shape.begin() + axis);
      tensor = e.reshape(tensor, shape);
    }
    tensors.push_back(std::move(tensor));
  }
  return {{sequenceOf(x.dtype, std::move(tensors))}};
}

Results lowerConcatFromSequence(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(auto tensors, tensorsOf(n, 0));
  TESSERA_ASSIGN_OR_RETURN(const bool stack, n.flag("new_axis", false));
  if (tensors.empty()) return n.unsupported("an empty sequence has no shape", {.attribute = "input_sequence"});
  for (const Tensor& tensor : tensors) {
    if (!tensor.sequence && (tensor.value || tensor.constant) && tensor.dtype == tensors[0].dtype) continue;
    return n.invalid("the elements of the sequence are not tensors of one type",
                     {.attribute = "input_sequence",
                      .found = tensor.sequence                   ? "a sequence"
                               : tensor.value || tensor.constant ? typeName(tensor.dtype)
                                                                 : "an empty optional",
                      .accepted = "tensors of one type"});
  }
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", std::nullopt, tensors[0].rank() + (stack ? 1 : 0)));
  int64_t total = 0;
  for (Tensor& tensor : tensors) {
    Shape shape = tensor.shape;
    // Stacking adds a dimension to every tensor first.
    if (stack && axis <= tensor.rank()) shape.insert(shape.begin() + axis, 1);
    tensor = e.reshape(tensor, shape);
    Shape rest = tensor.shape;
    if (tensor.rank() == tensors[0].rank()) rest[axis] = tensors[0].shape[axis];
    if (rest != tensors[0].shape) {
      return n.invalid("the tensors cannot be joined",
                       {.found = shapeText(tensor.shape),
                        .accepted = absl::StrCat(shapeText(tensors[0].shape), " except along axis ", axis)});
    }
    total += tensor.shape[axis];
  }
  Shape shape = tensors[0].shape;
  shape[axis] = total;
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, tensors[0].dtype));
  if (elementCount(shape) == 0) return {{Emitter::wrap(makeConstant(tensors[0].dtype, shape, ""))}};
  return {{tensors.size() == 1 ? tensors[0] : e.concat(tensors, axis)}};
}

/// Runs the body for each element of the first sequence. Other sequences advance with it; tensors are the same for all.
Results lowerSequenceMap(Node& n, Emitter&) {
  TESSERA_ASSIGN_OR_RETURN(const onnx::GraphProto* body, n.graph("body"));
  TESSERA_ASSIGN_OR_RETURN(const auto first, tensorsOf(n, 0));
  std::vector<std::vector<Tensor>> columns(n.numOutputs());
  // Unrolled: the number of tensors is known, and their shapes may differ.
  for (size_t i = 0; i < first.size(); ++i) {
    std::vector<Tensor> arguments;
    for (int input = 0; input < n.numInputs(); ++input) {
      const auto& sequence = n.in(input).sequence;
      if (sequence && sequence->size() != first.size()) {
        return n.invalid("the sequences differ in length", {.attribute = absl::StrCat("input ", input),
                                                            .found = absl::StrCat(sequence->size()),
                                                            .accepted = absl::StrCat(first.size())});
      }
      arguments.push_back(sequence ? (*sequence)[i] : n.in(input));
    }
    TESSERA_ASSIGN_OR_RETURN(const auto results, n.inlineGraph(*body, arguments));
    if (results.size() != columns.size()) {
      return n.invalid(
          "the body's results are not the node's",
          {.attribute = "body", .found = absl::StrCat(results.size()), .accepted = absl::StrCat(columns.size())});
    }
    for (size_t k = 0; k < results.size(); ++k) columns[k].push_back(results[k]);
  }
  std::vector<Tensor> sequences;
  for (auto& column : columns) {
    const v1::DataType dtype = column.empty() ? n.in(0).dtype : column[0].dtype;
    sequences.push_back(sequenceOf(dtype, std::move(column)));
  }
  return sequences;
}

Results lowerOptional(Node& n, Emitter&) {
  n.ignore("type");  // the type of an absent value
  return {{n.has(0) ? n.in(0) : Tensor{}}};
}

Results lowerHasElement(Node& n, Emitter&) {
  return {{Emitter::wrap(makeConstant(v1::DATA_TYPE_BOOL, {}, std::string(1, n.has(0) ? '\1' : '\0')))}};
}

Results lowerGetElement(Node& n, Emitter&) { return {{n.in(0)}}; }

}  // namespace

std::vector<Operator> sequenceOperators() {
  std::vector<Operator> operators =
      withExtents(extentsByLowering, {
                                         {"SequenceConstruct", 11, 1, kVariadic, lowerConstruct},
                                         {"SequenceEmpty", 11, 0, 0, lowerEmpty},
                                         {"SequenceLength", 11, 1, 1, lowerLength},
                                         {"SequenceAt", 11, 2, 2, lowerAt},
                                         {"SequenceInsert", 11, 2, 3, lowerInsert},
                                         {"SequenceErase", 11, 1, 2, lowerErase},
                                         {"SequenceMap", 17, 1, kVariadic, lowerSequenceMap},
                                         {"Optional", 15, 0, 1, lowerOptional},
                                         {"OptionalHasElement", 15, 0, 1, lowerHasElement},
                                         {"OptionalGetElement", 15, 1, 1, lowerGetElement},
                                     });
  operators.push_back({"SplitToSequence", 11, 1, 2, lowerSplitToSequence});
  operators.push_back({"ConcatFromSequence", 11, 1, 1, lowerConcatFromSequence});
  return operators;
}

}  // namespace tessera::compiler
