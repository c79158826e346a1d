#include "compiler/gradient/padded_contraction.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/gradient/result_phases.h"
#include "compiler/import/expression/make_node.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient {
namespace {

using expression::Kind;
using expression::Loop;
using expression::NodePtr;

/// A padded tensor may have this many times the elements of the tensor, and this many more.
constexpr double kLargestGrowth = 8, kSmallTensor = 4096;

class PaddedWriter {
 public:
  PaddedWriter(const Contraction& contraction, const std::string& name, StatementWriter& writer)
      : from_(contraction), name_(name), writer_(writer), space_(paramNames()) {}

  absl::StatusOr<bool> run() {
    if (!isProductOfReads()) return false;
    std::optional<std::vector<Phases>> phases = phasesOf(from_);
    if (!phases) return false;
    phases_ = *std::move(phases);
    makeLoops();
    for (const PlainRead& read : from_.terms[0].product_reads) {
      PlainRead& copy = reads_.emplace_back(PlainRead{.tensor = read.tensor});
      for (const IndexSum& sum : read.subscripts) copy.subscripts.push_back(moved(sum));
    }
    for (const IndexBound& guard : from_.guards) guards_.push_back({moved(guard.sum), guard.low, guard.high});
    reverseLoops();
    if (!coverGuards() || !fits()) return false;
    TESSERA_RETURN_IF_ERROR(write());
    return true;
  }

 private:
  std::set<std::string> paramNames() const {
    std::set<std::string> names;
    for (const auto& [name, value] : writer_.constants()) names.insert(name);
    return names;
  }

  bool isProductOfReads() const {
    if (from_.terms.size() != 1 || from_.free_loops.empty()) return false;
    const ContractionTerm& term = from_.terms[0];
    size_t accesses = 0;
    for (const Factor& factor : term.adjoint.factors) {
      if (factor.divides || (factor.node->kind != Kind::kAccess && factor.node->kind != Kind::kNumber)) return false;
      accesses += factor.node->kind == Kind::kAccess ? 1 : 0;
    }
    return term.adjoint.conditions.empty() && accesses == term.product_reads.size();
  }

  /// Loops of the new space, and what each atom of the old one is in them.
  void makeLoops() {
    for (Phases& each : phases_) addLoops(from_.space, each, space_, atoms_);
    for (const int loop : from_.free_loops) {
      const auto& atom = from_.space.atom(loop);
      atoms_[loop] = space_.addLoop(atom.name, atom.range.high + 1);
      free_.push_back(atoms_[loop].terms.begin()->first);
    }
  }

  IndexSum moved(const IndexSum& sum) {
    IndexSum result{.terms = {}, .constant = sum.constant};
    for (const auto& [atom, factor] : sum.terms) result = space_.plus(result, atoms_.at(atom), factor);
    return result;
  }

  /// A free loop that counts down in a subscript where another one counts up is reversed; then a phase that counts up
  /// alone is, so that the subscript counts down as a whole.
  void reverseLoops() {
    for (const int loop : free_)
      if (occurs(loop, [](const IndexSum& sum, int64_t factor) {
            return factor < 0 && std::ranges::any_of(sum.terms, [](const auto& other) { return other.second > 0; });
          }))
        reverse(loop);
    for (Phases& each : phases_) {
      if (each.phase.terms.empty()) continue;
      const int loop = each.phase.terms.begin()->first;
      each.reversed = occurs(loop, [](const IndexSum& sum, int64_t factor) {
        return factor > 0 && sum.terms.size() > 1 &&
               std::ranges::count_if(sum.terms, [](const auto& other) { return other.second > 0; }) == 1;
      });
      if (each.reversed) reverse(loop);
    }
  }

  /// Whether the loop has a factor in some subscript for which the test holds.
  template <typename Test>
  bool occurs(int loop, const Test& test) const {
    return std::ranges::any_of(reads_, [&](const PlainRead& read) {
      return std::ranges::any_of(read.subscripts, [&](const IndexSum& sum) {
        const auto term = sum.terms.find(loop);
        return term != sum.terms.end() && test(sum, term->second);
      });
    });
  }

  void reverse(int loop) {
    const int64_t last = space_.atom(loop).range.high;
    const auto turn = [&](IndexSum& sum) {
      const auto term = sum.terms.find(loop);
      if (term == sum.terms.end()) return;
      sum.constant += term->second * last;
      term->second = -term->second;
    };
    for (PlainRead& read : reads_)
      for (IndexSum& sum : read.subscripts) turn(sum);
    for (IndexBound& guard : guards_) turn(guard.sum);
  }

  /// Whether each guard is false only where some read is outside its tensor, and so is 0; else a mask becomes a factor.
  bool coverGuards() {
    for (const IndexBound& guard : guards_) {
      const Range range = space_.rangeOf(guard.sum);
      if (range.low >= guard.low && range.high <= guard.high) continue;
      if (isCovered(guard)) continue;
      const bool of_free = std::ranges::any_of(free_, [&](int loop) { return guard.sum.terms.contains(loop); });
      const bool rising = std::ranges::all_of(guard.sum.terms, [](const auto& term) { return term.second > 0; });
      if (!of_free || !rising) return false;
      masks_.push_back(guard);
    }
    return true;
  }

  bool isCovered(const IndexBound& guard) const {
    for (const PlainRead& read : reads_)
      for (size_t d = 0; d < read.subscripts.size(); ++d) {
        const IndexSum& sum = read.subscripts[d];
        const int64_t offset = sum.constant - guard.sum.constant;
        if (sum.terms == guard.sum.terms && guard.low + offset <= 0 &&
            guard.high + offset >= writer_.shapes().at(read.tensor)[d] - 1)
          return true;
      }
    return false;
  }

  static bool isFalling(const IndexSum& sum) {
    return !sum.terms.empty() && std::ranges::all_of(sum.terms, [](const auto& term) { return term.second < 0; });
  }

  bool fits() const {
    for (const PlainRead& read : reads_) {
      double elements = 1;
      const std::vector<int64_t>& shape = writer_.shapes().at(read.tensor);
      for (size_t d = 0; d < shape.size(); ++d) {
        const Range range = space_.rangeOf(read.subscripts[d]);
        elements *= static_cast<double>(std::max(range.high - range.low + 1, shape[d]));
      }
      if (elements > kLargestGrowth * elementsOf(shape) + kSmallTensor) return false;
    }
    return space_.status().ok();
  }

  absl::Status write() {
    NodePtr product;
    const auto multiply = [&](NodePtr factor) {
      product =
          product == nullptr ? std::move(factor) : expression::binaryNode("*", std::move(product), std::move(factor));
    };
    size_t next = 0;
    for (const Factor& factor : from_.terms[0].adjoint.factors) {
      if (factor.node->kind == Kind::kNumber) {
        multiply(expression::copyOf(*factor.node));
        continue;
      }
      TESSERA_ASSIGN_OR_RETURN(NodePtr access, padded(reads_[next++]));
      multiply(std::move(access));
    }
    for (const IndexBound& guard : masks_) {
      TESSERA_ASSIGN_OR_RETURN(NodePtr access, maskOf(guard));
      multiply(std::move(access));
    }
    if (from_.terms[0].adjoint.negative) product = expression::unaryNode("-", std::move(product));
    return writeResult(std::move(product));
  }

  /// The access, of a copy with zeros around it if it can leave the tensor, and turned round if it counts down.
  absl::StatusOr<NodePtr> padded(const PlainRead& read) {
    const std::vector<int64_t>& shape = writer_.shapes().at(read.tensor);
    std::vector<NodePtr> subscripts, inside;
    std::vector<Loop> loops;
    NodePtr condition;
    IndexSpace copy(paramNames());
    bool copies = false, pads = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      const IndexSum& sum = read.subscripts[d];
      const Range range = space_.rangeOf(sum);
      const bool falls = isFalling(sum), leaves = range.low < 0 || range.high >= shape[d];
      copies = copies || falls || leaves;
      pads = pads || leaves;
      const bool moves = falls || leaves;
      const int64_t low = moves ? range.low : 0, high = moves ? range.high : shape[d] - 1;
      const IndexSum i = copy.addLoop(absl::StrCat("i", d), high - low + 1);
      loops.push_back({copy.atoms().back().name, high - low + 1, false});
      IndexSum index = copy.plus({.terms = {}, .constant = falls ? high : low}, i, falls ? -1 : 1);
      inside.push_back(copy.nodeOf(index));
      condition = both(std::move(condition), conditionOf(copy, {index, 0, shape[d] - 1}));
      const IndexSum start{.terms = {}, .constant = falls ? high : low};
      subscripts.push_back(space_.nodeOf(falls ? space_.plus(start, sum, -1) : space_.plus(sum, start, -1)));
    }
    if (!copies) return expression::accessNode(read.tensor, std::move(subscripts));
    NodePtr value = expression::accessNode(read.tensor, std::move(inside));
    if (condition != nullptr)
      value = expression::conditionNode(std::move(condition), std::move(value), expression::integerNode(0));
    TESSERA_ASSIGN_OR_RETURN(const std::string name,
                             writer_.add(writer_.freshName(read.tensor + (pads ? "_padded" : "_reversed")), loops,
                                         std::move(value), expression::Accumulation::kNone, true));
    return expression::accessNode(name, std::move(subscripts));
  }

  /// 1 where the guard holds, otherwise 0, indexed by the guard's sum.
  absl::StatusOr<NodePtr> maskOf(const IndexBound& guard) {
    const Range range = space_.rangeOf(guard.sum);
    IndexSpace mask(paramNames());
    IndexSum index = mask.addLoop("i", range.high - range.low + 1);
    const std::vector<Loop> loops{{mask.atoms()[0].name, range.high - range.low + 1, false}};
    index.constant = range.low;
    const std::string type = expression::nameOfType(writer_.types().at(reads_[0].tensor));
    NodePtr value = expression::conditionNode(conditionOf(mask, {index, guard.low, guard.high}),
                                              expression::callNode(type, expression::integerNode(1)),
                                              expression::callNode(type, expression::integerNode(0)));
    TESSERA_ASSIGN_OR_RETURN(const std::string name,
                             writer_.add(writer_.freshName(name_ + "_mask"), loops, std::move(value),
                                         expression::Accumulation::kNone, true));
    IndexSum at = guard.sum;
    at.constant -= range.low;
    std::vector<NodePtr> subscripts;
    subscripts.push_back(space_.nodeOf(at));
    return expression::accessNode(name, std::move(subscripts));
  }

  absl::Status writeResult(NodePtr product) {
    std::vector<Loop> loops;
    const auto addLoop = [&](const IndexSum& sum) {
      if (sum.terms.empty()) return;
      const auto& atom = space_.atom(sum.terms.begin()->first);
      loops.push_back({atom.name, atom.range.high + 1, false});
    };
    // Phases are outermost: within one, elements beside each other read elements beside each other.
    for (const Phases& each : phases_) addLoop(each.phase);
    for (const Phases& each : phases_) addLoop(each.block);
    const bool phased = std::ranges::any_of(phases_, [](const Phases& each) { return each.divisor > 1; });
    bool reduces = false;
    for (const int loop : free_) {
      const auto& atom = space_.atom(loop);
      const bool used =
          occurs(loop, [](const IndexSum&, int64_t) { return true; }) ||
          std::ranges::any_of(masks_, [&](const IndexBound& guard) { return guard.sum.terms.contains(loop); });
      if (used) {
        loops.push_back({atom.name, atom.range.high + 1, true});
        reduces = true;
      } else {
        product = expression::binaryNode("*", std::move(product), expression::integerNode(atom.range.high + 1));
      }
    }
    const auto accumulation = reduces ? expression::Accumulation::kSum : expression::Accumulation::kNone;
    if (!phased) return writer_.add(name_, loops, std::move(product), accumulation).status();
    TESSERA_ASSIGN_OR_RETURN(const std::string phases, writer_.add(writer_.freshName(name_ + "_phases"), loops,
                                                                   std::move(product), accumulation));
    return writeGather(from_.space, phases_, phases, name_, writer_);
  }

  const Contraction& from_;
  const std::string& name_;
  StatementWriter& writer_;
  std::vector<Phases> phases_;
  IndexSpace space_;
  std::map<int, IndexSum> atoms_;
  std::vector<int> free_;
  std::vector<PlainRead> reads_;
  std::vector<IndexBound> guards_, masks_;
};

}  // namespace

absl::StatusOr<bool> writePadded(const Contraction& contraction, const std::string& name, StatementWriter& writer) {
  return PaddedWriter(contraction, name, writer).run();
}

}  // namespace tessera::compiler::gradient
