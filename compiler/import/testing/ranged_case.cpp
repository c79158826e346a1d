#include "compiler/import/testing/ranged_case.h"

#include <cmath>
#include <limits>

#include "compiler/import/import.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

constexpr int kI64 = onnx::TensorProto::INT64;

std::vector<int64_t> shapeAt(const RangedInput& input, int64_t size) {
  std::vector<int64_t> shape = input.shape;
  for (int64_t& dim : shape) dim = dim < 0 ? size : dim;
  return shape;
}

int64_t elementsOf(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t dim : shape) elements *= dim;
  return elements;
}

/// Returns the input of a run of `size` in a tensor for `room`, with NaN or an invalid index in the padding.
std::string bytesAt(const RangedInput& input, int64_t size, int64_t room) {
  const std::vector<int64_t> exact = shapeAt(input, size), shape = shapeAt(input, room);
  const auto elements = static_cast<size_t>(elementsOf(shape));
  std::vector<float> floats(elements, std::numeric_limits<float>::quiet_NaN());
  std::vector<int64_t> indices(elements, std::numeric_limits<int64_t>::max());
  for (int64_t i = 0; i < elementsOf(exact); ++i) {
    int64_t rest = i, to = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0; rest /= exact[d], stride *= shape[d]) to += rest % exact[d] * stride;
    floats[static_cast<size_t>(to)] =
        input.infinite ? std::numeric_limits<float>::infinity() : std::sin(static_cast<float>(i) * 1.7F);
    indices[static_cast<size_t>(to)] = i * 7 % 3;
  }
  return input.indices ? bytesOf(indices) : bytesOf(floats);
}

ModelBuilder modelOf(const RangedCase& test) {
  ModelBuilder b(test.opset);
  for (const RangedInput& input : test.inputs) b.input(input.name, input.shape, input.indices ? kI64 : 1);
  for (const std::string& output : test.outputs) b.output(output);
  test.nodes(b);
  return b;
}

using Shapes = std::vector<std::vector<int64_t>>;

absl::StatusOr<std::vector<std::string>> runAt(const RangedCase& test, int64_t size, bool ranged, Shapes* shapes) {
  mlir::MLIRContext context;
  ImportOptions options;
  options.dimensions = {{"N", ranged ? -kMost : size}};
  TESSERA_ASSIGN_OR_RETURN(auto model, importBytes(context, modelOf(test).model.SerializeAsString(), options));
  std::vector<std::string> inputs;
  for (const RangedInput& input : test.inputs) inputs.push_back(bytesAt(input, size, ranged ? kMost : size));
  if (ranged) inputs.push_back(bytesOf<int64_t>({size}));
  return referenceRun(model, inputs, shapes);
}

}  // namespace

std::vector<float> weights(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::cos(static_cast<float>(i) * 0.9F) / 2;
  return values;
}

void expectEqualToExactSize(const RangedCase& test) {
  for (const int64_t size : {int64_t{1}, int64_t{3}, kMost}) {
    SCOPED_TRACE(test.name + " of " + std::to_string(size));
    Shapes expected_shapes, shapes;
    const auto expected = runAt(test, size, false, &expected_shapes);
    const auto outputs = runAt(test, size, true, &shapes);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(shapes, expected_shapes);
    for (size_t i = 0; i < test.outputs.size(); ++i) {
      EXPECT_THAT(valuesOf<float>((*outputs)[i]),
                  testing::Pointwise(testing::FloatNear(1e-5F), valuesOf<float>((*expected)[i])));
    }
  }
}

void expectRefused(const RangedCase& test) {
  const auto refused = runAt(test, 4, true, nullptr).status();
  EXPECT_EQ(failureOf(refused).reason(), v1::Failure::UNSUPPORTED_OPERATOR) << test.name << ": " << refused;
}

}  // namespace tessera::compiler
