#include <gmock/gmock.h>

#include <functional>

#include "compiler/backends/spatial/testing/kernels.h"
#include "compiler/schedule/text.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::simulator {
namespace {

using namespace testing;
using ::testing::HasSubstr;

/// out[i, j] = sum of a[i, k] * b[k, j], then the exponential of each row's elements.
v1::SpatialKernel productAndExponential(int64_t i, int64_t j, int64_t k) {
  v1::SpatialKernel kernel;
  const int left = addBuffer(kernel, kF16, {i, k}), right = addBuffer(kernel, kF16, {k, j}),
            sums = addBuffer(kernel, kF32, {i, j}), out = addBuffer(kernel, kF32, {i, j});
  kernel.set_operands(4);
  kernel.set_results(1);
  addFill(kernel, sums);
  NestMaker product(kernel, "matmul", {{"i0", i}, {"i1", j}, {"r0", k}});
  const int old = product.access(sums, {"i0", "i1"}), a = product.access(left, {"i0", "r0"}),
            b = product.access(right, {"r0", "i1"});
  const int wide = product.operation("extf", kF32, {a}), other = product.operation("extf", kF32, {b});
  product.yield({product.operation("addf", kF32, {old, product.operation("mulf", kF32, {wide, other})})});
  NestMaker each(kernel, "exp", {{"i0", i}, {"i1", j}});
  each.access(out, {"i0", "i1"});
  each.yield({each.operation("exp", kF32, {each.access(sums, {"i0", "i1"})})});
  return kernel;
}

v1::SpatialKernel scheduled(v1::SpatialKernel kernel) {
  const absl::Status status = scheduleKernel(kernel, chip());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(kernel.refusal(), "");
  return kernel;
}

/// Every tile of a tree, with its path.
void forEachTile(v1::Tile& tile, const std::string& path,
                 const std::function<void(v1::Tile&, const std::string&)>& use) {
  use(tile, path);
  for (int c = 0; c < tile.children_size(); ++c)
    forEachTile(*tile.mutable_children(c), path + "." + std::to_string(c), use);
}

/// Changes of one tile; each returns false where it does not apply.
std::vector<std::function<bool(v1::Tile&)>> changes() {
  std::vector<std::function<bool(v1::Tile&)>> list = {
      [](v1::Tile& tile) { return tile.set_level(tile.level() + "x"), true; },
      [](v1::Tile& tile) { return tile.set_level("far"), tile.children_size() == 0 || tile.loops_size() > 0; },
      [](v1::Tile& tile) {
        return tile.set_join(tile.join() == v1::Tile::SEQ ? v1::Tile::PIPE : v1::Tile::SHAR), true;
      },
      [](v1::Tile& tile) { return tile.set_deferred_softmax(true), true; },
      [](v1::Tile& tile) { return tile.add_stages()->set_layout("panels"), true; },
      [](v1::Tile& tile) { return tile.add_children()->set_level("far"), true; },
      [](v1::Tile& tile) { return tile.clear_kernel(), tile.children_size() == 0; },
  };
  for (const int which : {0, 1, 2, 3}) {
    const auto loop = [which](const std::function<void(v1::Loop&)>& change) {
      return [which, change](v1::Tile& tile) {
        if (tile.loops_size() <= which) return false;
        change(*tile.mutable_loops(which));
        return true;
      };
    };
    list.emplace_back(loop([](v1::Loop& l) { l.set_step(l.step() + 1); }));
    list.emplace_back(loop([](v1::Loop& l) { l.set_step(l.step() * 2); }));
    list.emplace_back(loop([](v1::Loop& l) { l.set_step(l.step() - 1); }));
    list.emplace_back(loop([](v1::Loop& l) { l.set_step(-l.step()); }));
    list.emplace_back(loop([](v1::Loop& l) { l.set_step(INT64_MAX); }));
    list.emplace_back(loop([](v1::Loop& l) { l.set_dimension(l.dimension() + "0"); }));
    list.emplace_back(loop([](v1::Loop& l) { l.set_unit(l.unit().empty() ? "engine" : ""); }));
    list.emplace_back([which](v1::Tile& tile) {
      if (tile.loops_size() <= which) return false;
      tile.mutable_loops()->DeleteSubrange(which, 1);
      return true;
    });
    list.emplace_back([which](v1::Tile& tile) {
      if (tile.loops_size() <= which) return false;
      *tile.add_loops() = tile.loops(which);
      return true;
    });
  }
  const auto kernel = [](const std::function<bool(v1::Kernel&)>& change) {
    return [change](v1::Tile& tile) { return tile.has_kernel() && change(*tile.mutable_kernel()); };
  };
  for (const char* variant : {"call", "vector", "initial", "scalar", ""}) {
    list.emplace_back(kernel([variant](v1::Kernel& k) {
      if (k.variant() == variant) return false;
      k.set_variant(variant);
      return true;
    }));
  }
  list.emplace_back(kernel([](v1::Kernel& k) { return k.set_nest(k.nest() + 1), true; }));
  list.emplace_back(kernel([](v1::Kernel& k) { return k.set_operand(1), true; }));
  list.emplace_back(kernel([](v1::Kernel& k) { return k.set_lanes(k.lanes() + 1), true; }));
  list.emplace_back(kernel([](v1::Kernel& k) { return k.set_instruction("mul.4x2x4"), true; }));
  list.emplace_back(kernel([](v1::Kernel& k) { return k.set_instruction("engine"), true; }));
  list.emplace_back(kernel([](v1::Kernel& k) { return k.set_instruction(""), k.variant() != "initial"; }));
  list.emplace_back(kernel([](v1::Kernel& k) { return k.add_sources(0), true; }));
  list.emplace_back(kernel([](v1::Kernel& k) {
    if (k.sources_size() < 2) return false;
    k.mutable_sources()->SwapElements(0, 1);
    return true;
  }));
  list.emplace_back(kernel([](v1::Kernel& k) { return k.sources_size() > 0 && (k.set_sources(0, 7), true); }));
  list.emplace_back(kernel([](v1::Kernel& k) {
    if (k.matching_size() < 2) return false;
    k.mutable_matching()->SwapElements(0, 1);
    return true;
  }));
  list.emplace_back(kernel([](v1::Kernel& k) {
    if (k.matching_size() < 1) return false;
    k.mutable_matching()->RemoveLast();
    return true;
  }));
  list.emplace_back(kernel([](v1::Kernel& k) {
    if (k.matching_size() < 2) return false;
    const std::string first = k.matching(0).iteration();
    k.mutable_matching(0)->set_iteration(k.matching(1).iteration());
    k.mutable_matching(1)->set_iteration(first);
    return true;
  }));
  list.emplace_back(kernel([](v1::Kernel& k) { return k.add_matching()->set_loop("i0"), true; }));
  return list;
}

TEST(KernelSchedule, EachChangeOfATreeChangesTheProgramOrIsRefusedWithItsPath) {
  int refused = 0, changed = 0;
  for (const auto& kernel :
       {scheduled(productAndExponential(23, 19, 41)), scheduled(productAndExponential(64, 40, 8))}) {
    auto original = LoadedKernel::load(kernel, chip());
    ASSERT_TRUE(original.ok()) << original.status();
    const std::string program = (*original)->text();
    for (int phase = 0; phase < kernel.schedule().phases_size(); ++phase) {
      for (const auto& change : changes()) {
        std::vector<std::string> paths;
        v1::Tile whole = kernel.schedule().phases(phase);
        forEachTile(whole, std::to_string(phase), [&](v1::Tile&, const std::string& path) { paths.push_back(path); });
        for (const std::string& wanted : paths) {
          v1::SpatialKernel other = kernel;
          bool applied = false;
          forEachTile(*other.mutable_schedule()->mutable_phases(phase), std::to_string(phase),
                      [&](v1::Tile& tile, const std::string& path) { applied |= path == wanted && change(tile); });
          if (!applied || other.schedule().SerializeAsString() == kernel.schedule().SerializeAsString()) continue;
          const std::string text = printSchedule(other.schedule());
          auto loaded = LoadedKernel::load(other, chip());
          if (!loaded.ok()) {
            ++refused;
            EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument) << loaded.status() << text;
            continue;
          }
          ++changed;
          EXPECT_NE((*loaded)->text(), program) << text;
        }
      }
    }
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(changed, 10);
}

TEST(KernelSchedule, EachNestIsOneLeaf) {
  v1::SpatialKernel kernel = scheduled(productAndExponential(8, 8, 8));
  kernel.mutable_schedule()->mutable_phases()->RemoveLast();
  EXPECT_THAT(std::string(LoadedKernel::load(kernel, chip()).status().message()), HasSubstr("a leaf for nest 2"));
  kernel = scheduled(productAndExponential(8, 8, 8));
  *kernel.mutable_schedule()->add_phases() = kernel.schedule().phases(2);
  EXPECT_THAT(std::string(LoadedKernel::load(kernel, chip()).status().message()), HasSubstr("each nest at one leaf"));
  kernel.mutable_schedule()->mutable_phases()->RemoveLast();
  kernel.mutable_schedule()->mutable_phases()->SwapElements(0, 1);
  EXPECT_THAT(std::string(LoadedKernel::load(kernel, chip()).status().message()), HasSubstr("phases out of order"));
}

TEST(KernelSchedule, ACallNeedsItsFillAndAFillWithoutCodeItsCall) {
  const v1::SpatialKernel kernel = scheduled(productAndExponential(23, 19, 41));
  v1::SpatialKernel scalar = productAndExponential(23, 19, 41);
  ASSERT_TRUE(scheduleKernel(scalar, chip(), {.scalar = true}).ok());
  v1::SpatialKernel mixed = kernel;
  *mixed.mutable_schedule()->mutable_phases(0) = scalar.schedule().phases(0);
  EXPECT_THAT(std::string(LoadedKernel::load(mixed, chip()).status().message()),
              HasSubstr("tile 1: a call whose output"));
  mixed = scalar;
  *mixed.mutable_schedule()->mutable_phases(0) = kernel.schedule().phases(0);
  EXPECT_THAT(std::string(LoadedKernel::load(mixed, chip()).status().message()),
              HasSubstr("tile 0: a nest without code"));
}

/// Faults of untrusted kernels: each is refused with a message that names the place.
TEST(KernelSchedule, HostileKernelsAreRefused) {
  using Kernel = v1::SpatialKernel;
  struct Case {
    std::function<void(Kernel&)> change;
    const char* message;
  };
  for (const Case& each : std::vector<Case>{
           {[](Kernel& k) { k.set_operands(9); }, "9 operands"},
           {[](Kernel& k) { k.set_results(-1); }, "-1 results"},
           {[](Kernel& k) { k.mutable_buffers(0)->set_shape(0, -1); }, "buffer 0 has a negative extent"},
           {[](Kernel& k) { k.mutable_buffers(0)->set_shape(0, INT64_MAX); }, "buffer 0"},
           {[](Kernel& k) { k.mutable_buffers(1)->set_dtype(v1::DATA_TYPE_UNSPECIFIED); }, "buffer 1 has no element"},
           {[](Kernel& k) { k.mutable_buffers(0)->set_shape(0, 22); }, "nest 1 (matmul): access 1 reaches elements"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_loops(0)->set_extent(0); }, "loop i0 has extent 0"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_loops(0)->set_extent(INT64_MAX); }, "loop i0 has extent"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_loops(1)->set_name("i0"); }, "loop name 'i0'"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_loops(1)->set_name("a/b"); }, "loop name 'a/b'"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_accesses(1)->set_subscripts(0, "z9"); }, "'z9' is no loop"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_accesses(1)->set_subscripts(0, "i0 *"); },
            "access 1, subscript 0"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_accesses(1)->set_subscripts(0, "i0 - 1"); },
            "reaches elements -"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_accesses(1)->add_strides(1); }, "2 subscripts and 3 strides"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_accesses(1)->set_strides(0, INT64_MIN); }, "has stride"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_accesses(1)->set_offset(INT64_MAX); }, "has offset"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_accesses(1)->set_buffer(77); }, "names buffer 77"},
           {[](Kernel& k) { k.mutable_nests(1)->set_outputs(4); }, "has 4 outputs"},
           {[](Kernel& k) { k.mutable_nests(1)->clear_yields(); }, "0 yields"},
           {[](Kernel& k) { k.mutable_nests(1)->set_yields(0, 99); }, "yield 0 names value 99"},
           {[](Kernel& k) { k.mutable_nests(1)->set_yields(0, 1); }, "yield 0 is f16"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_body(0)->set_name("system"); }, "operation 0 (system) is no"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_body(0)->set_name("cmpf.xyz"); }, "is no operation"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_body(0)->set_operands(0, 4); },
            "operand 4, which is no earlier"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_body(0)->add_operands(0); }, "has 2 operands; 1"},
           {[](Kernel& k) { k.mutable_nests(1)->mutable_body(0)->set_dtype(v1::DATA_TYPE_I8); }, "does not fit"},
           {[](Kernel& k) { k.mutable_nests(0)->mutable_body(0)->set_constant("x"); }, "has 1 bytes for one f32"},
           {[](Kernel& k) {
              k.mutable_nests(2)->mutable_body(0)->set_name("index");
              k.mutable_nests(2)->mutable_body(0)->clear_operands();
              k.mutable_nests(2)->mutable_body(0)->set_loop(2);
            },
            "names loop 2"},
           {[](Kernel& k) {
              for (int i = 0; i < 40; ++i) k.mutable_nests(1)->add_loops()->set_name("x" + std::to_string(i));
            },
            "has 43 loops"},
       }) {
    v1::SpatialKernel kernel = scheduled(productAndExponential(23, 19, 41));
    each.change(kernel);
    const absl::Status status = LoadedKernel::load(kernel, chip()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << each.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(each.message));
    EXPECT_FALSE(scheduleKernel(kernel, chip()).ok()) << each.message;
  }
}

/// A reduction that walks nothing: its length is limited by no buffer.
TEST(KernelSchedule, LongReductionsOfFewElementsTakeNoMemory) {
  v1::SpatialKernel kernel = productAndExponential(23, 19, 41);
  kernel.mutable_nests(1)->mutable_loops(2)->set_extent(int64_t{1} << 30);
  kernel.mutable_nests(1)->mutable_accesses(1)->set_strides(1, 0);
  kernel.mutable_nests(1)->mutable_accesses(2)->set_strides(0, 0);
  ASSERT_TRUE(scheduleKernel(kernel, chip()).ok());
  EXPECT_THAT(kernel.refusal(), HasSubstr("too long"));
  // The same nest with another tree.
  *kernel.mutable_schedule() = scheduled(productAndExponential(23, 19, 41)).schedule();
  const absl::Status status = LoadedKernel::load(kernel, chip()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

/// Random bytes in the place of fields never crash, and whatever is accepted runs.
TEST(KernelSchedule, DamagedKernelsAreRefusedOrRun) {
  std::mt19937 random(3);
  const std::string bytes = scheduled(productAndExponential(9, 5, 12)).SerializeAsString();
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string damaged = bytes;
    for (unsigned edit = 0; edit <= random() % 2; ++edit)
      damaged[random() % damaged.size()] = static_cast<char>(random() % (round % 2 == 0 ? 128 : 32));
    v1::SpatialKernel kernel;
    if (!kernel.ParseFromString(damaged)) continue;
    auto loaded = LoadedKernel::load(kernel, chip());
    if (!loaded.ok()) continue;
    int64_t all = 0;
    std::vector<std::vector<uint8_t>> operands;
    for (int b = 0; b < kernel.operands(); ++b) {
      int64_t count = elementBytes(kernel.buffers(b).dtype());
      for (const int64_t extent : kernel.buffers(b).shape()) count = loopnest::saturatedProduct(count, extent);
      all += std::min<int64_t>(count, 1 << 24);
      if (all >= 1 << 24) break;
      operands.emplace_back(static_cast<size_t>(count), 0);
    }
    double points = 0;
    for (const auto& nest : kernel.nests()) {
      double product = 1;
      for (const auto& loop : nest.loops()) product *= static_cast<double>(loop.extent());
      points += product;
    }
    if (static_cast<int>(operands.size()) != kernel.operands() || points > 1e6) continue;
    std::vector<uint8_t*> pointers;
    for (std::vector<uint8_t>& operand : operands) pointers.push_back(operand.data());
    const absl::Status done = (*loaded)->run(pointers);
    EXPECT_TRUE(done.ok()) << done;
    EXPECT_TRUE((*loaded)->cost().ok());
    ++accepted;
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace tessera::compiler::simulator
