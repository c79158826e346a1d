// Elementwise operations, reductions, reshapes and slices over random shapes and types, against the oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/workload_text.h"

namespace tessera::compiler::codegen::testing {
namespace {

class Loops : public ::testing::TestWithParam<unsigned> {
 protected:
  Loops() : engine_(GetParam() * 7919 + 13) {}
  int64_t pick(std::initializer_list<int64_t> values) { return values.begin()[engine_() % values.size()]; }
  template <typename T>
  T any(std::vector<T> values) {
    return values[engine_() % values.size()];
  }
  std::vector<int64_t> shape(int rank) {
    std::vector<int64_t> result;
    for (int d = 0; d < rank; ++d) result.push_back(pick({1, 2, 3, 5, 8, 16, 17}));
    return result;
  }
  std::mt19937 engine_;
};

std::string dimsOf(int rank) {
  std::string text;
  for (int d = 0; d < rank; ++d) text += (d ? ", d" : "d") + std::to_string(d);
  return text;
}

TEST_P(Loops, ElementwiseWithPermutationsAndBroadcasts) {
  const int rank = static_cast<int>(pick({0, 1, 2, 3, 4}));
  const std::vector<int64_t> out = shape(rank);
  WorkloadText text;
  // One operand unchanged, one permuted, one with dimensions left out.
  std::vector<int> order(rank);
  for (int d = 0; d < rank; ++d) order[d] = d;
  std::shuffle(order.begin(), order.end(), engine_);
  std::vector<int64_t> permuted, reduced;
  std::string permuted_map, reduced_map;
  for (int d : order) {
    permuted_map += (permuted.empty() ? "d" : ", d") + std::to_string(d);
    permuted.push_back(out[d]);
  }
  for (int d = 0; d < rank; ++d)
    if (engine_() % 2) {
      reduced_map += (reduced.empty() ? "d" : ", d") + std::to_string(d);
      reduced.push_back(out[d]);
    }
  const Tensor a = text.argument(out), b = text.argument(permuted), c = text.argument(reduced);
  Tensor r = text.generic({a, b, c}, {dimsOf(rank), permuted_map, reduced_map, dimsOf(rank)}, text.empty(out), rank, "",
                          "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.subf %m, %i2 : f32");
  if (engine_() % 2)  // a consumer that permutes what was just computed
    r = text.generic({r, b}, {dimsOf(rank), permuted_map, permuted_map}, text.empty(permuted), rank, "",
                     "%r = arith.maximumf %i0, %i1 : f32");
  checkWorkload(text.finish({r}), {.seed = GetParam()});
}

TEST_P(Loops, MixedTypesAndSelect) {
  const std::vector<int64_t> extents = shape(static_cast<int>(pick({1, 2, 3})));
  const std::string dims = dimsOf(static_cast<int>(extents.size()));
  const int rank = static_cast<int>(extents.size());
  WorkloadText text;
  const std::string integer = any<std::string>({"i8", "i16", "i32", "i64"}),
                    real = any<std::string>({"f32", "f64", "f16"});
  const Tensor a = text.argument(extents, integer), b = text.argument(extents, integer),
               c = text.argument(extents, real);
  // The mask is a tensor of i1 between two operations, like a model's comparisons.
  const Tensor mask = text.generic({a, b}, {dims, dims, dims}, text.empty(extents, "i1"), rank, "",
                                   "%r = arith.cmpi slt, %i0, %i1 : " + integer);
  const Tensor chosen =
      text.generic({mask, a, b}, {dims, dims, dims, dims}, text.empty(extents, integer), rank, "",
                   "%s = arith.addi %i1, %i2 : " + integer + "\n    %r = arith.select %i0, %s, %i2 : " + integer);
  const Tensor cast =
      text.generic({chosen, c}, {dims, dims, dims}, text.empty(extents, real), rank, "",
                   "%f = arith.sitofp %i0 : " + integer + " to " + real + "\n    %r = arith.addf %f, %i1 : " + real);
  std::vector<Tensor> results{cast};
  if (engine_() % 2) results.push_back(chosen);
  checkWorkload(text.finish(results), {.seed = GetParam(), .integer_range = 20});
}

TEST_P(Loops, Reductions) {
  const int rank = static_cast<int>(pick({1, 2, 3, 4}));
  const std::vector<int64_t> in = shape(rank);
  struct Kind {
    std::string op, start, element;
  };
  const Kind kind = any<Kind>({{"arith.addf", "0.0", "f32"},
                               {"arith.mulf", "1.0", "f32"},
                               {"arith.maximumf", "0xFF800000", "f32"},
                               {"arith.minimumf", "0x7F800000", "f32"},
                               {"arith.maxnumf", "0xFF800000", "f32"},
                               {"arith.addf", "0.0", "f64"},
                               {"arith.addi", "3", "i32"},
                               {"arith.maxsi", "-2147483648", "i32"},
                               {"arith.addi", "0", "i64"},
                               {"arith.minsi", "127", "i8"}});
  std::string reductions, kept_map;
  std::vector<int64_t> kept;
  for (int d = 0; d < rank; ++d) {
    reductions += engine_() % 2 ? 'r' : 'p';
    if (reductions.back() == 'p') {
      kept_map += (kept.empty() ? "d" : ", d") + std::to_string(d);
      kept.push_back(in[d]);
    }
  }
  WorkloadText text;
  const bool squares = engine_() % 2 && kind.element == "f32" && kind.op == "arith.addf";
  const Tensor x = text.argument(in, kind.element);
  const std::string body = squares ? "%q = arith.mulf %i0, %i0 : f32\n    %r = arith.addf %o, %q : f32"
                                   : "%r = " + kind.op + " %i0, %o : " + kind.element;
  Tensor y =
      text.generic({x}, {dimsOf(rank), kept_map}, text.fill(kept, kind.start, kind.element), rank, reductions, body);
  if (kind.element == "f32" && engine_() % 2) {
    const std::string dims = dimsOf(static_cast<int>(kept.size()));
    y = text.generic({y}, {dims, dims}, text.empty(kept), static_cast<int>(kept.size()), "",
                     "%c = arith.constant 0.125 : f32\n    %r = arith.mulf %i0, %c : f32");
  }
  checkWorkload(text.finish({y}), {.seed = GetParam(), .low = 0.5, .high = 1.5});
}

TEST_P(Loops, ArgMaxAndIndex) {
  const int64_t rows = pick({1, 3, 16, 20}), columns = pick({1, 2, 7, 33});
  WorkloadText text;
  const Tensor x = text.argument({rows, columns});
  const std::string reductions = engine_() % 2 ? "pr" : "rp";
  const std::string map = reductions == "pr" ? "d0" : "d1";
  const std::vector<int64_t> kept{reductions == "pr" ? rows : columns};
  // Two results of one reduction are written as text: the builder supports operations of one result only.
  const Tensor best = text.fill(kept, "0xFF800000"), where = text.fill(kept, "0", "i64");
  const Tensor both = text.raw(
      "linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (" + map +
          ")>, affine_map<(d0, d1) -> (" + map + ")>], iterator_types = [" +
          (reductions == "pr" ? "\"parallel\", \"reduction\"" : "\"reduction\", \"parallel\"") + "]} ins(" + x.name +
          " : " + x.type() + ") outs(" + best.name + ", " + where.name + " : " + best.type() + ", " + where.type() +
          ") {\n  ^bb0(%a: f32, %m: f32, %w: i64):\n    %i = linalg.index " + (reductions == "pr" ? "1" : "0") +
          " : index\n    %j = arith.index_cast %i : index to i64\n    %g = arith.cmpf ogt, %a, %m : f32\n"
          "    %v = arith.select %g, %a, %m : f32\n    %k = arith.select %g, %j, %w : i64\n"
          "    linalg.yield %v, %k : f32, i64\n  } -> (" +
          best.type() + ", " + where.type() + ")",
      kept, "i64");
  std::string ir = text.finish({both});
  // The value is the second result of the pair.
  const size_t at = ir.find(both.name + " = ");
  ir.replace(at, both.name.size(), both.name + ":2");
  ir.replace(ir.rfind("return " + both.name), 7 + both.name.size(), "return " + both.name + "#1");
  checkWorkload(ir, {.seed = GetParam()});
}

TEST_P(Loops, SlicesPadsConcatsAndReshapes) {
  const int64_t a = pick({1, 3, 5}), b = pick({2, 4, 6}), c = pick({1, 7, 16, 19});
  WorkloadText text;
  const Tensor x = text.argument({a, b, c}), y = text.argument({a, b, c});
  const std::string type = x.type();
  const Tensor sum = text.generic({x, y}, {dimsOf(3), dimsOf(3), dimsOf(3)}, text.empty({a, b, c}), 3, "",
                                  "%r = arith.addf %i0, %i1 : f32");
  Tensor joined = text.raw("tensor.concat dim(2) " + x.name + ", " + sum.name + " : (" + type + ", " + type +
                               ") -> tensor<" + join({a, b, 2 * c}, "x") + "xf32>",
                           {a, b, 2 * c});
  Tensor padded = text.pad(joined, {0, pick({0, 1}), pick({0, 2})}, {pick({0, 1}), 1, pick({0, 3})}, "1.5");
  const Tensor slice =
      text.raw("tensor.extract_slice " + padded.name + "[0, 1, 1] [" + join({a, b / 2, c}) +
                   "] [1, 2, 1] : " + padded.type() + " to tensor<" + join({a, b / 2, c}, "x") + "xf32>",
               {a, b / 2, c});
  const Tensor folded = text.raw("tensor.collapse_shape " + slice.name + " [[0, 1], [2]] : " + slice.type() +
                                     " into tensor<" + join({a * (b / 2), c}, "x") + "xf32>",
                                 {a * (b / 2), c});
  const Tensor last =
      text.generic({folded}, {"d0, d1", "d1, d0"}, text.empty({c, a * (b / 2)}), 2, "", "%r = arith.negf %i0 : f32");
  std::vector<Tensor> results{last};
  if (engine_() % 2) results.push_back(padded);
  if (engine_() % 2) results.push_back(sum);
  if (engine_() % 3 == 0) results.push_back(x);  // an argument returned as it is
  checkWorkload(text.finish(results), {.seed = GetParam()});
}

TEST_P(Loops, PackWithAndWithoutPadding) {
  const int64_t rows = pick({3, 8, 20}), columns = pick({5, 16, 40}), tile = pick({4, 8, 16});
  const int64_t blocks = (columns + tile - 1) / tile;
  WorkloadText text;
  const Tensor x = text.argument({rows, columns});
  const std::string zero = text.constant("0.0", "f32");
  const Tensor packed = text.empty({blocks, rows, tile});
  const Tensor y =
      text.raw("linalg.pack " + x.name + " padding_value(" + zero +
                   " : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [" + std::to_string(tile) +
                   "] into " + packed.name + " : " + x.type() + " -> " + packed.type(),
               packed.shape);
  const Tensor z = text.generic({y}, {"d0, d1, d2", "d0, d1, d2"}, text.empty(packed.shape), 3, "",
                                "%r = arith.addf %i0, %i0 : f32");
  checkWorkload(text.finish({z}), {.seed = GetParam()});
}

/// Every second to fourth element along the vectors: pools and rows of NCHW, up to the last element of the buffer.
TEST_P(Loops, ElementsApart) {
  struct Kind {
    std::string op, start, element;
  };
  const Kind kind = any<Kind>({{"arith.addf", "0.0", "f32"},
                               {"arith.maximumf", "0xFF800000", "f32"},
                               {"arith.addf", "0.0", "f64"},
                               {"arith.addi", "0", "i32"},
                               {"arith.maxsi", "-128", "i8"}});
  const int64_t stride = pick({2, 3, 4, 5}), window = pick({1, 2, 3}), rows = pick({1, 3, 8}),
                columns = pick({1, 2, 5, 8, 9, 15, 16, 17, 24, 31, 33, 47, 64, 70});
  WorkloadText text;
  const Tensor x = text.argument({rows, (columns - 1) * stride + window}, kind.element);
  Tensor y = text.generic(
      {x, text.empty({window}, kind.element)}, {"d0, d1 * " + std::to_string(stride) + " + d2", "d2", "d0, d1"},
      text.fill({rows, columns}, kind.start, kind.element), 3, "ppr", "%r = " + kind.op + " %i0, %o : " + kind.element);
  checkWorkload(text.finish({y}), {.seed = GetParam(), .low = 0.5, .high = 1.5});
}

TEST_P(Loops, GatherRows) {
  const int64_t rows = pick({4, 9}), width = pick({1, 16, 21}), picks = pick({1, 6});
  WorkloadText text;
  const Tensor table = text.argument({rows, width}), which = text.argument({picks}, "i64");
  const Tensor y =
      text.generic({which}, {"d0", "d0, d1"}, text.empty({picks, width}), 2, "",
                   "%n = arith.constant " + std::to_string(rows) +
                       " : i64\n    %z = arith.constant 0 : i64\n"
                       "    %neg = arith.cmpi slt, %i0, %z : i64\n    %up = arith.addi %i0, %n : i64\n"
                       "    %w = arith.select %neg, %up, %i0 : i64\n    %i = arith.index_cast %w : i64 to index\n"
                       "    %j = linalg.index 1 : index\n    %r = tensor.extract " +
                       table.name + "[%i, %j] : " + table.type());
  checkWorkload(text.finish({y}), {.seed = GetParam(), .integer_range = rows});
}

/// The remainder of a long loop; parts that are read, computed, both computed and returned, and used twice.
class LongLoops : public Loops {};

TEST_P(LongLoops, Concat) {
  constexpr int64_t kParts = 240;  // bufferizing them one after another took minutes
  const int64_t a = pick({1, 3}), b = pick({1, 5, 17}), dim = pick({0, 1});
  WorkloadText text;
  const Tensor x = text.argument({a, b});
  std::vector<Tensor> parts;
  std::string names, types;
  for (int64_t i = 0; i < kParts; ++i) {
    Tensor part = i % 3 == 0   ? x
                  : i % 3 == 2 ? parts.back()
                               : text.generic({parts.back()}, {dimsOf(2), dimsOf(2)}, text.empty({a, b}), 2, "",
                                              "%r = arith.addf %i0, %i0 : f32");
    names += (i ? ", " : "") + part.name;
    types += (i ? ", " : "") + part.type();
    parts.push_back(std::move(part));
  }
  std::vector<int64_t> whole{a, b};
  whole[dim] *= kParts;
  const Tensor joined = text.raw("tensor.concat dim(" + std::to_string(dim) + ") " + names + " : (" + types +
                                     ") -> tensor<" + join(whole, "x") + "xf32>",
                                 whole);
  std::vector<Tensor> results{joined};
  if (engine_() % 2) results.push_back(parts[1]);
  checkWorkload(text.finish(results), {.seed = GetParam()});
}

INSTANTIATE_TEST_SUITE_P(Seeds, Loops, ::testing::Range(0U, 60U));
INSTANTIATE_TEST_SUITE_P(Seeds, LongLoops, ::testing::Range(0U, 6U));

}  // namespace
}  // namespace tessera::compiler::codegen::testing
