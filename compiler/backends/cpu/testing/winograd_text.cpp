#include "compiler/backends/cpu/testing/winograd_text.h"

namespace tessera::compiler::codegen::testing {

Tensor WinogradText::write(WorkloadText& text, const Tensor& to_input, const Tensor& to_output) const {
  const int64_t t = side();
  const std::string step = std::to_string(results), all = "d0, d1, d2, d3, d4, d5", whole = "d0, d1, d2, d3";
  const Tensor x = text.argument(input()), u = text.argument(filters()), shift = text.argument(bias());
  const Tensor v = text.generic({to_input, to_input, x},
                                {"d0, d6", "d1, d7", "d2, d3 * " + step + " + d6, d4 * " + step + " + d7, d5", all},
                                text.fill({t, t, inputs, down, across, block}, "0.0"), 8, "pppppprr", kTransformBody);
  const Tensor product =
      text.generic({v, u}, {"d0, d1, d6, d3, d4, d7", "d0, d1, d2, d6, d7, d5", all},
                   text.fill({t, t, outputs, down, across, block}, "0.0"), 8, "pppppprr", kMultiplyAdd);
  const Tensor y = text.generic(
      {to_output, to_output, product},
      {"d2, d6", "d4, d7", "d6, d7, d0, d1, d3, d5", "d0, d1 * " + step + " + d2, d3 * " + step + " + d4, d5"},
      text.fill(result(), "0.0"), 8, "pppppprr", kTransformBody);
  return text.generic({y, shift}, {whole, "d0, d3", whole}, text.empty(result()), 4, "", kBiasRelu);
}

}  // namespace tessera::compiler::codegen::testing
