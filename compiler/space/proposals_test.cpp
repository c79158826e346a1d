// A search's proposals are either refused before code generation, or compute the workload's results.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/static_analysis.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/workload_text.h"
#include "compiler/search/legality.h"
#include "compiler/search/space.h"

namespace tessera::compiler {
namespace {

using codegen::hostUnit;
using codegen::testing::checkWorkload;
using codegen::testing::Tensor;
using codegen::testing::WorkloadText;

// proposals of each kind that are built per workload: the first and the last, which differ most
constexpr int kOfAKind = 2;
constexpr char kAdd[] = "%r = arith.addf %i0, %o : f32";
constexpr char kMultiplyAdd[] = "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32";

std::string product(int64_t m, int64_t n, int64_t k, bool rows) {
  WorkloadText text;
  const Tensor a = text.argument({m, k}), b = text.argument(rows ? std::vector{n, k} : std::vector{k, n});
  return text.finish({text.generic({a, b}, {"d0, d2", rows ? "d1, d2" : "d2, d1", "d0, d1"}, text.fill({m, n}, "0.0"),
                                   3, "ppr", kMultiplyAdd)});
}

std::string sum(int64_t rows, int64_t columns, bool of_rows) {
  WorkloadText text;
  return text.finish({text.generic({text.argument({rows, columns})}, {"d0, d1", of_rows ? "d0" : "d1"},
                                   text.fill({of_rows ? rows : columns}, "0.0"), 2, of_rows ? "pr" : "rp", kAdd)});
}

std::string turned(int64_t rows, int64_t columns) {
  WorkloadText text;
  return text.finish({text.generic({text.argument({rows, columns})}, {"d1, d0", "d0, d1"}, text.empty({columns, rows}),
                                   2, "", "%r = arith.negf %i0 : f32")});
}

std::string depthwise(int64_t side, int64_t channels) {
  WorkloadText text;
  const Tensor image = text.argument({1, side, side + 2, channels}), filter = text.argument({3, 3, channels});
  return text.finish(
      {text.named("depthwise_conv_2d_nhwc_hwc", {image, filter}, text.fill({1, side - 2, side, channels}, "0.0"),
                  "{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}")});
}

/// All legal neighbours that code generation accepts, by kind.
std::map<std::string, std::vector<search::Neighbour>> followed(const std::string& ir) {
  v1::BuildUnit unit = hostUnit(ir);
  auto schedule = defaultSchedule(unit);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  *unit.mutable_schedule() = *schedule;
  auto analysis = analyzeWorkload(unit);
  EXPECT_TRUE(analysis.ok()) << analysis.status();
  const search::Legality legality(*schedule, analysis->extents, unit.registers());
  std::map<std::string, std::vector<search::Neighbour>> kinds;
  for (search::Neighbour& each : search::neighboursOf(*schedule, legality.extents())) {
    if (!legality.refusal(each.schedule).empty()) continue;
    *unit.mutable_schedule() = each.schedule;
    if (checkSchedule(unit).ok()) kinds[each.direction.kind].push_back(std::move(each));
  }
  return kinds;
}

TEST(Proposals, ComputeWhatTheWorkloadSays) {
  std::set<std::string> seen, along;
  for (const std::string& ir : {product(7, 31, 67, false), product(33, 17, 130, true), product(5, 1, 259, true),
                                sum(13, 61, true), sum(61, 13, false), turned(37, 53), depthwise(11, 19)}) {
    for (auto& [kind, proposals] : followed(ir)) {
      seen.insert(kind);
      const size_t all = kind == "lanes" ? proposals.size() : kOfAKind;
      for (size_t at = 0; at < proposals.size() && at < all; ++at) {
        const search::Neighbour& each = at == 0 ? proposals.front() : proposals[proposals.size() - at];
        SCOPED_TRACE(each.direction.type() + "\n" + each.text);
        if (kind == "lanes") along.insert(each.direction.subject.substr(0, 1));
        // In steps of four: other seeds compile for other registers, where the default tree differs.
        checkWorkload(ir, {.seed = 1 + 4 * static_cast<unsigned>(at),
                           .edit = [&](v1::Schedule& schedule) { schedule = each.schedule; }});
      }
    }
  }
  for (const char* kind : {"tile", "pair", "block", "order", "bind", "fetch", "lanes"})
    EXPECT_TRUE(seen.contains(kind)) << kind;
  EXPECT_EQ(along, (std::set<std::string>{"i", "r"})) << "loops that stay, and loops that sum";
}

}  // namespace
}  // namespace tessera::compiler
