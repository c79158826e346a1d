#include "compiler/dataflow_search/running_reductions.h"

#include <string>

#include "compiler/dataflow_search/tile_space.h"

namespace tessera::compiler::dataflow_search {
namespace {

/// Whether a value of the statement depends on a maximum over `loop`.
bool dependsOnMaximum(const loopnest::Nest& nest, int s, int loop) {
  for (const int input : at(nest.statements, s).inputs) {
    const std::string& name = at(nest.accesses, input).name;
    for (int writer = 0; writer < s; ++writer) {
      const loopnest::Statement& statement = at(nest.statements, writer);
      if (at(nest.accesses, statement.output).name != name) continue;
      if (statement.body.combine == loopnest::Combine::kMaximum && nest.isReduction(loop, static_cast<size_t>(writer)))
        return true;
      if (dependsOnMaximum(nest, writer, loop)) return true;
    }
  }
  return false;
}

}  // namespace

bool isRunningReduction(const loopnest::Nest& nest, int s, int loop) {
  if (!nest.isReduction(loop, static_cast<size_t>(s))) return false;
  const loopnest::Statement& statement = at(nest.statements, s);
  if (statement.body.combine == loopnest::Combine::kMaximum) return true;
  // The product that consumes a softmax reads a matrix; its sum is complete at the end only.
  return statement.body.combine == loopnest::Combine::kSum && statement.inputs.size() == 1 &&
         dependsOnMaximum(nest, s, loop);
}

}  // namespace tessera::compiler::dataflow_search
