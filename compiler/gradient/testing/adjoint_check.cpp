#include "compiler/gradient/testing/adjoint_check.h"

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/gradient/testing/evaluate.h"
#include "compiler/import/expression/print.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient::testing {
namespace {

class Draw {
 public:
  explicit Draw(const CheckOptions& options) : random_(options.seed), exact_(options.exact) {}

  double value() {
    if (exact_) return std::uniform_int_distribution<int>(-4, 4)(random_);
    return std::uniform_real_distribution<double>(0.5, 1.5)(random_);
  }
  double direction() {
    if (exact_) return std::uniform_int_distribution<int>(-4, 4)(random_);
    return std::uniform_real_distribution<double>(-1, 1)(random_);
  }
  DualTensor tensor(const std::vector<int64_t>& shape) {
    DualTensor tensor{.shape = shape};
    size_t size = 1;
    for (const int64_t extent : shape) size *= static_cast<size_t>(extent);
    for (size_t i = 0; i < size; ++i) tensor.elements.push_back({value(), 0});
    return tensor;
  }

 private:
  std::mt19937_64 random_;
  bool exact_;
};

}  // namespace

absl::StatusOr<double> checkAdjoint(const std::string& text, const GradientOptions& gradient,
                                    const CheckOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(const expression::Program program, expression::parse(text));
  TESSERA_ASSIGN_OR_RETURN(const Gradient made, gradientOf(program, gradient));
  const std::string printed = expression::print(made.program);
  TESSERA_ASSIGN_OR_RETURN(const expression::Program backward, expression::parse(printed));
  Draw draw(options);
  DualTensors inputs, backward_inputs;
  TESSERA_ASSIGN_OR_RETURN(const auto shapes, inputShapes(program));
  for (const auto& [name, shape] : shapes) inputs[name] = draw.tensor(shape);
  TESSERA_ASSIGN_OR_RETURN(const auto backward_shapes, inputShapes(backward));
  for (const auto& [name, shape] : backward_shapes)
    backward_inputs[name] = inputs.contains(name) ? inputs.at(name) : draw.tensor(shape);
  TESSERA_ASSIGN_OR_RETURN(const DualTensors gradients, evaluateProgram(backward, backward_inputs));
  double largest = 0;
  for (const InputGradient& each : made.inputs) {
    DualTensors moved = inputs;
    double right = 0, size = 0;
    const DualTensor& transposed = gradients.at(each.gradient);
    if (transposed.shape != inputs.at(each.input).shape)
      return absl::InternalError(absl::StrCat("the gradient of '", each.input, "' has another shape:\n", printed));
    for (size_t i = 0; i < transposed.elements.size(); ++i) {
      Dual& element = moved.at(each.input).elements[i];
      element.tangent = draw.direction();
      right += element.tangent * transposed.elements[i].value;
      size += std::abs(element.tangent * transposed.elements[i].value);
    }
    TESSERA_ASSIGN_OR_RETURN(const DualTensors forward, evaluateProgram(program, moved));
    double left = 0;
    for (const std::string& name : made.output_gradients) {
      const DualTensor& output = forward.at(name.substr(1));  // "dO" is the gradient of "O"
      for (size_t i = 0; i < output.elements.size(); ++i) {
        const double term = output.elements[i].tangent * backward_inputs.at(name).elements[i].value;
        left += term;
        size += std::abs(term);
      }
    }
    const double difference = left == right ? 0 : std::abs(left - right) / (options.exact ? 1 : size);
    if (!(difference <= (options.exact ? 0 : options.tolerance)))
      return absl::InternalError(absl::StrCat("the gradient of '", each.input, "' is wrong: <dy, J v> = ", left,
                                              ", <transposed J dy, v> = ", right, "\n", text, "\n", printed));
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace tessera::compiler::gradient::testing
