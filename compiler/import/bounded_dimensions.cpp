#include "compiler/import/bounded_dimensions.h"

#include "absl/strings/str_cat.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

using mlir::ValueRange;

bool isBounded(const Tensor& tensor) {
  if (!tensor.extents.empty()) return true;
  return tensor.sequence && std::any_of(tensor.sequence->begin(), tensor.sequence->end(), isBounded);
}

bool hasBoundedInput(const Node& node) { return std::any_of(node.inputs().begin(), node.inputs().end(), isBounded); }

absl::Status refuseExtent(const Node& node, int input, int64_t dim, const std::string& why) {
  const int64_t bound = node.in(input).shape[dim];
  const std::string inputs = node.fixOf(extentOf(node.in(input), dim));
  return node.unsupported(
      absl::StrCat("dimension ", dim, " of input ", input, " is known only at run time (at most ", bound, "): ", why),
      {.attribute = absl::StrCat("input ", input),
       .found = absl::StrCat("an extent of up to ", bound, " at dimension ", dim),
       .accepted = "an extent that is known at compile time",
       .remedy = absl::StrCat(
           "end the model before this node, or make the number of elements constant",
           inputs.empty() ? "" : ", for example by ", inputs,
           "; instead of a range (--dim N=1..8), give sizes (--dim N=1,2,4,8), or its formula if it has one "
           "(--dim 'total=past + 1')")});
}

absl::Status refuseExtents(const Node& node, int input, const std::string& why) {
  if (!node.has(input) || !isBounded(node.in(input))) return absl::OkStatus();
  const Tensor& tensor = node.in(input);
  if (!tensor.sequence) return refuseExtent(node, input, tensor.extents.begin()->first, why);
  return node.unsupported(absl::StrCat("a tensor of the sequence has a dimension known only at run time: ", why),
                          {.attribute = absl::StrCat("input ", input),
                           .found = "an extent known at run time",
                           .accepted = "extents that are known at compile time"});
}

absl::Status refuseExtents(const Node& node, const std::string& why) {
  for (int i = 0; i < node.numInputs(); ++i) TESSERA_RETURN_IF_ERROR(refuseExtents(node, i, why));
  return absl::OkStatus();
}

Tensor masked(Emitter& e, const Tensor& x, int64_t dim, llvm::function_ref<mlir::Value(const Scalars&)> neutral) {
  const mlir::Value extent = x.extents.at(dim);
  // Tells for each position along the dimension whether it is below the extent.
  Tensor counts = e.generate(v1::DATA_TYPE_BOOL, {x.shape[dim]}, [&](const Scalars& s, ValueRange at) {
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    mlir::Value place = mlir::arith::IndexCastOp::create(s.b, s.loc, s.b.getI64Type(), at[0]);
    return wide.compare(Relation::kLess, place, e.extract(wide, extent, {}));
  });
  // Broadcasts over the dimensions after it.
  Shape aligned(static_cast<size_t>(x.rank() - dim), 1);
  aligned[0] = x.shape[dim];
  Tensor result = e.elementwise(x.dtype, {x, e.reshape(counts, aligned)},
                                [&](const Scalars& s, ValueRange v) { return s.select(v[1], v[0], neutral(s)); });
  result.extents = x.extents;
  return result;
}

Tensor zeroed(Emitter& e, const Tensor& x, int64_t dim) {
  return masked(e, x, dim, [](const Scalars& s) { return s.constant(0); });
}

bool sameExtents(const Node& node, const Tensor& x, const Tensor& y) {
  return std::equal(
      x.extents.begin(), x.extents.end(), y.extents.begin(), y.extents.end(),
      [&](const auto& a, const auto& b) { return a.first == b.first && node.sameExtent(a.second, b.second); });
}

bool equalInAcceptedRuns(const Node& node, mlir::Value a, mlir::Value b) {
  return node.sameExtent(a, b) || node.makeEqualForMultiples(a, b, "the inputs have equal sizes");
}

Tensor scalarI64(int64_t value) { return Emitter::wrap(reshaped(integerConstant({value}), {})); }

Tensor extentOf(const Tensor& tensor, int64_t dim) {
  auto bounded = tensor.extents.find(dim);
  return bounded == tensor.extents.end() ? scalarI64(tensor.shape[dim])
                                         : Emitter::wrap(bounded->second, v1::DATA_TYPE_I64);
}

Tensor multiplied(Emitter& e, const Tensor& extent, int64_t factor) {
  if (factor == 1) return extent;
  return e.elementwise(v1::DATA_TYPE_I64, {extent, scalarI64(factor)},
                       [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[1]); });
}

Tensor scaledExtent(Emitter& e, const Tensor& extent, int64_t factor, int64_t more) {
  if (factor == 1 && more == 0) return extent;
  return e.elementwise(v1::DATA_TYPE_I64, {extent}, [&](const Scalars& s, ValueRange v) {
    return s.max(s.add(s.mul(v[0], s.integer(factor)), s.integer(more)), s.integer(0));
  });
}

Tensor dividedExtent(Emitter& e, const Tensor& extent, int64_t parts) {
  return e.elementwise(v1::DATA_TYPE_I64, {extent, scalarI64(parts)},
                       [](const Scalars& s, ValueRange v) { return s.div(v[0], v[1]); });
}

void setExtent(Tensor& tensor, int64_t dim, const Tensor& extent) {
  if (extent.value && tensor.shape[dim] > 0) tensor.extents[dim] = extent.value;
}

absl::Status extentsByLowering(Node&, Emitter&, std::vector<Tensor>&) { return absl::OkStatus(); }

absl::Status broadcastExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  std::map<int64_t, std::pair<int, mlir::Value>> from_last;  // dimension, counted from the last -> input, extent
  // Whether x is broadcast along the dimension: it has one element, the result more.
  const auto isSpread = [&](const Tensor& x, int64_t dim) {
    if (x.shape[dim] != 1) return false;
    const auto has_more = [&](const Tensor& other) {
      const int64_t own = other.rank() - x.rank() + dim;
      return own >= 0 && own < other.rank() && other.shape[own] > 1;
    };
    if (std::none_of(n.inputs().begin(), n.inputs().end(), has_more)) return false;
    const auto bounds = n.bounds(extentOf(x, dim));
    return bounds && *bounds == std::pair<int64_t, int64_t>(1, 1);
  };
  for (int i = 0; i < n.numInputs(); ++i) {
    for (const auto& [dim, extent] : n.in(i).extents) {
      if (isSpread(n.in(i), dim)) continue;
      auto [known, fresh] = from_last.try_emplace(n.in(i).rank() - 1 - dim, i, extent);
      if (!fresh && !equalInAcceptedRuns(n, known->second.second, extent)) {
        return refuseExtent(n, i, dim, absl::StrCat("it may differ from that of input ", known->second.first));
      }
    }
  }
  // Every other input must have 1 there, or the same extent.
  for (const auto& [place, source] : from_last) {
    for (int i = 0; i < n.numInputs(); ++i) {
      const int64_t dim = n.has(i) ? n.in(i).rank() - 1 - place : -1;
      if (dim < 0 || n.in(i).extents.contains(dim) || n.in(i).shape[dim] == 1) continue;
      return refuseExtent(n, source.first, n.in(source.first).rank() - 1 - place,
                          absl::StrCat("input ", i, " has ", n.in(i).shape[dim], " there"));
    }
  }
  // Results get the extents at the same distance from the last dimension.
  for (Tensor& result : results) {
    result.extents.clear();
    for (const auto& [place, source] : from_last) result.extents[result.rank() - 1 - place] = source.second;
  }
  return absl::OkStatus();
}

absl::Status unaryExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  for (int i = 1; i < n.numInputs(); ++i) TESSERA_RETURN_IF_ERROR(refuseExtents(n, i, "it has to fit input 0"));
  for (Tensor& result : results) result.extents = n.in(0).extents;
  return absl::OkStatus();
}

absl::Status independentRowExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  for (int i = 0; i < n.numInputs(); ++i) {
    for (const auto& [dim, extent] : n.in(i).extents) {
      if (i != 0 || dim != 0) return refuseExtent(n, i, dim, "elements along it are combined");
    }
  }
  TESSERA_RETURN_IF_ERROR(n.in(0).sequence ? refuseExtents(n, 0, "no batch") : absl::OkStatus());
  for (Tensor& result : results) {
    // A result without batch, such as a sum, has no extent.
    const bool has_batch = result.rank() > 0 && n.in(0).rank() > 0 && result.shape[0] == n.in(0).shape[0];
    result.extents = has_batch ? n.in(0).extents : decltype(result.extents){};
  }
  return absl::OkStatus();
}

absl::Status alongAxisExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  for (int i = 1; i < n.numInputs(); ++i) TESSERA_RETURN_IF_ERROR(refuseExtents(n, i, "it has to fit input 0"));
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -1, n.in(0).rank()));
  for (const auto& [dim, extent] : n.in(0).extents) {
    if (dim == axis) return refuseExtent(n, 0, dim, "elements along it are combined");
  }
  for (Tensor& result : results) {
    result.extents = n.in(0).extents;
    result.extents.erase(axis);
  }
  return absl::OkStatus();
}

absl::Status beforeAxisExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -1, n.in(0).rank()));
  for (int i = 1; i < n.numInputs(); ++i) TESSERA_RETURN_IF_ERROR(refuseExtents(n, i, "it has to fit input 0"));
  for (const auto& [dim, extent] : n.in(0).extents) {
    if (dim >= axis) return refuseExtent(n, 0, dim, "elements along it are combined");
  }
  for (Tensor& result : results) result.extents = n.in(0).extents;
  return absl::OkStatus();
}

absl::Status reshapeExtents(Node& n, Emitter& e, std::vector<Tensor>& results, const Shape* wanted) {
  const Tensor& x = n.in(0);
  Tensor& y = results[0];
  y.extents.clear();
  for (const auto& [dim, extent] : x.extents) {
    const int64_t bound = x.shape[dim];
    // Elements before the dimension identify it in both shapes, as reshapes keep their order.
    const int64_t before = elementCount({x.shape.begin(), x.shape.begin() + dim});
    // Finds the result's dimension with the same start: the same number of elements after it, and no dimension of 1
    // before it.
    std::vector<int64_t> candidates;
    int64_t passed = 1;
    for (int64_t d = 0; d < y.rank() && passed <= before; passed *= y.shape[d++]) {
      if (passed == before && (y.shape[d] > 1 || bound == 1)) candidates.push_back(d);
    }
    if (wanted && candidates.size() > 1) {  // the bound is 1: only the requested shape tells which one it is
      std::erase_if(candidates, [&](int64_t d) { return (*wanted)[d] != -1; });
    }
    if (candidates.size() != 1) return refuseExtent(n, 0, dim, "the new shape merges it with other dimensions");
    const int64_t to = candidates[0];
    const int64_t size = y.shape[to];
    if (wanted && (*wanted)[to] != -1 && ((*wanted)[to] != 0 || to != dim)) {
      return refuseExtent(n, 0, dim, absl::StrCat("the new shape requires ", (*wanted)[to], " there"));
    }
    if (size % bound == 0) {
      // The dimension is merged with those after it, or is the first part of one; the extent then stays dense.
      int64_t merged = bound;
      for (int64_t d = dim + 1; merged < size; ++d) {
        if (d >= x.rank() || x.extents.contains(d)) return refuseExtent(n, 0, dim, "it is merged with another one");
        merged *= x.shape[d];
      }
      setExtent(y, to, multiplied(e, extentOf(x, dim), size / bound));
    } else if (bound % size == 0) {
      // The dimension is split: its first part has the extent divided by the others, if that is always whole.
      if (!n.divides(bound / size, extent)) {
        return refuseExtent(n, 0, dim, absl::StrCat("not every size of it can be cut in parts of ", bound / size));
      }
      const int64_t parts = bound / size;
      setExtent(y, to, dividedExtent(e, extentOf(x, dim), parts));
    } else {
      return refuseExtent(n, 0, dim, absl::StrCat("it cannot become ", size));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
