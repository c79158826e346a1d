// Library calls that generated kernels are compared with, one thread each.
#include <cblas.h>

#include <cstring>
#include <memory>
#include <unordered_map>

#include "compiler/backends/cpu/benchmark/cases.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace tessera::compiler::codegen::benchmark {

Work dnnlConvolution(const Conv& conv) {
  using dnnl::memory;
  const int64_t out = conv.size / conv.stride, pad = conv.kernel / 2;
  auto engine = std::make_shared<dnnl::engine>(dnnl::engine::kind::cpu, 0);
  auto stream = std::make_shared<dnnl::stream>(*engine);
  auto any = [](const memory::dims& dims) {
    return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
  };
  auto weights = any({conv.k, conv.c, conv.kernel, conv.kernel});
  if (conv.groups > 1)
    weights = any({conv.groups, conv.k / conv.groups, conv.c / conv.groups, conv.kernel, conv.kernel});
  auto desc = dnnl::convolution_forward::desc(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, any({1, conv.c, conv.size, conv.size}),
      weights, any({conv.k}), any({1, conv.k, out, out}), {conv.stride, conv.stride}, {pad, pad}, {pad, pad});
  dnnl::post_ops post;
  post.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(post);
  auto primitive = dnnl::convolution_forward::primitive_desc(desc, attributes, *engine);
  auto run = std::make_shared<dnnl::convolution_forward>(primitive);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, memory(primitive.src_desc(), *engine)},
                                            {DNNL_ARG_WEIGHTS, memory(primitive.weights_desc(), *engine)},
                                            {DNNL_ARG_BIAS, memory(primitive.bias_desc(), *engine)},
                                            {DNNL_ARG_DST, memory(primitive.dst_desc(), *engine)}};
  for (auto& [id, value] : arguments) std::memset(value.get_data_handle(), 0, value.get_desc().get_size());
  return [=] {
    run->execute(*stream, arguments);
    stream->wait();
  };
}

Work dnnlMatmul(const Gemm& gemm, bool packed) {
  using dnnl::memory;
  const auto [batch, m, n, k, ta, tb] = std::tuple(gemm.batch, gemm.m, gemm.n, gemm.k, gemm.ta, gemm.tb);
  auto engine = std::make_shared<dnnl::engine>(dnnl::engine::kind::cpu, 0);
  auto stream = std::make_shared<dnnl::stream>(*engine);
  auto matrix = [&](int64_t rows, int64_t columns, bool transposed, bool any) {
    memory::dims dims{rows, columns}, strides{transposed ? 1 : columns, transposed ? rows : 1};
    if (batch > 1) {
      dims.insert(dims.begin(), batch);
      strides.insert(strides.begin(), rows * columns);
    }
    return any ? memory::desc(dims, memory::data_type::f32, memory::format_tag::any)
               : memory::desc(dims, memory::data_type::f32, strides);
  };
  auto desc = dnnl::matmul::desc(matrix(m, k, ta, false), matrix(k, n, tb, packed), matrix(m, n, false, false));
  auto primitive = dnnl::matmul::primitive_desc(desc, *engine);
  auto run = std::make_shared<dnnl::matmul>(primitive);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, memory(primitive.src_desc(), *engine)},
                                            {DNNL_ARG_WEIGHTS, memory(primitive.weights_desc(), *engine)},
                                            {DNNL_ARG_DST, memory(primitive.dst_desc(), *engine)}};
  for (auto& [id, value] : arguments) std::memset(value.get_data_handle(), 0, value.get_desc().get_size());
  return [=] {
    run->execute(*stream, arguments);
    stream->wait();
  };
}

Work blasMatmul(const Gemm& gemm) {
  auto buffer = [](int64_t floats) {
    return std::shared_ptr<float>(static_cast<float*>(std::aligned_alloc(64, (floats * 4 + 63) / 64 * 64)), std::free);
  };
  auto a = buffer(gemm.batch * gemm.m * gemm.k), b = buffer(gemm.batch * gemm.k * gemm.n),
       c = buffer(gemm.batch * gemm.m * gemm.n);
  std::memset(a.get(), 0, gemm.batch * gemm.m * gemm.k * 4);
  std::memset(b.get(), 0, gemm.batch * gemm.k * gemm.n * 4);
  return [=] {
    for (int64_t i = 0; i < gemm.batch; ++i)
      cblas_sgemm(CblasRowMajor, gemm.ta ? CblasTrans : CblasNoTrans, gemm.tb ? CblasTrans : CblasNoTrans,
                  static_cast<int>(gemm.m), static_cast<int>(gemm.n), static_cast<int>(gemm.k), 1.0F,
                  a.get() + i * gemm.m * gemm.k, static_cast<int>(gemm.ta ? gemm.m : gemm.k),
                  b.get() + i * gemm.k * gemm.n, static_cast<int>(gemm.tb ? gemm.k : gemm.n), 0.0F,
                  c.get() + i * gemm.m * gemm.n, static_cast<int>(gemm.n));
  };
}

}  // namespace tessera::compiler::codegen::benchmark
