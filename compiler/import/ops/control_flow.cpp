// Control flow. A branch with a known condition is inlined. With a run-time condition both branches are computed and
// one result is selected, which is correct because no operator has side effects or traps. Loops of many iterations stay
// loops (rolled_loop.h); all others are unrolled.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/limits.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/rolled_loop.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::ValueRange;

absl::Status checkScalar(Node& n, int input, const char* name, v1::DataType type) {
  if (n.in(input).elements() == 1 && n.in(input).dtype == type && !n.in(input).sequence) return absl::OkStatus();
  return n.invalid(
      absl::StrCat("input '", name, "' is ", shapeText(n.in(input).shape), " of ", typeName(n.in(input).dtype)),
      {.attribute = name,
       .found = shapeText(n.in(input).shape),
       .accepted = absl::StrCat("one element of ", typeName(type))});
}

/// Pads x with zeros to `shape`.
Tensor filledUp(Emitter& e, const Tensor& x, const Shape& shape) {
  std::vector<int64_t> low(x.rank(), 0), high(x.rank(), 0);
  for (int64_t d = 0; d < x.rank(); ++d) high[d] = shape[d] - x.shape[d];
  if (x.elements() == 0) return e.zeros(x.dtype, shape);
  return e.pad(x, low, high, e.scalars(x.dtype).constant(0));
}

/// Returns condition ? x : y, of one type and rank. If sizes differ, the result has the larger one, and the chosen size
/// is its extent (bounded_dimensions.h).
absl::StatusOr<Tensor> choose(Node& n, Emitter& e, const Tensor& condition, const Tensor& x, const Tensor& y) {
  if (x.constant && y.constant && x.dtype == y.dtype && x.shape == y.shape && x.constant->bytes == y.constant->bytes)
    return x;
  const bool both = x.sequence && y.sequence && x.sequence->size() == y.sequence->size();
  const bool absent = !(x.sequence || x.value || x.constant) || !(y.sequence || y.value || y.constant);
  if (absent || (x.sequence != nullptr) != (y.sequence != nullptr) || (x.sequence && !both) || x.rank() != y.rank() ||
      x.dtype != y.dtype) {
    return n.dependsOnRunTimeValue(
        condition, "the condition is computed at run time, and a type or rank depends on it",
        {.attribute = "cond", .accepted = "a constant condition, or results of one type and rank either way"});
  }
  if (both) {
    std::vector<Tensor> parts;
    for (size_t i = 0; i < x.sequence->size(); ++i) {
      TESSERA_ASSIGN_OR_RETURN(parts.emplace_back(), choose(n, e, condition, (*x.sequence)[i], (*y.sequence)[i]));
    }
    Tensor result = x;
    result.sequence = std::make_shared<const std::vector<Tensor>>(std::move(parts));
    return result;
  }
  Shape shape = x.shape;
  for (int64_t d = 0; d < x.rank(); ++d) shape[d] = std::max(x.shape[d], y.shape[d]);
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  auto select = [&](const Tensor& yes, const Tensor& no) {
    return e.elementwise(yes.dtype, {e.reshape(condition, {}), yes, no},
                         [](const Scalars& s, ValueRange v) { return s.select(v[0], v[1], v[2]); });
  };
  // The shorter result is filled up to the longer one: both need one shape, and the extent tells how much counts.
  const bool empty = elementCount(shape) == 0;
  Tensor result =
      empty ? Emitter::wrap(e.empty(x.dtype, shape), x.dtype) : select(filledUp(e, x, shape), filledUp(e, y, shape));
  for (int64_t d = 0; d < x.rank(); ++d) {
    const bool differ = x.shape[d] != y.shape[d];
    if (differ || x.extents.contains(d) || y.extents.contains(d)) {
      setExtent(result, d, select(extentOf(x, d), extentOf(y, d)));
    }
  }
  return result;
}

/// Returns the error of runs that take the branch that cannot be lowered; `fits` is the condition that selects the
/// other one.
std::string branchFault(const Node& n, bool fits, const v1::Failure& failure) {
  constexpr size_t kReasonBytes = 400;  // the C interface passes on 1 KiB of an error
  std::string reason = failure.message();
  if (reason.size() > kReasonBytes) {
    size_t end = kReasonBytes;
    while (end > 0 && (static_cast<unsigned char>(reason[end]) & 0xc0) == 0x80) --end;  // within a UTF-8 character
    reason = reason.substr(0, end) + "...";
  }
  const std::string inputs = n.inputsFor(n.in(0), fits);
  return absl::StrCat("the run takes the ", fits ? "else_branch" : "then_branch", " of node '", printable(n.label()),
                      "' (If), which cannot be computed for the sizes that the model was compiled for: ", reason, "; ",
                      inputs.empty() ? "" : absl::StrCat(inputs, ", or "),
                      "compile the model for sizes that the branch works for");
}

Results lowerIf(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(checkScalar(n, 0, "cond", v1::DATA_TYPE_BOOL));
  TESSERA_ASSIGN_OR_RETURN(const onnx::GraphProto* yes, n.graph("then_branch"));
  TESSERA_ASSIGN_OR_RETURN(const onnx::GraphProto* no, n.graph("else_branch"));
  const Tensor& condition = n.in(0);
  // A known condition compiles one branch only, so the other may even be invalid for these sizes.
  if (condition.constant) return n.inlineGraph(condition.constant->integerAt(0) ? *yes : *no, {});
  // Both branches run and the condition selects their results; a branch has no effects, so only time is lost.
  const auto of_yes = n.inlineWhere(*yes, {}, condition, true);
  const auto of_no = n.inlineWhere(*no, {}, condition, false);
  if (const bool fits = of_yes.ok(); fits != of_no.ok()) {
    absl::Status of_other = fits ? of_no.status() : of_yes.status();
    const v1::Failure failure = failureOf(of_other);
    if (failure.reason() != v1::Failure::INVALID_MODEL && failure.reason() != v1::Failure::UNSUPPORTED_OPERATOR)
      return of_other;  // such as a limit that all nodes together exceed
    // The other branch is an error of the runs that take it. A condition on one value of an input may fix the input.
    if (fits) n.suggestFixing(condition);
    n.refuseRuns(condition, !fits, branchFault(n, fits, failure));
    return fits ? of_yes : of_no;
  }
  TESSERA_RETURN_IF_ERROR(of_yes.status());
  const auto &taken = *of_yes, &other = *of_no;
  if (taken.size() != other.size()) {
    return n.invalid("the branches have different numbers of results",
                     {.attribute = "else_branch",
                      .found = absl::StrCat(other.size()),
                      .accepted = absl::StrCat(taken.size(), ", as then_branch")});
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < taken.size(); ++i) {
    TESSERA_ASSIGN_OR_RETURN(Tensor result, choose(n, e, condition, taken[i], other[i]));
    results.push_back(std::move(result));
  }
  return results;
}

/// Stacks tensors of one shape along a new dimension.
absl::StatusOr<Tensor> stack(Node& n, Emitter& e, std::vector<Tensor> parts, int64_t axis) {
  for (Tensor& part : parts) {
    if (isBounded(part)) {
      return n.unsupported("a result of an iteration has an extent known at run time only",
                           {.found = "an extent known at run time", .accepted = "one shape and type"});
    }
    if (!part.sequence && !part.value && !part.constant) {
      return n.invalid("a result of an iteration is an empty optional", {.found = "nothing", .accepted = "a tensor"});
    }
    if (part.sequence || part.shape != parts[0].shape || part.dtype != parts[0].dtype) {
      return n.unsupported("iterations give results of different shapes",
                           {.found = absl::StrCat(shapeText(part.shape), " and ", shapeText(parts[0].shape)),
                            .accepted = "one shape and type"});
    }
  }
  TESSERA_ASSIGN_OR_RETURN(axis, n.normalizeAxis(axis, parts[0].rank() + 1, "scan_output_axes"));
  Shape shape = parts[0].shape;
  shape.insert(shape.begin() + axis, 1);
  Shape whole = shape;
  whole[axis] = static_cast<int64_t>(parts.size());
  TESSERA_RETURN_IF_ERROR(n.checkResult(whole, parts[0].dtype));
  for (Tensor& part : parts) part = e.reshape(part, shape);
  return parts.size() == 1 ? parts[0] : e.concat(parts, axis);
}

/// Returns the trip count; an absent one is no bound. A run-time trip count would need a bound as well.
absl::StatusOr<int64_t> readTripCount(Node& n) {
  if (!n.has(0)) return INT64_MAX;
  TESSERA_RETURN_IF_ERROR(checkScalar(n, 0, "M", v1::DATA_TYPE_I64));
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr count, n.constantInput(0, "M"));
  return count->integerAt(0);
}

/// Whether a node of the body reads the iteration number.
bool readsFirstInput(const onnx::GraphProto& body) {
  if (body.input_size() == 0) return false;
  return std::any_of(body.node().begin(), body.node().end(), [&](const onnx::NodeProto& node) {
    return std::find(node.input().begin(), node.input().end(), body.input(0).name()) != node.input().end();
  });
}

Results writtenOutLoop(Node& n, Emitter& e) {
  const v1::DataType boolean = v1::DATA_TYPE_BOOL;
  TESSERA_ASSIGN_OR_RETURN(const onnx::GraphProto* body, n.graph("body"));
  TESSERA_ASSIGN_OR_RETURN(const int64_t trips, readTripCount(n));
  Tensor active = Emitter::wrap(makeConstant(boolean, {}, std::string(1, '\1')));
  if (n.has(1)) {
    TESSERA_RETURN_IF_ERROR(checkScalar(n, 1, "cond", boolean));
    active = e.reshape(n.in(1), {});
  }
  std::vector<Tensor> carried(n.inputs().begin() + std::min(2, n.numInputs()), n.inputs().end());
  // An iteration counts only if all earlier ones do, so its input state is their result regardless of their conditions.
  // A counter that the body increments thus stays known, and may end the loop.
  std::vector<Tensor> state = carried;
  std::vector<std::vector<Tensor>> scans(std::max<int64_t>(n.numOutputs() - static_cast<int64_t>(carried.size()), 0));
  // The number of stacked rows: an iteration whose condition is false appends a row that does not count.
  Tensor rows = scalarI64(0);
  const bool counts_iterations = readsFirstInput(*body);
  bool may_end = true;
  for (int64_t i = 0; i < trips; ++i) {
    // A condition known to be false ends the loop while importing.
    if (active.constant && !active.constant->integerAt(0)) break;
    // An unknown condition cannot end it, so iterations are limited; and if nothing changes, no later one can end it.
    if (!active.constant && trips > limits::kNodes && (i >= limits::kMaxIterationsWithoutTripCount || !may_end)) {
      return n.dependsOnRunTimeValue(
          active, "the number of iterations is not known",
          {.attribute = "cond",
           .accepted = absl::StrCat("a constant condition or trip count, or a number that is counted "
                                    "in the condition as well, up to ",
                                    limits::kMaxIterationsWithoutTripCount)});
    }
    if (i >= limits::kNodes) {
      return n.unsupported("the number of iterations is not known",
                           {.attribute = "cond", .found = "no end", .accepted = "a constant condition or trip count"});
    }
    std::vector<Tensor> arguments = {asDeclared(e, *body, 0, scalarI64(i)), asDeclared(e, *body, 1, active)};
    arguments.insert(arguments.end(), state.begin(), state.end());
    TESSERA_ASSIGN_OR_RETURN(auto results, runBody(n, *body, arguments, 1 + carried.size(), active));
    may_end = counts_iterations;
    for (size_t k = 0; k < carried.size(); ++k) {
      const Tensor& next = results[1 + k];
      // A carried constant that changes may make the condition known later.
      may_end |= next.constant && state[k].constant && next.constant->bytes != state[k].constant->bytes;
      // While the condition is unknown, each carried value is selected: the next state, or the last one that counts.
      if (active.constant) {
        carried[k] = next;
      } else {
        TESSERA_ASSIGN_OR_RETURN(carried[k], choose(n, e, active, next, carried[k]));
      }
      state[k] = next;
    }
    // The last results may have no output of the node; these are dropped.
    const size_t stacked = std::min(scans.size(), results.size() - 1 - carried.size());
    for (size_t k = 0; k < stacked; ++k) scans[k].push_back(results[1 + carried.size() + k]);
    // Counts executed iterations, as a constant while possible.
    if (active.constant && rows.constant) {
      rows = scalarI64(rows.constant->integerAt(0) + 1);
    } else {
      rows = e.elementwise(v1::DATA_TYPE_I64, {rows, active}, [](const Scalars& s, ValueRange v) {
        return s.add(v[0], s.as(v1::DATA_TYPE_BOOL).cast(v[1], v1::DATA_TYPE_I64));
      });
    }
    const Tensor& again = results[0];
    if (again.dtype != boolean || again.sequence || again.elements() != 1) {
      return n.invalid("the body's first result is not a condition",
                       {.attribute = "body", .found = typeName(again.dtype), .accepted = "one bool"});
    }
    const Tensor next = e.reshape(again, {});
    // A condition that was false once stays false.
    active = active.constant || (next.constant && !next.constant->integerAt(0))
                 ? next
                 : e.elementwise(boolean, {active, next},
                                 [](const Scalars& s, ValueRange v) { return s.logicalAnd(v[0], v[1]); });
  }
  std::vector<Tensor> never;  // results of an iteration, to find the sizes of rows if there is no iteration
  if (!scans.empty() && scans[0].empty()) {
    std::vector<Tensor> arguments = {asDeclared(e, *body, 0, scalarI64(0)), asDeclared(e, *body, 1, active)};
    arguments.insert(arguments.end(), carried.begin(), carried.end());
    const Tensor no_run = Emitter::wrap(makeConstant(boolean, {}, std::string(1, '\0')));
    TESSERA_ASSIGN_OR_RETURN(never, runBody(n, *body, arguments, 1 + carried.size() + scans.size(), no_run));
    never.erase(never.begin(), never.begin() + 1 + static_cast<int64_t>(carried.size()));
  }
  // Stacks the results of all iterations; the count of executed ones is their extent.
  for (size_t k = 0; k < scans.size(); ++k) {
    auto& list = scans[k];
    if (list.empty()) {
      if (k >= never.size()) break;
      Shape none = never[k].shape;
      none.insert(none.begin(), 0);
      carried.push_back(Emitter::wrap(e.empty(never[k].dtype, none), never[k].dtype));
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(Tensor stacked, stack(n, e, std::move(list), 0));
    setExtent(stacked, 0, rows);
    carried.push_back(std::move(stacked));
  }
  return carried;
}

Results lowerLoop(Node& n, Emitter& e) {
  LoopInputs inputs;
  TESSERA_ASSIGN_OR_RETURN(inputs.body, n.graph("body"));
  if (n.has(0)) {
    TESSERA_RETURN_IF_ERROR(checkScalar(n, 0, "M", v1::DATA_TYPE_I64));
    inputs.trip_count = n.in(0);
  }
  if (n.has(1)) {
    TESSERA_RETURN_IF_ERROR(checkScalar(n, 1, "cond", v1::DATA_TYPE_BOOL));
    inputs.condition = n.in(1);
  }
  inputs.carried.assign(n.inputs().begin() + std::min(2, n.numInputs()), n.inputs().end());
  inputs.scans =
      static_cast<size_t>(std::max<int64_t>(n.numOutputs() - static_cast<int64_t>(inputs.carried.size()), 0));
  const bool known = inputs.trip_count && inputs.trip_count->constant;
  // Short known loops are unrolled: their iterations optimize together, and need no state in memory.
  if (known && inputs.trip_count->constant->integerAt(0) <= kMaxUnrolled) return writtenOutLoop(n, e);
  auto loop = lowerRolledLoop(n, e, inputs);
  if (loop.ok() && *loop) return **std::move(loop);
  // A trip count known only at run time cannot be unrolled, so the loop's error is the answer.
  if (!loop.ok() && inputs.trip_count && !known) return loop.status();
  return writtenOutLoop(n, e);
}

/// Axis and direction (1: backwards) of each scanned input and output of a Scan.
struct ScanPlan {
  int64_t states, inputs, outputs;
  std::vector<int64_t> input_axes, output_axes, input_directions, output_directions;
};

absl::StatusOr<std::vector<int64_t>> scanList(Node& n, const std::string& name, int64_t count, bool flags) {
  TESSERA_ASSIGN_OR_RETURN(auto list, n.integers(name, std::vector<int64_t>(count, 0)));
  bool valid = static_cast<int64_t>(list.size()) == count;
  for (int64_t value : list) valid &= !flags || value == 0 || value == 1;
  if (valid) return list;
  return n.invalid(absl::StrCat("attribute '", name, "' does not fit"),
                   {.attribute = name,
                    .found = shapeText(list),
                    .accepted = absl::StrCat(count, flags ? " values, each 0 or 1" : " axes")});
}

/// Moves dimension `from` of x to position `to`; the others keep their order.
Tensor moved(Emitter& e, const Tensor& x, int64_t from, int64_t to) {
  if (from == to) return x;
  std::vector<int64_t> order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  Tensor result = e.transpose(x, order);
  result.extents.clear();
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (const auto extent = x.extents.find(order[d]); extent != x.extents.end()) result.extents[d] = extent->second;
  }
  return result;
}

/// Checks that all scanned inputs have `scanned[0]`'s length in every run. The rows after an extent come last, so a
/// scan that starts at the end would read them first.
absl::Status checkRangedLengths(const Node& n, const ScanPlan& plan, const std::vector<Tensor>& scanned,
                                const std::vector<int64_t>& axes) {
  const auto first = scanned[0].extents.find(axes[0]);
  for (int64_t k = 0; k < plan.inputs; ++k) {
    const auto extent = scanned[k].extents.find(axes[k]);
    const bool ranged = extent != scanned[k].extents.end(), first_ranged = first != scanned[0].extents.end();
    if (!ranged && !first_ranged) continue;
    const int input = static_cast<int>(plan.states + k);
    if (ranged != first_ranged || !n.sameExtent(extent->second, first->second))
      return refuseExtent(n, input, axes[k], "all scanned inputs need one length");
    if (plan.input_directions[k] != 0) return refuseExtent(n, input, axes[k], "the scan starts at its end");
  }
  if (first == scanned[0].extents.end()) return absl::OkStatus();
  for (const int64_t backwards : plan.output_directions) {
    if (backwards != 0) return refuseExtent(n, static_cast<int>(plan.states), axes[0], "a result is stacked backwards");
  }
  return absl::OkStatus();
}

/// Runs the body along the scanned inputs, which are last in `inputs`.
Results scan(Node& n, Emitter& e, const onnx::GraphProto& body, const ScanPlan& plan,
             const std::vector<Tensor>& inputs) {
  std::vector<Tensor> states(inputs.begin(), inputs.begin() + plan.states);
  const std::vector<Tensor> scanned(inputs.begin() + plan.states, inputs.end());
  std::vector<int64_t> axes;
  for (int64_t k = 0; k < plan.inputs; ++k) {
    TESSERA_ASSIGN_OR_RETURN(axes.emplace_back(),
                             n.normalizeAxis(plan.input_axes[k], scanned[k].rank(), "scan_input_axes"));
  }
  const int64_t steps = scanned[0].shape[axes[0]];
  for (int64_t k = 0; k < plan.inputs; ++k) {
    if (steps > 0 && scanned[k].shape[axes[k]] == steps) continue;
    return n.invalid("the scanned inputs have different lengths or none",
                     {.attribute = absl::StrCat("scan input ", k),
                      .found = absl::StrCat(scanned[k].shape[axes[k]]),
                      .accepted = absl::StrCat(std::max<int64_t>(steps, 1))});
  }
  TESSERA_RETURN_IF_ERROR(checkRangedLengths(n, plan, scanned, axes));
  const bool ranged = hasBoundedInput(n);  // only a loop can follow extents
  if (steps > kMaxUnrolled || ranged) {
    std::vector<Tensor> parts_first;
    for (int64_t k = 0; k < plan.inputs; ++k) parts_first.push_back(moved(e, scanned[k], axes[k], 0));
    auto loop = lowerRolledScan(n, e, body, states, parts_first, plan.input_directions, plan.output_directions);
    if (loop.ok() && *loop) {
      std::vector<Tensor> results = **std::move(loop);
      for (int64_t k = 0; k < plan.outputs; ++k) {
        Tensor& stacked = results[static_cast<size_t>(plan.states + k)];
        TESSERA_ASSIGN_OR_RETURN(const int64_t axis,
                                 n.normalizeAxis(plan.output_axes[k], stacked.rank(), "scan_output_axes"));
        stacked = moved(e, stacked, 0, axis);
      }
      return results;
    }
    if (ranged) {
      TESSERA_RETURN_IF_ERROR(loop.status());
      return refuseExtents(n, "iterations are written out");
    }
  }
  std::vector<std::vector<Tensor>> rows(plan.outputs);
  for (int64_t i = 0; i < steps; ++i) {
    std::vector<Tensor> arguments = states;
    for (int64_t k = 0; k < plan.inputs; ++k) {
      arguments.push_back(e.take(scanned[k], axes[k], plan.input_directions[k] ? steps - 1 - i : i));
    }
    TESSERA_ASSIGN_OR_RETURN(auto results, runBody(n, body, arguments, plan.states));
    if (static_cast<int64_t>(results.size()) != plan.states + plan.outputs) {
      return n.invalid("the body's results are not the node's", {.attribute = "body",
                                                                 .found = absl::StrCat(results.size()),
                                                                 .accepted = absl::StrCat(plan.states + plan.outputs)});
    }
    std::copy_n(results.begin(), plan.states, states.begin());
    for (int64_t k = 0; k < plan.outputs; ++k) {
      auto& list = rows[k];
      list.insert(plan.output_directions[k] ? list.begin() : list.end(), results[plan.states + k]);
    }
  }
  for (int64_t k = 0; k < plan.outputs; ++k) {
    TESSERA_ASSIGN_OR_RETURN(Tensor stacked, stack(n, e, std::move(rows[k]), plan.output_axes[k]));
    states.push_back(std::move(stacked));
  }
  return states;
}

absl::StatusOr<ScanPlan> readScan(Node& n, int64_t inputs) {
  ScanPlan plan{};
  TESSERA_ASSIGN_OR_RETURN(plan.inputs, n.integer("num_scan_inputs"));
  bool given = plan.inputs >= 1 && plan.inputs <= inputs;
  plan.states = given ? inputs - plan.inputs : 0;
  plan.outputs = n.numOutputs() - plan.states;
  given &= plan.outputs >= 0;
  for (const Tensor& input : n.inputs()) given &= n.opset() < 9 || ((input.value || input.constant) && !input.sequence);
  if (given) return plan;
  return n.invalid("its inputs and outputs do not fit",
                   {.attribute = "num_scan_inputs",
                    .found = absl::StrCat(plan.inputs),
                    .accepted = absl::StrCat("1 to ", inputs, ", an output for each state")});
}

Results lowerScan(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const onnx::GraphProto* body, n.graph("body"));
  TESSERA_ASSIGN_OR_RETURN(ScanPlan plan, readScan(n, n.numInputs()));
  TESSERA_ASSIGN_OR_RETURN(plan.input_axes, scanList(n, "scan_input_axes", plan.inputs, false));
  TESSERA_ASSIGN_OR_RETURN(plan.output_axes, scanList(n, "scan_output_axes", plan.outputs, false));
  TESSERA_ASSIGN_OR_RETURN(plan.input_directions, scanList(n, "scan_input_directions", plan.inputs, true));
  TESSERA_ASSIGN_OR_RETURN(plan.output_directions, scanList(n, "scan_output_directions", plan.outputs, true));
  return scan(n, e, *body, plan, n.inputs());
}

/// Version 8: every input has a leading batch dimension, and each batch element is scanned separately.
Results lowerBatchedScan(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(refuseExtents(n, "iterations are written out"));
  if (n.has(0)) {
    return n.unsupported("lengths of sequences",
                         {.attribute = "sequence_lens", .accepted = "sequences of equal length"});
  }
  TESSERA_ASSIGN_OR_RETURN(const onnx::GraphProto* body, n.graph("body"));
  TESSERA_ASSIGN_OR_RETURN(ScanPlan plan, readScan(n, n.numInputs() - 1));
  TESSERA_ASSIGN_OR_RETURN(plan.input_directions, scanList(n, "directions", plan.inputs, true));
  plan.output_directions.assign(plan.outputs, 0);
  plan.input_axes.assign(plan.inputs, 0);
  plan.output_axes.assign(plan.outputs, 0);
  const int64_t batch = n.in(1).rank() > 0 ? n.in(1).shape[0] : 0;
  std::vector<std::vector<Tensor>> results(n.numOutputs());
  for (int i = 1; i < n.numInputs(); ++i) {
    if (n.has(i) && !n.in(i).sequence && n.in(i).rank() > 0 && batch > 0 && n.in(i).shape[0] == batch) continue;
    return n.invalid("an input lacks the batch dimension", {.attribute = absl::StrCat("input ", i),
                                                            .found = shapeText(n.in(i).shape),
                                                            .accepted = absl::StrCat(batch, " first")});
  }
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Tensor> inputs;
    for (int i = 1; i < n.numInputs(); ++i) inputs.push_back(e.take(n.in(i), 0, b));
    TESSERA_ASSIGN_OR_RETURN(const auto outputs, scan(n, e, *body, plan, inputs));
    for (size_t k = 0; k < outputs.size(); ++k) results[k].push_back(outputs[k]);
  }
  std::vector<Tensor> whole;
  for (auto& parts : results) {
    TESSERA_ASSIGN_OR_RETURN(Tensor stacked, stack(n, e, std::move(parts), 0));
    whole.push_back(std::move(stacked));
  }
  return whole;
}

}  // namespace

std::vector<Operator> controlFlowOperators() {
  return withExtents(extentsByLowering, {
                                            {"If", 1, 1, 1, lowerIf, kBool},
                                            {"Loop", 1, 0, kVariadic, lowerLoop},
                                            {"Scan", 9, 1, kVariadic, lowerScan, kStored},
                                            {"Scan", 8, 0, kVariadic, lowerBatchedScan, kAll, 1, 8},
                                        });
}

}  // namespace tessera::compiler
