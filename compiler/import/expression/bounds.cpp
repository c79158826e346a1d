#include "compiler/import/expression/bounds.h"

#include <algorithm>
#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/import/limits.h"
#include "compiler/import/model_error.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::expression {
namespace {

int64_t floorDiv(int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }

// Computes x op y; false if it overflows or divides by 0.
bool apply(const std::string& op, int64_t x, int64_t y, int64_t& result) {
  if (op == "+") return !__builtin_add_overflow(x, y, &result);
  if (op == "-") return !__builtin_sub_overflow(x, y, &result);
  if (op == "*") return !__builtin_mul_overflow(x, y, &result);
  if (y <= 0 || (op != "/" && op != "%")) return false;
  result = op == "/" ? floorDiv(x, y) : x - floorDiv(x, y) * y;
  return true;
}

absl::Status notInteger(const Node& node) {
  return errorAt(node.at, "an integer expression is expected here", node.name, "integers, params, + - * / %");
}

struct Read {
  const Node* access;
  bool guarded;
};

void collectReads(const Node& node, bool guarded, std::vector<Read>& reads) {
  if (node.kind == Kind::kAccess) {
    reads.push_back({&node, guarded});
    return;  // no reads inside subscripts: dense computations only (thesis, definition 1)
  }
  for (size_t i = 0; i < node.children.size(); ++i) {
    collectReads(*node.children[i], guarded || (node.kind == Kind::kCondition && i > 0), reads);
  }
}

void collectVariables(const Node& node, const Constants& constants, std::vector<std::string>& order) {
  if (node.kind == Kind::kName && !constants.contains(node.name) &&
      std::find(order.begin(), order.end(), node.name) == order.end()) {
    order.push_back(node.name);
  }
  for (const NodePtr& child : node.children) collectVariables(*child, constants, order);
}

// The range of an integer expression over all values of its variables.
struct Interval {
  int64_t low = 0, high = 0;
};

class Inference {
 public:
  Inference(const Statement& statement, const Shapes& shapes, const Constants& constants)
      : statement_(statement), shapes_(shapes), constants_(constants) {}

  absl::StatusOr<std::vector<Loop>> run() {
    // Stated bounds win over subscripts that are a variable alone, and these over sums.
    TESSERA_RETURN_IF_ERROR(collectLoops());
    TESSERA_RETURN_IF_ERROR(boundsGiven());
    TESSERA_RETURN_IF_ERROR(boundsOfLoneVariables());
    // A sum may become solvable once another one has been solved, hence the rounds.
    while (true) {
      TESSERA_ASSIGN_OR_RETURN(const bool progress, boundsOfSums());
      if (!progress) break;
    }
    std::vector<Loop> loops;
    for (const std::string& variable : variables_) {
      const auto extent = extents_.find(variable);
      if (extent == extents_.end()) {
        return errorAt(statement_.at,
                       absl::StrCat("the extent of '", variable, "' does not follow from the subscripts"), variable,
                       absl::StrCat("add `where ", variable, " < ...` to the statement"));
      }
      const bool reduced =
          std::find(statement_.indices.begin(), statement_.indices.end(), variable) == statement_.indices.end();
      loops.push_back({variable, extent->second, reduced});
    }
    TESSERA_RETURN_IF_ERROR(checkReads());
    return loops;
  }

 private:
  absl::Status collectLoops() {
    std::set<std::string> seen;
    // Loops of the result come first, in the order of its subscripts; reduced ones follow.
    for (const std::string& index : statement_.indices) {
      if (constants_.contains(index) || !seen.insert(index).second) {
        return errorAt(statement_.at, "subscripts of a result are distinct variables", index);
      }
    }
    variables_ = statement_.indices;
    collectVariables(*statement_.value, constants_, variables_);
    collectReads(*statement_.value, false, reads_);
    for (const Read& read : reads_) {
      const auto shape = shapes_.find(read.access->name);
      if (shape == shapes_.end()) {
        return errorAt(read.access->at, "there is no tensor of this name yet", read.access->name,
                       "an input, or the result of a statement above");
      }
      if (shape->second.size() != read.access->children.size()) {
        return errorAt(read.access->at,
                       absl::StrCat("'", read.access->name, "' has ", shape->second.size(), " dimensions"),
                       absl::StrCat(read.access->children.size(), " subscripts"));
      }
    }
    const bool reduces = variables_.size() > statement_.indices.size();
    if (reduces && statement_.accumulation == Accumulation::kNone) {
      return errorAt(statement_.at, "this variable occurs only on the right, so it must be reduced",
                     variables_[statement_.indices.size()], "+=, *=, max=, min=, or sum(...) around the right side");
    }
    for (const std::string& axis : statement_.axes) {
      const auto found = std::find(variables_.begin(), variables_.end(), axis);
      if (found - variables_.begin() < static_cast<std::ptrdiff_t>(statement_.indices.size()) ||
          found == variables_.end()) {
        return errorAt(statement_.at, "an axis is a variable of the right side that the result lacks", axis);
      }
    }
    if (!statement_.axes.empty() && statement_.axes.size() != variables_.size() - statement_.indices.size()) {
      return errorAt(statement_.at, "the axes given are not all the variables that occur only on the right");
    }
    return absl::OkStatus();
  }

  absl::Status boundsGiven() {
    for (const Bound& bound : statement_.bounds) {
      if (std::find(variables_.begin(), variables_.end(), bound.variable) == variables_.end()) {
        return errorAt(bound.at, "the statement has no such variable", bound.variable);
      }
      TESSERA_ASSIGN_OR_RETURN(const int64_t extent, evaluate(*bound.extent, constants_));
      if (extent < 1 || extent > limits::kTensorElements) {
        return errorAt(bound.at, "an extent is at least 1", absl::StrCat(extent));
      }
      extents_[bound.variable] = extent;
      given_.insert(bound.variable);
    }
    return absl::OkStatus();
  }

  absl::Status boundsOfLoneVariables() {
    std::map<std::string, const Node*> from;
    for (const Read& read : reads_) {
      for (size_t d = 0; d < read.access->children.size(); ++d) {
        const Node& subscript = *read.access->children[d];
        // A stated bound may be smaller than the tensor.
        if (subscript.kind != Kind::kName || constants_.contains(subscript.name) || given_.contains(subscript.name)) {
          continue;
        }
        const int64_t extent = shapes_.at(read.access->name)[d];
        const auto [known, fresh] = extents_.emplace(subscript.name, extent);
        if (fresh) from[subscript.name] = read.access;
        // A variable that runs over two dimensions needs them to be equal.
        if (known->second != extent) {
          return errorAt(subscript.at,
                         absl::StrCat("'", subscript.name, "' runs to ", extent, " in '", read.access->name,
                                      "', but to ", known->second, " in '", from[subscript.name]->name, "'"));
        }
      }
    }
    return absl::OkStatus();
  }

  // One round: each variable that is the only unknown one of a sum gets the least of its bounds.
  absl::StatusOr<bool> boundsOfSums() {
    std::map<std::string, int64_t> found;
    for (const Read& read : reads_) {
      // Reads under a condition do not limit a variable: the condition keeps them inside.
      for (size_t d = 0; !read.guarded && d < read.access->children.size(); ++d) {
        TESSERA_ASSIGN_OR_RETURN(const Subscript subscript, analyse(*read.access->children[d], constants_));
        // The subscript's range without the unknown variable.
        std::string unknown;
        int unknowns = 0;
        bool fits = true;
        int64_t low = subscript.offset, high = subscript.offset;
        for (const auto& [variable, factor] : subscript.factors) {
          const auto extent = extents_.find(variable);
          if (extent == extents_.end()) {
            unknown = variable;
            ++unknowns;
          } else {
            int64_t& end = factor > 0 ? high : low;
            int64_t reach = 0;
            fits = fits && apply("*", factor, extent->second - 1, reach) && apply("+", end, reach, end);
          }
        }
        // With two unknown variables the room could be split in many ways.
        if (unknowns != 1) continue;
        const int64_t factor = subscript.factors.at(unknown), size = shapes_.at(read.access->name)[d];
        // The number of steps that the unknown variable may take before the subscript leaves the tensor.
        int64_t room = low, step = factor, extent = 0;
        if (factor > 0) {
          fits = fits && apply("-", size - 1, high, room);
        } else {
          fits = fits && apply("-", 0, factor, step);
        }
        if (!fits || !apply("/", room, step, extent) || !apply("+", extent, 1, extent)) {
          return errorAt(read.access->at, "the subscripts of this read overflow", read.access->name);
        }
        // Not even the variable's value 0 is inside.
        if (extent < 1) {
          return errorAt(read.access->at,
                         absl::StrCat("the window does not fit '", read.access->name, "', whose extent is ", size));
        }
        // Several windows: the variable must stay inside all of them.
        const auto [known, fresh] = found.emplace(unknown, extent);
        if (!fresh) known->second = std::min(known->second, extent);
      }
    }
    extents_.insert(found.begin(), found.end());
    return !found.empty();
  }

  absl::StatusOr<Interval> intervalOf(const Node& node) const {
    if (node.kind == Kind::kName && !constants_.contains(node.name)) {
      return Interval{0, extents_.at(node.name) - 1};
    }
    if (node.kind != Kind::kBinary && node.kind != Kind::kUnary) {
      TESSERA_ASSIGN_OR_RETURN(const int64_t value, evaluate(node, constants_));
      return Interval{value, value};
    }
    TESSERA_ASSIGN_OR_RETURN(const Interval x, intervalOf(*node.children[0]));
    if (node.kind == Kind::kUnary) {
      Interval negated;
      if (!apply("-", 0, x.high, negated.low) || !apply("-", 0, x.low, negated.high)) return notInteger(node);
      return negated;
    }
    TESSERA_ASSIGN_OR_RETURN(const Interval y, intervalOf(*node.children[1]));
    if (node.name == "%") {
      // x % y is in [0, y), and is x if x is already in that range.
      if (x.low >= 0 && x.high < y.low) return x;
      return Interval{0, y.high - 1};
    }
    // Sums and products of intervals have their extremes at the corners.
    Interval result{INT64_MAX, INT64_MIN};
    for (int64_t a : {x.low, x.high}) {
      for (int64_t b : {y.low, y.high}) {
        int64_t value = 0;
        if (!apply(node.name, a, b, value)) return notInteger(node);
        result.low = std::min(result.low, value);
        result.high = std::max(result.high, value);
      }
    }
    return result;
  }

  absl::Status checkReads() const {
    for (const Read& read : reads_) {
      for (size_t d = 0; d < read.access->children.size(); ++d) {
        const Node& subscript = *read.access->children[d];
        // Reports overflow and division errors before asking for the interval.
        TESSERA_RETURN_IF_ERROR(analyse(subscript, constants_).status());
        TESSERA_ASSIGN_OR_RETURN(const Interval interval, intervalOf(subscript));
        const int64_t extent = shapes_.at(read.access->name)[d];
        if (read.guarded || (interval.low >= 0 && interval.high < extent)) continue;
        return errorAt(subscript.at,
                       absl::StrCat("subscript ", d, " of '", read.access->name, "' runs from ", interval.low, " to ",
                                    interval.high, ", its extent is ", extent),
                       "", "a read within the tensor, or one under a condition (c ? x : y)");
      }
    }
    return absl::OkStatus();
  }

  const Statement& statement_;
  const Shapes& shapes_;
  const Constants& constants_;
  std::vector<std::string> variables_;
  std::vector<Read> reads_;
  std::map<std::string, int64_t> extents_;
  std::set<std::string> given_;
};

}  // namespace

absl::StatusOr<int64_t> evaluate(const Node& node, const Constants& constants) {
  TESSERA_ASSIGN_OR_RETURN(const Subscript subscript, analyse(node, constants));
  if (!subscript.linear || !subscript.factors.empty()) {
    return errorAt(node.at, "a constant is expected here", node.name, "integers, params and symbolic extents");
  }
  return subscript.offset;
}

absl::StatusOr<Subscript> analyse(const Node& node, const Constants& constants) {
  Subscript result;
  if (node.kind == Kind::kNumber) {
    // Doubles above this are not exact integers with a safety margin for sums.
    constexpr double kLargest = 1e15;
    if (node.real || node.number > kLargest) return notInteger(node);
    result.offset = static_cast<int64_t>(node.number);
    return result;
  }
  if (node.kind == Kind::kName) {
    if (const auto constant = constants.find(node.name); constant != constants.end()) {
      result.offset = constant->second;
    } else {
      result.factors[node.name] = 1;
    }
    return result;
  }
  const bool negation = node.kind == Kind::kUnary && node.name == "-";
  if (!negation && node.kind != Kind::kBinary) return notInteger(node);
  TESSERA_ASSIGN_OR_RETURN(Subscript x, analyse(*node.children.front(), constants));
  Subscript y;
  if (negation) {
    std::swap(x, y);  // 0 - y
  } else {
    TESSERA_ASSIGN_OR_RETURN(y, analyse(*node.children[1], constants));
  }
  const std::string op = negation ? "-" : node.name;
  result.linear = x.linear && y.linear;
  // A product is linear if one side is constant; that side goes to the right.
  if (op == "*" && x.linear && x.factors.empty()) std::swap(x, y);
  const bool scalar = y.linear && y.factors.empty();
  const bool divides = op == "/" || op == "%";
  if ((op == "*" || divides) && !scalar) return notInteger(node);
  // Division and remainder of a variable are not linear; only intervals describe them.
  if (divides && !(x.linear && x.factors.empty())) result.linear = false;
  bool fits = apply(op, x.offset, y.offset, result.offset);
  if (!result.linear) {
    if (divides && y.offset <= 0) return errorAt(node.at, "/ and % take a positive constant on the right");
    return Subscript{.linear = false, .offset = 0, .factors = {}};
  }
  for (const auto& [variable, factor] : x.factors) {
    fits &= apply(op == "*" ? op : "+", factor, op == "*" ? y.offset : 0, result.factors[variable]);
  }
  for (const auto& [variable, factor] : y.factors) {
    fits &= apply(op, result.factors[variable], factor, result.factors[variable]);
  }
  // i - i has no factor left.
  std::erase_if(result.factors, [](const auto& entry) { return entry.second == 0; });
  if (!fits) return errorAt(node.at, "this arithmetic overflows, or divides by something below 1", node.name);
  return result;
}

absl::StatusOr<std::vector<Loop>> inferLoops(const Statement& statement, const Shapes& shapes,
                                             const Constants& constants) {
  return Inference(statement, shapes, constants).run();
}

}  // namespace tessera::compiler::expression
