// Einsum: sums of products over labelled dimensions. Two operands at a time become one contraction.
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;

/// A letter, or kEllipsis + k for the dimension of the ellipsis with k more after it.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;

struct Equation {
  std::vector<Labels> operands;
  Labels result;
  std::map<Label, int64_t> sizes;
};

/// Reads one operand's labels; the ellipsis means `ellipsis` dimensions.
absl::StatusOr<Labels> readTerm(const Node& n, std::string_view term, int64_t ellipsis) {
  Labels labels;
  bool seen = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (absl::ascii_isalpha(static_cast<unsigned char>(term[i]))) {
      labels.push_back(term[i]);
    } else if (!seen && term.substr(i, 3) == "...") {
      for (int64_t k = ellipsis; k-- > 0;) labels.push_back(kEllipsis + static_cast<Label>(k));
      seen = true;
      i += 2;
    } else {
      return n.invalid("the equation cannot be read",
                       {.attribute = "equation", .found = std::string(term), .accepted = "letters and one '...'"});
    }
  }
  return labels;
}

/// Returns the result's labels if the equation has none: the ellipsis, then letters that occur once, in alphabetical
/// order.
Labels implicitResult(const Equation& equation) {
  std::map<Label, int> counts;
  for (const Labels& operand : equation.operands) {
    for (Label label : operand) ++counts[label];
  }
  Labels result;
  // Dimensions of an ellipsis come first, in their order.
  for (auto it = counts.rbegin(); it != counts.rend() && it->first >= kEllipsis; ++it) result.push_back(it->first);
  // Then names that occur once, alphabetically; a map is sorted.
  for (const auto& [label, count] : counts) {
    if (label < kEllipsis && count == 1) result.push_back(label);
  }
  return result;
}

absl::Status readSizes(const Node& n, Equation& equation) {
  for (int i = 0; i < n.numInputs(); ++i) {
    for (size_t d = 0; d < equation.operands[i].size(); ++d) {
      const int64_t dim = n.in(i).shape[d];
      int64_t& size = equation.sizes.try_emplace(equation.operands[i][d], dim).first->second;
      if (size == 1) size = dim;
      if (dim == size || dim == 1) continue;
      return n.invalid(absl::StrCat("dimension ", d, " of input ", i, " does not agree with the others of its name"),
                       {.attribute = "equation", .found = absl::StrCat(dim), .accepted = absl::StrCat(size, " or 1")});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Equation> readEquation(Node& n) {
  TESSERA_ASSIGN_OR_RETURN(std::string text, n.text("equation"));
  // Blanks have no meaning.
  std::erase_if(text, [](unsigned char c) { return absl::ascii_isspace(c); });
  const std::vector<std::string> sides = absl::StrSplit(text, "->");
  const std::vector<std::string> terms = absl::StrSplit(sides[0], ',');
  if (sides.size() > 2 || static_cast<int>(terms.size()) != n.numInputs()) {
    return n.invalid("the equation does not fit the inputs",
                     {.attribute = "equation",
                      .found = text,
                      .accepted = absl::StrCat(n.numInputs(), " terms, then '->' and the result, or no result")});
  }
  Equation equation;
  int64_t widest = 0;
  for (int i = 0; i < n.numInputs(); ++i) {
    // The ellipsis takes all dimensions that have no name, possibly none.
    const bool has_ellipsis = terms[i].find("...") != std::string::npos;
    const int64_t named = static_cast<int64_t>(terms[i].size()) - (has_ellipsis ? 3 : 0);
    const int64_t rest = n.in(i).rank() - named;
    if (rest < 0 || (!has_ellipsis && rest > 0)) {
      return n.invalid(absl::StrCat("input ", i, " has the shape ", shapeText(n.in(i).shape)),
                       {.attribute = "equation", .found = terms[i], .accepted = "a name for every dimension"});
    }
    TESSERA_ASSIGN_OR_RETURN(Labels labels, readTerm(n, terms[i], rest));
    equation.operands.push_back(std::move(labels));
    // The result's ellipsis has as many dimensions as the operand with the most.
    widest = std::max(widest, rest);
  }
  TESSERA_RETURN_IF_ERROR(readSizes(n, equation));
  if (sides.size() == 1) {
    equation.result = implicitResult(equation);
    return equation;
  }
  TESSERA_ASSIGN_OR_RETURN(equation.result, readTerm(n, sides[1], widest));
  for (size_t i = 0; i < equation.result.size(); ++i) {
    const Label label = equation.result[i];
    // The result must name each dimension once, and only dimensions of inputs.
    const bool twice = std::find(equation.result.begin(), equation.result.begin() + static_cast<int64_t>(i), label) !=
                       equation.result.begin() + static_cast<int64_t>(i);
    if (twice || !equation.sizes.contains(label)) {
      return n.invalid("the result names a dimension twice, or one that no input has",
                       {.attribute = "equation", .found = sides[1]});
    }
  }
  return equation;
}

struct Operand {
  Tensor tensor;
  Labels labels;
  Labels zeroed = {};  ///< elements beyond these labels' extents are zeros
};

/// The extent of a label, and the input that has it.
using LabelledExtents = std::map<Label, std::pair<int, mlir::Value>>;

/// Drops dimensions of size 1 that broadcast against a larger one of the same label.
Operand withoutBroadcasts(Emitter& e, const Tensor& x, const Labels& labels, const Equation& equation) {
  Operand operand;
  Shape kept;
  for (size_t d = 0; d < labels.size(); ++d) {
    if (x.shape[d] == 1 && equation.sizes.at(labels[d]) != 1) continue;
    kept.push_back(x.shape[d]);
    operand.labels.push_back(labels[d]);
  }
  operand.tensor = e.reshape(x, kept);
  return operand;
}

/// Multiplies the operands and sums over every dimension that is not in `result`, up to its extent.
absl::StatusOr<Operand> contract(const Node& n, Emitter& e, const std::vector<Operand>& operands, Labels result,
                                 const Equation& equation, const LabelledExtents& extents) {
  // Loops of the result first, then summed ones, as linalg expects of reductions.
  Labels loops = result;
  for (const Operand& operand : operands) {
    for (Label label : operand.labels) {
      if (!llvm::is_contained(loops, label)) loops.push_back(label);
    }
  }
  auto map = [&](const Labels& labels) {
    llvm::SmallVector<AffineExpr> places;
    for (Label label : labels) {
      const auto at = std::find(loops.begin(), loops.end(), label) - loops.begin();
      places.push_back(e.b.getAffineDimExpr(static_cast<unsigned>(at)));
    }
    return AffineMap::get(static_cast<unsigned>(loops.size()), 0, places, e.b.getContext());
  };
  Shape shape;
  for (Label label : result) shape.push_back(equation.sizes.at(label));
  const v1::DataType dtype = operands[0].tensor.dtype;
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, dtype));
  llvm::SmallVector<Access> accesses;
  for (const Operand& operand : operands) accesses.push_back({operand.tensor, map(operand.labels)});
  llvm::SmallVector<IteratorType> kinds(loops.size(), IteratorType::reduction);
  std::fill_n(kinds.begin(), result.size(), IteratorType::parallel);
  // Zeros in all factors need no comparison in the loop.
  const auto are_zeros = [&](Label label) {
    return std::all_of(operands.begin(), operands.end(),
                       [&](const Operand& operand) { return llvm::is_contained(operand.zeroed, label); });
  };
  Tensor zero = e.zeros(dtype, shape);
  Tensor sum = e.generic(dtype, shape, accesses, map(result), kinds, &zero, [&](const Scalars& s, ValueRange v) {
    // Two operands and the sum so far multiply; one operand is just added.
    Value next = v.size() == 3 ? s.fma(v[0], v[1], v[2]) : s.add(v[0], v[1]);
    for (size_t loop = result.size(); loop < loops.size(); ++loop) {
      const auto extent = extents.find(loops[loop]);
      // Zeroing one factor is not enough: zero times infinity is NaN.
      if (extent == extents.end() || are_zeros(loops[loop])) continue;
      const Scalars wide = s.as(v1::DATA_TYPE_I64);
      Value place = mlir::arith::IndexCastOp::create(s.b, s.loc, s.b.getI64Type(),
                                                     mlir::linalg::IndexOp::create(s.b, s.loc, loop));
      Value counts = wide.compare(Relation::kLess, place, e.extract(wide, extent->second.second, {}));
      next = s.select(counts, next, v.back());
    }
    return next;
  });
  Labels zeroed;
  for (Label label : result)
    if (are_zeros(label)) zeroed.push_back(label);
  return Operand{std::move(sum), std::move(result), std::move(zeroed)};
}

/// Returns extents by label: all dimensions of a label have the same one, or are 1 and broadcast.
absl::StatusOr<LabelledExtents> extentsOf(const Node& n, const Equation& equation) {
  LabelledExtents extents;
  for (int i = 0; i < n.numInputs(); ++i) {
    for (const auto& [dim, extent] : n.in(i).extents) {
      const Label label = equation.operands[i][dim];
      const auto [known, fresh] = extents.try_emplace(label, i, extent);
      // Two inputs with the same name must have the same run-time size.
      if (!fresh && !n.sameExtent(known->second.second, extent))
        return refuseExtent(n, i, dim, absl::StrCat("it may differ from that of input ", known->second.first));
      for (int other = 0; other < n.numInputs(); ++other) {
        const Labels& labels = equation.operands[other];
        for (size_t d = 0; d < labels.size(); ++d) {
          if (labels[d] != label || n.in(other).extents.contains(static_cast<int64_t>(d)) || n.in(other).shape[d] == 1)
            continue;
          return refuseExtent(n, i, dim, absl::StrCat("input ", other, " has ", n.in(other).shape[d], " there"));
        }
      }
    }
  }
  return extents;
}

Results lowerEinsum(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Equation equation, readEquation(n));
  TESSERA_ASSIGN_OR_RETURN(const LabelledExtents extents, extentsOf(n, equation));
  const auto operand = [&](int i) {
    Tensor x = n.in(i);
    Labels summed;
    for (const auto& [dim, extent] : n.in(i).extents) {
      const Label label = equation.operands[i][dim];
      // A summed dimension counts up to its extent, so the rest becomes zeros.
      if (llvm::is_contained(equation.result, label)) continue;
      x = zeroed(e, x, dim);
      summed.push_back(label);
    }
    x.extents.clear();
    Operand made = withoutBroadcasts(e, x, equation.operands[i], equation);
    made.zeroed = std::move(summed);
    return made;
  };
  const auto finished = [&](Tensor result) -> Results {
    result.extents.clear();
    for (size_t d = 0; d < equation.result.size(); ++d) {
      const auto extent = extents.find(equation.result[d]);
      if (extent != extents.end()) result.extents[static_cast<int64_t>(d)] = extent->second.second;
    }
    return {{std::move(result)}};
  };
  Operand sum = operand(0);
  if (n.numInputs() == 1) {
    if (sum.labels == equation.result) return finished(sum.tensor);
    TESSERA_ASSIGN_OR_RETURN(sum, contract(n, e, {sum}, equation.result, equation, extents));
  }
  // Contracts from left to right, two operands at a time.
  for (int i = 1; i < n.numInputs(); ++i) {
    const Operand next = operand(i);
    Labels kept = equation.result;
    if (i + 1 < n.numInputs()) {
      // The labels of the result and of later operands.
      kept.clear();
      for (const Labels& labels : {sum.labels, next.labels}) {
        for (Label label : labels) {
          bool needed = llvm::is_contained(equation.result, label);
          for (int later = i + 1; later < n.numInputs(); ++later) {
            needed |= llvm::is_contained(equation.operands[later], label);
          }
          if (needed && !llvm::is_contained(kept, label)) kept.push_back(label);
        }
      }
    }
    TESSERA_ASSIGN_OR_RETURN(sum, contract(n, e, {sum, next}, std::move(kept), equation, extents));
  }
  return finished(std::move(sum.tensor));
}

}  // namespace

std::vector<Operator> einsumOperators() {
  return {
      {"Einsum", 12, 1, kVariadic, lowerEinsum, kNumbers, kVariadic, INT_MAX, "", extentsByLowering},
  };
}

}  // namespace tessera::compiler
