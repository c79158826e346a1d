#include "compiler/dataflow_search/baselines.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/dataflow_search/tile_space.h"

namespace tessera::compiler::dataflow_search {
namespace {

enum class Phases { kEach, kAllButLast, kOne };
enum Role : unsigned { kBatch = 1, kRow = 2, kFirstRow = 4, kColumn = 8, kLink = 16 };

struct Template {
  Baseline baseline;
  Phases phases;
  unsigned roles;  ///< of the loops that shared tiles may cut
  std::vector<v1::Tile::Join> joins;
};

const std::vector<Template>& templates() {
  constexpr auto kSeq = v1::Tile::SEQ, kShar = v1::Tile::SHAR, kPipe = v1::Tile::PIPE;
  static const std::vector<Template> all = {
      {{"Layerwise", "each operator by itself"}, Phases::kEach, 0, {}},
      {{"Uni-pipe", "all operators but the last as a pipeline, no loop cut"}, Phases::kAllButLast, 0, {kPipe}},
      {{"FLAT-HGran", "all operators but the last together, batches cut"}, Phases::kAllButLast, kBatch, {kSeq, kShar}},
      {{"FLAT-RGran", "all operators but the last together, batches and rows cut"},
       Phases::kAllButLast,
       kBatch | kRow,
       {kSeq, kShar}},
      {{"Chimera", "all operators together; batches, rows and links cut"},
       Phases::kOne,
       kBatch | kRow | kLink,
       {kSeq, kShar}},
      {{"Fused-Layer", "all operators together, rows cut"}, Phases::kOne, kRow, {kSeq, kShar}},
      {{"ISOS", "all operators as a pipeline, the first row loop cut"}, Phases::kOne, kFirstRow, {kPipe}},
      {{"TileFlow", "all operators as a pipeline, every loop cut"},
       Phases::kOne,
       kBatch | kRow | kColumn | kLink,
       {kPipe}},
  };
  return all;
}

/// Whether an earlier statement writes the tensor that statement `s` reads.
bool readsIntermediate(const loopnest::Nest& nest, int s, int input) {
  for (int writer = 0; writer < s; ++writer)
    if (at(nest.accesses, at(nest.statements, writer).output).name == at(nest.accesses, input).name) return true;
  return false;
}

/// The last statement that sums a product of two tensors, one of them an intermediate; -1: none.
int lastProduct(const loopnest::Nest& nest) {
  for (int s = static_cast<int>(nest.statements.size()) - 1; s > 0; --s) {
    const loopnest::Statement& statement = at(nest.statements, s);
    if (statement.inputs.size() != 2 || statement.body.combine != loopnest::Combine::kSum) continue;
    if (std::ranges::any_of(statement.inputs, [&](int input) { return readsIntermediate(nest, s, input); })) return s;
  }
  return -1;
}

}  // namespace

const std::vector<Baseline>& baselines() {
  static const std::vector<Baseline> all = [] {
    std::vector<Baseline> made;
    for (const Template& each : templates()) made.push_back(each.baseline);
    return made;
  }();
  return all;
}

absl::StatusOr<Restriction> restrictionOf(const std::string& baseline, const loopnest::Nest& nest) {
  const auto found =
      std::ranges::find_if(templates(), [&](const Template& each) { return each.baseline.name == baseline; });
  if (found == templates().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no baseline '", baseline,
                     "'; accepted: ", absl::StrJoin(templates(), ", ", [](std::string* out, const Template& each) {
                       absl::StrAppend(out, each.baseline.name);
                     })));
  }
  const int statements = static_cast<int>(nest.statements.size());
  Restriction restriction{.phase_ends = {}, .shared_loops = {}, .joins = found->joins};
  if (found->phases == Phases::kEach) {
    for (int end = 1; end <= statements; ++end) restriction.phase_ends.push_back(end);
    return restriction;
  }
  const int last = lastProduct(nest);
  if (last < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("baseline ", baseline,
                     ": no product or convolution of the problem reads the result of another "
                     "operator; accepted are chains, and Layerwise for any problem"));
  restriction.phase_ends.push_back(statements);
  if (found->phases == Phases::kAllButLast) restriction.phase_ends.push_back(last);
  const loopnest::Statement& product = at(nest.statements, last);
  const bool first_is_intermediate = readsIntermediate(nest, last, product.inputs[0]);
  const int data = product.inputs[first_is_intermediate ? 0 : 1], other = product.inputs[first_is_intermediate ? 1 : 0];
  restriction.shared_loops.assign(nest.loops.size(), false);
  bool has_row = false;
  for (const int loop : product.loops) {
    const bool result = nest.uses(product.output, loop), of_data = nest.uses(data, loop),
               of_other = nest.uses(other, loop);
    unsigned role = kLink;
    if (result && of_data) role = of_other ? kBatch : kRow | (has_row ? 0U : unsigned{kFirstRow});
    if (result && !of_data) role = kColumn;
    has_row = has_row || (role & kRow) != 0;
    at(restriction.shared_loops, loop) = (role & found->roles) != 0;
  }
  return restriction;
}

}  // namespace tessera::compiler::dataflow_search
