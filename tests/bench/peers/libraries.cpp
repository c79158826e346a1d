// oneDNN and OpenBLAS as peers of tests/bench/run: keeps prepared calls, times them on request, and measures the
// machine's peak rates. Reads one request a line from standard input and writes one answer a line to standard output:
//   load LIBRARY gemm M N K CONSTANT                  -> ok ID       LIBRARY: onednn, openblas
//   load LIBRARY chain BATCH M N K L SOFTMAX
//   load onednn conv N C SIZE K KERNEL STRIDE GROUPS RELU
//   load onednn convchain C SIZE K1 K2 STRIDE1 STRIDE2 KERNEL1 KERNEL2 RELU
//   load onednn-nchw convchain ...                    (the same numbers: NCHW tensors in and out)
//   load onednn pool MAX N C SIZE KERNEL STRIDE PAD     (NCHW; MAX 0: average)
//   load onednn qgemm M N K                           (u8 times constant s8 to u8, one scale)
//   load onednn qconv N C SIZE K KERNEL STRIDE        (u8 with s8 and an s32 bias to u8, a scale for each channel)
//   run ID REPEAT                                     -> ok MS MS ...
//   peak fma | peak bandwidth                         -> ok GFLOP/s | ok GB/s
//   peak bytes | peak tiles | peak tile-halves        -> ok GOP/s of vpdpbusd | of tdpbusd | ok GFLOP/s of tdpbf16ps
//   drop ID                                           -> ok
// A call that a library lacks or rejects is answered with "error TEXT". Threads: OMP_NUM_THREADS and
// OPENBLAS_NUM_THREADS. The library chooses the layouts of constant operands and of intermediates.
#include <cblas.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "compiler/backends/cpu/benchmark/fma_peak.h"
#include "compiler/target/cpu_features.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace {

using dnnl::memory;
using Call = std::function<void()>;
using Clock = std::chrono::steady_clock;
using Tag = memory::format_tag;

constexpr float kScale = 0.01F;  ///< of sums of bytes

struct Onednn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

using Type = memory::data_type;

memory::desc described(const memory::dims& dims, Tag tag, Type type = Type::f32) { return {dims, type, tag}; }

/// Memory filled with small values: denormals would slow a library down, zeros might speed it up.
memory filled(const memory::desc& desc, const dnnl::engine& engine) {
  memory made(desc, engine);
  if (desc.data_type() != Type::f32) {
    auto* bytes = static_cast<unsigned char*>(made.get_data_handle());
    for (size_t i = 0; i < desc.get_size(); ++i) bytes[i] = static_cast<unsigned char>(i % 11);
    return made;
  }
  auto* values = static_cast<float*>(made.get_data_handle());
  for (size_t i = 0; i < desc.get_size() / sizeof(float); ++i) values[i] = static_cast<float>(i % 23) * 0.03F - 0.3F;
  return made;
}

/// `bytes`: u8 times s8 to u8 instead of f32.
Call onednnProduct(const std::shared_ptr<Onednn>& dnn, const memory::dims& a, const memory::dims& b,
                   const memory::dims& c, bool constant, bool bytes = false) {
  const Tag plain = a.size() == 3 ? Tag::abc : Tag::ab;
  const dnnl::matmul::desc desc(described(a, plain, bytes ? Type::u8 : Type::f32),
                                described(b, constant ? Tag::any : plain, bytes ? Type::s8 : Type::f32),
                                described(c, plain, bytes ? Type::u8 : Type::f32));
  dnnl::primitive_attr attributes;
  if (bytes) attributes.set_output_scales(0, {kScale});
  const dnnl::matmul::primitive_desc primitive(desc, attributes, dnn->engine);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, filled(primitive.src_desc(), dnn->engine)},
                                            {DNNL_ARG_WEIGHTS, filled(primitive.weights_desc(), dnn->engine)},
                                            {DNNL_ARG_DST, filled(primitive.dst_desc(), dnn->engine)}};
  return [dnn, run = dnnl::matmul(primitive), arguments] {
    run.execute(dnn->stream, arguments);
    dnn->stream.wait();
  };
}

Call onednnSoftmax(const std::shared_ptr<Onednn>& dnn, const memory::dims& dims) {
  const dnnl::softmax_forward::desc desc(dnnl::prop_kind::forward_inference, described(dims, Tag::abc),
                                         static_cast<int>(dims.size()) - 1);
  const dnnl::softmax_forward::primitive_desc primitive(desc, dnn->engine);
  const memory value = filled(primitive.dst_desc(), dnn->engine);
  return [dnn, run = dnnl::softmax_forward(primitive), value] {
    run.execute(dnn->stream, {{DNNL_ARG_SRC, value}, {DNNL_ARG_DST, value}});
    dnn->stream.wait();
  };
}

double secondsOf(const Call& call) {
  const auto start = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Call inOrder(std::vector<Call> calls) {
  return [calls = std::move(calls)] {
    for (const Call& call : calls) call();
  };
}

struct Convolution {
  int64_t n = 1, c = 1, size = 1, k = 1, kernel = 1, stride = 1, groups = 1;
  bool relu = false;
  bool bytes = false;  ///< u8 with s8 and an s32 bias to u8, instead of f32
  int64_t pad() const { return (kernel - 1) / 2; }
  int64_t out() const { return (size + 2 * pad() - kernel) / stride + 1; }
};

/// A prepared convolution. Source and destination have the given layouts; with `any` the library chooses.
struct Prepared {
  dnnl::convolution_forward::primitive_desc primitive;
  dnnl::convolution_forward run;
  std::unordered_map<int, memory> arguments;

  Prepared(const Onednn& dnn, const Convolution& conv, const memory::desc& source, const memory::desc& result)
      : primitive(descriptor(conv, source, result), attributes(conv), dnn.engine), run(primitive) {
    for (auto [argument, desc] : {std::pair{DNNL_ARG_SRC, primitive.src_desc()},
                                  {DNNL_ARG_WEIGHTS, primitive.weights_desc()},
                                  {DNNL_ARG_BIAS, primitive.bias_desc()},
                                  {DNNL_ARG_DST, primitive.dst_desc()}})
      arguments[argument] = filled(desc, dnn.engine);
  }

  static memory::desc source(const Convolution& conv, Tag tag) {
    return described({conv.n, conv.c, conv.size, conv.size}, tag, conv.bytes ? Type::u8 : Type::f32);
  }
  static memory::desc result(const Convolution& conv, Tag tag) {
    return described({conv.n, conv.k, conv.out(), conv.out()}, tag, conv.bytes ? Type::u8 : Type::f32);
  }

 private:
  static dnnl::convolution_forward::desc descriptor(const Convolution& conv, const memory::desc& source,
                                                    const memory::desc& result) {
    const memory::dims weights = conv.groups == 1 ? memory::dims{conv.k, conv.c, conv.kernel, conv.kernel}
                                                  : memory::dims{conv.groups, conv.k / conv.groups,
                                                                 conv.c / conv.groups, conv.kernel, conv.kernel};
    return {dnnl::prop_kind::forward_inference,
            dnnl::algorithm::convolution_auto,
            source,
            described(weights, Tag::any, conv.bytes ? Type::s8 : Type::f32),
            described({conv.k}, Tag::any, conv.bytes ? Type::s32 : Type::f32),
            result,
            {conv.stride, conv.stride},
            {conv.pad(), conv.pad()},
            {conv.pad(), conv.pad()}};
  }
  static dnnl::primitive_attr attributes(const Convolution& conv) {
    dnnl::primitive_attr attributes;
    if (conv.bytes) attributes.set_output_scales(1 << 1, std::vector<float>(conv.k, kScale));
    if (!conv.relu) return attributes;
    dnnl::post_ops post;
    post.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
    attributes.set_post_ops(post);
    return attributes;
  }
};

Call called(const std::shared_ptr<Onednn>& dnn, const Prepared& prepared) {
  return [dnn, run = prepared.run, arguments = prepared.arguments] {
    run.execute(dnn->stream, arguments);
    dnn->stream.wait();
  };
}

Call reordered(const std::shared_ptr<Onednn>& dnn, const memory& from, const memory& to) {
  return [dnn, run = dnnl::reorder(from, to), from, to] {
    run.execute(dnn->stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    dnn->stream.wait();
  };
}

/// Two convolutions in the library's own layouts; the second reads the layout that the first writes.
Call onednnChain(const std::shared_ptr<Onednn>& dnn, const Convolution& first, const Convolution& second) {
  const Prepared one(*dnn, first, Prepared::source(first, Tag::any), Prepared::result(first, Tag::any));
  Prepared two(*dnn, second, one.primitive.dst_desc(), Prepared::result(second, Tag::any));
  two.arguments[DNNL_ARG_SRC] = one.arguments.at(DNNL_ARG_DST);
  return inOrder({called(dnn, one), called(dnn, two)});
}

/// The same between NCHW tensors. The intermediate has the layout that the first convolution prefers, or NCHW, or is
/// reordered for the second. The convolutions read and write source and destination directly, or through reorders.
/// Keeps the fastest of these variants, by the minimum of several runs.
Call onednnChainOfPlanes(const std::shared_ptr<Onednn>& dnn, const Convolution& first, const Convolution& second) {
  constexpr int kRuns = 25;
  const memory given = filled(Prepared::source(first, Tag::nchw), dnn->engine),
               wanted = filled(Prepared::result(second, Tag::nchw), dnn->engine);
  std::vector<std::pair<Call, double>> choices;  // with the least time
  for (int choice = 0; choice < 16; ++choice) {
    auto tag = [&](int bit) { return (choice >> bit & 1) != 0 ? Tag::nchw : Tag::any; };
    const bool follow = (choice >> 3 & 1) != 0;
    try {
      const Prepared one(*dnn, first, Prepared::source(first, tag(0)), Prepared::result(first, tag(1)));
      Prepared two(*dnn, second, follow ? one.primitive.dst_desc() : Prepared::source(second, Tag::any),
                   Prepared::result(second, tag(2)));
      std::vector<Call> calls;
      auto step = [&](Prepared prepared, const memory& source, const memory* result) {
        if (prepared.primitive.src_desc() == source.get_desc()) {
          prepared.arguments[DNNL_ARG_SRC] = source;
        } else {
          calls.push_back(reordered(dnn, source, prepared.arguments.at(DNNL_ARG_SRC)));
        }
        const bool direct = result && prepared.primitive.dst_desc() == result->get_desc();
        if (direct) prepared.arguments[DNNL_ARG_DST] = *result;
        calls.push_back(called(dnn, prepared));
        if (result && !direct) calls.push_back(reordered(dnn, prepared.arguments.at(DNNL_ARG_DST), *result));
      };
      step(one, given, nullptr);
      step(two, one.arguments.at(DNNL_ARG_DST), &wanted);
      choices.emplace_back(inOrder(std::move(calls)), 1e9);
    } catch (const dnnl::error&) {
      continue;  // no primitive for these layouts
    }
  }
  if (choices.empty()) throw std::runtime_error("onednn has no primitives between NCHW tensors");
  // Alternates, so that other work on the machine does not decide. A variant that is far slower once is dropped.
  auto ahead = [](const auto& a, const auto& b) { return a.second < b.second; };
  for (int run = 0; run < kRuns; ++run) {
    const double least = std::ranges::min_element(choices, ahead)->second;
    for (auto& [call, best] : choices)
      if (run < 2 || best < 3 * least) best = std::min(best, secondsOf(call));
  }
  return std::ranges::min_element(choices, ahead)->first;
}

Call onednnPool(const std::shared_ptr<Onednn>& dnn, const std::vector<int64_t>& v) {
  const int64_t n = v[1], c = v[2], size = v[3], kernel = v[4], stride = v[5], pad = v[6],
                out = (size + 2 * pad - kernel) / stride + 1;
  const dnnl::pooling_forward::desc desc(
      dnnl::prop_kind::forward_inference,
      v[0] != 0 ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_exclude_padding,
      described({n, c, size, size}, Tag::nchw), described({n, c, out, out}, Tag::nchw), {stride, stride},
      {kernel, kernel}, {pad, pad}, {pad, pad});
  const dnnl::pooling_forward::primitive_desc primitive(desc, dnn->engine);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, filled(primitive.src_desc(), dnn->engine)},
                                            {DNNL_ARG_DST, filled(primitive.dst_desc(), dnn->engine)}};
  return [dnn, run = dnnl::pooling_forward(primitive), arguments] {
    run.execute(dnn->stream, arguments);
    dnn->stream.wait();
  };
}

/// `planes`: between NCHW tensors.
Call loadOnednn(const std::string& kind, const std::vector<int64_t>& v, bool planes) {
  auto dnn = std::make_shared<Onednn>();
  if (planes && kind != "convchain") throw std::runtime_error("a side of convolutions in a row");
  if (kind == "gemm") return onednnProduct(dnn, {v[0], v[2]}, {v[2], v[1]}, {v[0], v[1]}, v[3] != 0);
  if (kind == "chain") {
    const int64_t batch = v[0], m = v[1], n = v[2], k = v[3], l = v[4];
    std::vector<Call> calls{onednnProduct(dnn, {batch, m, k}, {batch, k, l}, {batch, m, l}, false)};
    if (v[5] != 0) calls.push_back(onednnSoftmax(dnn, {batch, m, l}));
    calls.push_back(onednnProduct(dnn, {batch, m, l}, {batch, l, n}, {batch, m, n}, false));
    return inOrder(std::move(calls));
  }
  if (kind == "pool") return onednnPool(dnn, v);
  if (kind == "qgemm") return onednnProduct(dnn, {v[0], v[2]}, {v[2], v[1]}, {v[0], v[1]}, true, true);
  if (kind == "conv" || kind == "qconv") {
    const bool bytes = kind == "qconv";
    const Convolution conv{v[0], v[1], v[2], v[3], v[4], v[5], bytes ? 1 : v[6], !bytes && v[7] != 0, bytes};
    return called(dnn, Prepared(*dnn, conv, Prepared::source(conv, Tag::any), Prepared::result(conv, Tag::any)));
  }
  if (kind == "convchain") {
    const Convolution first{1, v[0], v[1], v[2], v[6], v[4], 1, v[8] != 0};
    const Convolution second{1, v[2], first.out(), v[3], v[7], v[5], 1, v[8] != 0};
    return planes ? onednnChainOfPlanes(dnn, first, second) : onednnChain(dnn, first, second);
  }
  throw std::runtime_error("onednn has no call for " + kind);
}

std::shared_ptr<std::vector<float>> values(int64_t count) {
  auto made = std::make_shared<std::vector<float>>(count);
  for (int64_t i = 0; i < count; ++i) (*made)[i] = static_cast<float>(i % 23) * 0.03F - 0.3F;
  return made;
}

Call blasProduct(int64_t batch, int64_t m, int64_t n, int64_t k) {
  return [=, a = values(batch * m * k), b = values(batch * k * n), c = values(batch * m * n)] {
    for (int64_t i = 0; i < batch; ++i) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
                  static_cast<int>(k), 1.0F, a->data() + i * m * k, static_cast<int>(k), b->data() + i * k * n,
                  static_cast<int>(n), 0.0F, c->data() + i * m * n, static_cast<int>(n));
    }
  };
}

Call loadOpenblas(const std::string& kind, const std::vector<int64_t>& v) {
  if (kind == "gemm") return blasProduct(1, v[0], v[1], v[2]);
  if (kind == "chain" && v[5] == 0) {
    return inOrder({blasProduct(v[0], v[1], v[4], v[3]), blasProduct(v[0], v[1], v[2], v[4])});
  }
  throw std::runtime_error("openblas has no call for " + kind);
}

/// The same for machines without AVX-512.
__attribute__((target("avx2,fma"))) double fma256(long iterations) {
  __m256 sum[12];
  for (auto& s : sum) s = _mm256_set1_ps(1.0F);
  const __m256 a = _mm256_set1_ps(0.999999F), b = _mm256_set1_ps(1e-7F);
  for (long i = 0; i < iterations; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < 12; ++j) sum[j] = _mm256_fmadd_ps(sum[j], a, b);
  float kept[8];
  __m256 total = sum[0];
  for (int j = 1; j < 12; ++j) total = _mm256_add_ps(total, sum[j]);
  _mm256_storeu_ps(kept, total);
  volatile float keep = kept[0];
  (void)keep;
  return 12.0 * 16 * static_cast<double>(iterations);
}

/// GFLOP/s of one core.
double peakFma() {
  const bool wide = __builtin_cpu_supports("avx512f") != 0;
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    double flops = 0;
    const double time = secondsOf([&] { flops = wide ? fma512(500000) : fma256(500000); });
    best = std::max(best, flops / time * 1e-9);
  }
  return best;
}

/// Independent dot products of bytes in registers. Returns the number of operations.
__attribute__((target("avx512f,avx512vnni"))) double dot512(long iterations) {
  __m512i sum[20];
  for (auto& s : sum) s = _mm512_setzero_si512();
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
  for (long i = 0; i < iterations; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < 20; ++j) {
      sum[j] = _mm512_dpbusd_epi32(sum[j], a, b);
      asm volatile("" : "+v"(sum[j]));  // otherwise the compiler turns the loop into a multiplication
    }
  __m512i total = sum[0];
  for (int j = 1; j < 20; ++j) total = _mm512_add_epi32(total, sum[j]);
  volatile int keep = _mm512_reduce_add_epi32(total);
  (void)keep;
  return 20.0 * 128 * static_cast<double>(iterations);
}

/// GOP/s of one core.
double peakBytes() {
  if (__builtin_cpu_supports("avx512vnni") == 0) throw std::runtime_error("this machine has no vpdpbusd of 512 bits");
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    double operations = 0;
    const double time = secondsOf([&] { operations = dot512(500000); });
    best = std::max(best, operations / time * 1e-9);
  }
  return best;
}

/// Four independent products of full tiles, interleaved, of bytes or 16-bit floats. Returns the number of operations.
__attribute__((target("amx-tile,amx-int8,amx-bf16"))) double tiles(long iterations, bool bytes) {
  struct alignas(64) Shapes {
    uint8_t palette = 1, first = 0, zeros[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  const Shapes shapes;
  const std::vector<uint8_t> operand(1024, 0);
  _tile_loadconfig(&shapes);
  _tile_zero(0), _tile_zero(1), _tile_zero(2), _tile_zero(3);
  _tile_loadd(4, operand.data(), 64), _tile_loadd(5, operand.data(), 64);
  _tile_loadd(6, operand.data(), 64), _tile_loadd(7, operand.data(), 64);
  if (bytes) {
    for (long i = 0; i < iterations; ++i)
      _tile_dpbusd(0, 4, 6), _tile_dpbusd(1, 4, 7), _tile_dpbusd(2, 5, 6), _tile_dpbusd(3, 5, 7);
  } else {
    for (long i = 0; i < iterations; ++i)
      _tile_dpbf16ps(0, 4, 6), _tile_dpbf16ps(1, 4, 7), _tile_dpbf16ps(2, 5, 6), _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 4.0 * 16 * 16 * (bytes ? 64 : 32) * 2 * static_cast<double>(iterations);
}

/// GOP/s of one core.
double peakTiles(bool bytes) {
  for (const char* feature : {"amx-tile", "amx-int8", "amx-bf16"})
    if (tessera::compiler::hostFeature(feature) != tessera::compiler::FeatureState::kPresent)
      throw std::runtime_error("this machine has no products of tiles");
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    double operations = 0;
    const double time = secondsOf([&] { operations = tiles(1000000, bytes); });
    best = std::max(best, operations / time * 1e-9);
  }
  return best;
}

/// GB/s of one core that reads and writes memory beyond all caches: a triad of 3 x 64 MiB, 4 transfers an element (a
/// written line is read first).
double peakBandwidth() {
  constexpr int64_t kCount = 16 << 20;
  std::vector<float> a(kCount, 1.0F), b(kCount, 2.0F), c(kCount, 3.0F);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double time = secondsOf([&] {
      for (int64_t j = 0; j < kCount; ++j) a[j] = b[j] + 0.5F * c[j];
    });
    best = std::max(best, 4.0 * sizeof(float) * kCount / time * 1e-9);
  }
  volatile float keep = a[kCount / 2];
  (void)keep;
  return best;
}

class Server {
 public:
  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string verb, first, kind;
    words >> verb >> first;
    if (verb == "peak") {
      const double peak = first == "fma"           ? peakFma()
                          : first == "bytes"       ? peakBytes()
                          : first == "tiles"       ? peakTiles(true)
                          : first == "tile-halves" ? peakTiles(false)
                                                   : peakBandwidth();
      return "ok " + std::to_string(peak);
    }
    if (verb == "load") {
      words >> kind;
      std::vector<int64_t> numbers(16, 0);
      size_t count = 0;
      for (int64_t number = 0; count < numbers.size() && words >> number;) numbers[count++] = number;
      Call call = first == "openblas" ? loadOpenblas(kind, numbers) : loadOnednn(kind, numbers, first == "onednn-nchw");
      call();
      calls_[++last_] = std::move(call);
      return "ok " + std::to_string(last_);
    }
    const int id = std::stoi(first);
    if (verb == "drop") {
      calls_.erase(id);
      return "ok";
    }
    int repeat = 1;
    words >> repeat;
    std::string text = "ok";
    for (int i = 0; i < repeat; ++i) text += " " + std::to_string(1e3 * secondsOf(calls_.at(id)));
    return text;
  }

 private:
  std::map<int, Call> calls_;
  int last_ = 0;
};

}  // namespace

int main() {
  Server server;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << server.answer(line) << '\n' << std::flush;
    } catch (const std::exception& error) {
      std::cout << "error " << error.what() << '\n' << std::flush;
    }
  }
  return 0;
}
