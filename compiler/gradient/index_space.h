#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/expression/syntax.h"
#include "compiler/loopnest/subscript.h"

namespace tessera::compiler::gradient {

using loopnest::Range;

/// An integer expression: constant + sum of factor * atom. Atoms are loops, quotients and remainders of an IndexSpace.
struct IndexSum {
  std::map<int, int64_t> terms = {};  ///< by atom; no factor 0
  int64_t constant = 0;
  bool operator==(const IndexSum&) const = default;
};

/// Loops of one statement, and the quotients and remainders that its subscripts take of them. Division rounds down.
/// In contrast to loopnest::Subscript, a quotient may be taken of quotients.
class IndexSpace {
 public:
  enum class AtomKind { kLoop, kQuotient, kRemainder };
  struct Atom {
    AtomKind kind = AtomKind::kLoop;
    std::string name = {};   ///< of a loop
    IndexSum dividend = {};  ///< of a quotient or remainder; refers to earlier atoms
    int64_t divisor = 1;
    Range range = {};
  };

  /// Names that new loops must not have.
  explicit IndexSpace(std::set<std::string> taken = {}) : taken_(std::move(taken)) {}

  /// Adds a loop from 0 to extent - 1. Its name is `hint`; a number follows if another loop or a param has that name.
  IndexSum addLoop(const std::string& hint, int64_t extent);

  IndexSum plus(const IndexSum& left, const IndexSum& right, int64_t factor = 1);
  IndexSum quotient(const IndexSum& dividend, int64_t divisor);
  IndexSum remainder(const IndexSum& dividend, int64_t divisor);
  /// The sum with x - d * (x / d) written as x % d where that makes its range smaller or the sum shorter.
  IndexSum tightened(const IndexSum& sum);

  /// Bounds of the values; each atom is taken to have all values of its range independently.
  Range rangeOf(const IndexSum& sum) const;

  /// The sum in the syntax of tensor expressions. Dividends are never negative, so that it means the same as a
  /// subscript, whose division rounds down, and in a condition, where division rounds to 0.
  expression::NodePtr nodeOf(const IndexSum& sum) const;

  /// The meaning of names in an expression, and rules for reading it.
  struct Reading {
    std::map<std::string, IndexSum> names;  ///< loops and params
    bool as_value = false;         ///< fail where division as of values (to 0) differs from that of subscripts (down)
    bool keep_remainders = false;  ///< otherwise x % d becomes x - d * (x / d)
  };
  /// Reads an expression. Fails with INVALID_MODEL at the place of anything that is no quasi-affine function.
  absl::StatusOr<IndexSum> read(const expression::Node& node, const Reading& reading);

  const std::vector<Atom>& atoms() const { return atoms_; }
  const Atom& atom(int position) const { return atoms_[static_cast<size_t>(position)]; }
  /// An atom as a sum.
  static IndexSum sumOf(int atom) { return {.terms = {{atom, 1}}}; }
  /// OUT_OF_RANGE if a number has left the range that tensor expressions can state.
  absl::Status status() const;

 private:
  int intern(AtomKind kind, const IndexSum& dividend, int64_t divisor);
  int64_t checked(__int128 value);
  /// Splits dividend = divisor * whole + rest with the smallest rest.
  void split(const IndexSum& dividend, int64_t divisor, IndexSum& whole, IndexSum& rest);
  /// (x / a + c) / b is (x + a * c) / (a * b).
  void joinQuotients(IndexSum& dividend, int64_t& divisor) const;

  std::vector<Atom> atoms_;
  std::set<std::string> taken_;
  bool overflow_ = false;
};

}  // namespace tessera::compiler::gradient
