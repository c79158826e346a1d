// Loop and Scan whose body is lowered once and runs for each iteration.
#include "compiler/import/ops/rolled_loop.h"

#include "absl/strings/str_cat.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

bool isFalse(const Tensor& condition) { return condition.constant && condition.constant->integerAt(0) == 0; }

/// Returns a bound of the iterations; -1 if there is none.
int64_t mostIterations(Node& n, const std::optional<Tensor>& trip_count) {
  if (!trip_count) return -1;
  if (!trip_count->constant) {
    const std::optional<int64_t> most = n.extentBoundOf(*trip_count);
    return most ? std::max<int64_t>(*most, 1) : -1;
  }
  // Exporters write a huge count for "while the condition holds".
  const int64_t count = trip_count->constant->integerAt(0);
  return count > int64_t{1} << 40 ? -1 : count;
}

std::vector<Tensor> all(LoopResults results) {
  std::vector<Tensor> tensors = std::move(results.carried);
  for (Tensor& stacked : results.stacked) tensors.push_back(std::move(stacked));
  return tensors;
}

}  // namespace

Tensor asDeclared(Emitter& e, const onnx::GraphProto& body, int input, const Tensor& x) {
  const bool declared = input < body.input_size() && body.input(input).type().tensor_type().has_shape();
  const bool list = declared && body.input(input).type().tensor_type().shape().dim_size() == 1;
  return list ? e.reshape(x, {1}) : x;
}

absl::StatusOr<std::vector<Tensor>> runBody(Node& n, const onnx::GraphProto& body, const std::vector<Tensor>& arguments,
                                            size_t least, const Tensor& active) {
  TESSERA_ASSIGN_OR_RETURN(auto results, n.inlineWhere(body, arguments, active, true));
  if (results.size() < least) {
    return n.invalid(
        absl::StrCat("the body has ", results.size(), " results"),
        {.attribute = "body", .found = absl::StrCat(results.size()), .accepted = absl::StrCat(least, " or more")});
  }
  return results;
}

absl::StatusOr<std::optional<std::vector<Tensor>>> lowerRolledLoop(Node& n, Emitter& e, const LoopInputs& inputs) {
  if (inputs.condition && isFalse(*inputs.condition)) return std::nullopt;
  LoopRequest request{.most = mostIterations(n, inputs.trip_count),
                      .carried = inputs.carried,
                      .stacked_reversed = llvm::SmallVector<bool>(inputs.scans, false),
                      // A short loop over constants is unrolled: it may fold to a constant that a shape needs.
                      .unrolled_if_constant = kMaxUnrolledOfConstants};
  // Constants need no operand: they are in the bound, or always true.
  if (inputs.trip_count && !inputs.trip_count->constant) request.trip_count = inputs.trip_count;
  if (inputs.condition && !inputs.condition->constant) request.condition = inputs.condition;
  // Stacked results need a shape, and so a bound of iterations.
  if (request.most < 0 && inputs.scans > 0) {
    const char* message = "the number of iterations, and so of rows of its results, is not known at compile time";
    const char* accepted = "a trip count that is constant or follows a range, or no stacked results";
    if (inputs.trip_count && !inputs.trip_count->constant)
      return n.dependsOnRunTimeValue(*inputs.trip_count, message, {.attribute = "M", .accepted = accepted});
    return n.unsupported(message, {.attribute = "M", .found = "no trip count", .accepted = accepted});
  }
  const auto build = [&](Emitter& body, const LoopArguments& given) -> absl::StatusOr<LoopYield> {
    std::vector<Tensor> arguments = {asDeclared(body, *inputs.body, 0, given.iteration),
                                     asDeclared(body, *inputs.body, 1, alwaysTrue())};
    arguments.insert(arguments.end(), given.carried.begin(), given.carried.end());
    TESSERA_ASSIGN_OR_RETURN(auto results, runBody(n, *inputs.body, arguments, 1 + given.carried.size()));
    const Tensor& again = results[0];
    if (again.dtype != v1::DATA_TYPE_BOOL || again.sequence || again.elements() != 1) {
      return n.invalid("the body's first result is not a condition",
                       {.attribute = "body", .found = typeName(again.dtype), .accepted = "one bool"});
    }
    LoopYield yield;
    // A condition that is false at once makes a single iteration, which needs no loop.
    yield.once = isFalse(again);
    if (!again.constant) yield.condition = again;
    const auto carried_end = results.begin() + 1 + static_cast<int64_t>(given.carried.size());
    yield.carried.assign(results.begin() + 1, carried_end);
    // The last results may have no output of the node; these are dropped.
    const auto stacked = std::min<int64_t>(static_cast<int64_t>(inputs.scans), results.end() - carried_end);
    yield.parts.assign(carried_end, carried_end + stacked);
    if (static_cast<size_t>(stacked) < inputs.scans) {
      return n.invalid("the body has fewer results than the node",
                       {.attribute = "body",
                        .found = absl::StrCat(results.size()),
                        .accepted = absl::StrCat(1 + given.carried.size() + inputs.scans)});
    }
    // Nothing could ever end such a loop.
    if (!yield.condition && request.most < 0 && !request.trip_count && !yield.once) {
      return n.unsupported("the loop has no end",
                           {.attribute = "cond", .found = "no end", .accepted = "a condition or a trip count"});
    }
    return yield;
  };
  TESSERA_ASSIGN_OR_RETURN(auto results, n.loop(e, request, build));
  if (!results) return std::nullopt;
  return all(*std::move(results));
}

absl::StatusOr<std::optional<std::vector<Tensor>>> lowerRolledScan(Node& n, Emitter& e, const onnx::GraphProto& body,
                                                                   const std::vector<Tensor>& states,
                                                                   const std::vector<Tensor>& scanned,
                                                                   const std::vector<int64_t>& scanned_reversed,
                                                                   const std::vector<int64_t>& stacked_reversed) {
  LoopRequest request{.most = scanned[0].shape[0],
                      .carried = states,
                      .scanned = scanned,
                      .scanned_reversed = llvm::SmallVector<bool>(scanned_reversed.begin(), scanned_reversed.end()),
                      .stacked_reversed = llvm::SmallVector<bool>(stacked_reversed.begin(), stacked_reversed.end()),
                      .unrolled_if_constant = kMaxUnrolledOfConstants};
  // Rows beyond the extent are not iterated over.
  const bool ranged = scanned[0].extents.contains(0);
  if (ranged) request.trip_count = extentOf(scanned[0], 0);
  const auto build = [&](Emitter&, const LoopArguments& given) -> absl::StatusOr<LoopYield> {
    std::vector<Tensor> arguments = given.carried;
    arguments.insert(arguments.end(), given.parts.begin(), given.parts.end());
    TESSERA_ASSIGN_OR_RETURN(auto results, runBody(n, body, arguments, states.size()));
    if (results.size() != states.size() + stacked_reversed.size()) {
      return n.invalid("the body's results are not the node's",
                       {.attribute = "body",
                        .found = absl::StrCat(results.size()),
                        .accepted = absl::StrCat(states.size() + stacked_reversed.size())});
    }
    const auto states_end = results.begin() + static_cast<int64_t>(states.size());
    return LoopYield{.carried = {results.begin(), states_end}, .parts = {states_end, results.end()}};
  };
  TESSERA_ASSIGN_OR_RETURN(auto results, n.loop(e, request, build));
  if (!results) return std::nullopt;
  for (Tensor& stacked : results->stacked)
    if (ranged) setExtent(stacked, 0, extentOf(scanned[0], 0));  // known to follow the range, unlike `executed`
  return all(*std::move(results));
}

}  // namespace tessera::compiler
