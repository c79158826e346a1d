#include "compiler/backends/cpu/testing/chain_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tessera::compiler::codegen::testing {
namespace {

std::string typed(const std::string& body, const std::string& element) {
  return absl::StrReplaceAll(body, {{"f32", element}});
}

std::string dims(size_t rank) {
  std::string text;
  for (size_t d = 0; d < rank; ++d) absl::StrAppend(&text, d ? ", d" : "d", d);
  return text;
}

}  // namespace

Tensor batchProduct(WorkloadText& text, const Tensor& a, const Tensor& b, bool transposed) {
  const std::vector<int64_t> shape{a.shape[0], a.shape[1], b.shape[transposed ? 1 : 2]};
  return text.generic({a, b}, {"d0, d1, d3", transposed ? "d0, d2, d3" : "d0, d3, d2", "d0, d1, d2"},
                      text.fill(shape, "0.0", a.element), 4, "pppr", typed(kMultiplyAdd, a.element));
}

Tensor softmax(WorkloadText& text, const Tensor& x) {
  const std::vector<int64_t> rows{x.shape[0], x.shape[1]};
  const std::string lowest = x.element == "f64" ? "0xFFF0000000000000" : "0xFF800000", id = "d0, d1, d2",
                    row = "d0, d1";
  const Tensor maximum = text.generic({x}, {id, row}, text.fill(rows, lowest, x.element), 3, "ppr",
                                      typed("%r = arith.maximumf %i0, %o : f32", x.element));
  const Tensor powers = text.generic({x, maximum}, {id, row, id}, text.empty(x.shape, x.element), 3, "",
                                     typed("%d = arith.subf %i0, %i1 : f32\n    %r = math.exp %d : f32", x.element));
  const Tensor sum = text.generic({powers}, {id, row}, text.fill(rows, "0.0", x.element), 3, "ppr",
                                  typed("%r = arith.addf %i0, %o : f32", x.element));
  return text.generic({powers, sum}, {id, row, id}, text.empty(x.shape, x.element), 3, "",
                      typed("%r = arith.divf %i0, %i1 : f32", x.element));
}

Tensor relu(WorkloadText& text, const Tensor& x) {
  const std::string id = dims(x.shape.size());
  return text.generic({x}, {id, id}, text.empty(x.shape, x.element), static_cast<int>(x.shape.size()), "",
                      typed("%z = arith.constant 0.0 : f32\n    %r = arith.maximumf %i0, %z : f32", x.element));
}

Tensor convolution(WorkloadText& text, const Tensor& x, const Tensor& filter, int64_t pad, int64_t stride,
                   int64_t dilation) {
  const Tensor padded = pad > 0 ? text.pad(x, {0, pad, pad, 0}, {0, pad, pad, 0}, "0.0") : x;
  auto out = [&](int64_t in, int64_t kernel) { return (in - dilation * (kernel - 1) - 1) / stride + 1; };
  const std::vector<int64_t> shape{x.shape[0], out(padded.shape[1], filter.shape[0]),
                                   out(padded.shape[2], filter.shape[1]), filter.shape[3]};
  const std::string rows = absl::StrCat("d1 * ", stride, " + d4 * ", dilation),
                    columns = absl::StrCat("d2 * ", stride, " + d5 * ", dilation);
  return text.generic({padded, filter},
                      {absl::StrCat("d0, ", rows, ", ", columns, ", d6"), "d4, d5, d6, d3", "d0, d1, d2, d3"},
                      text.fill(shape, "0.0"), 7, "pppprrr", kMultiplyAdd);
}

std::string attentionMaskedBy(const std::string& mask, const Chain& chain) {
  WorkloadText text;
  const auto [batch, m, n, k, l, element, transposed] = chain;
  const Tensor a = text.argument({batch, m, k}, element);
  const Tensor b = text.argument(transposed ? std::vector{batch, n, k} : std::vector{batch, k, n}, element);
  const Tensor c = text.argument({batch, n, l}, element);
  const std::string id = "d0, d1, d2";
  const Tensor masked = text.generic(
      {batchProduct(text, a, b, transposed)}, {id, id}, text.empty({batch, m, n}, element), 3, "",
      "%low = arith.constant " + std::string(element == "f64" ? "0xFFF0000000000000" : "0xFF800000") + " : " + element +
          "\n    %row = linalg.index 1 : index\n    %column = linalg.index 2 : index\n    " + mask);
  return text.finish({batchProduct(text, softmax(text, masked), c)});
}

std::string causal(int64_t offset, const std::string& element) {
  return "%offset = arith.constant " + std::to_string(offset) +
         " : index\n    %edge = arith.addi %row, %offset : index\n    %seen = arith.cmpi ule, %column, %edge : "
         "index\n    %r = arith.select %seen, %i0, %low : " +
         element;
}

void cut(v1::ChainTiling& slices, const std::string& name, int64_t tile) {
  slices.add_order(name);
  slices.add_tile(tile);
}

ScheduleRequest slicesOf(const Tiling& tiling) {
  ScheduleRequest request;
  for (const auto& [name, tile] : tiling) cut(request.slices, name, tile);
  return request;
}

CheckOptions chained(const Tiling& tiling, unsigned seed) {
  CheckOptions options;
  options.seed = seed;
  options.request = slicesOf(tiling);
  return options;
}

}  // namespace tessera::compiler::codegen::testing
