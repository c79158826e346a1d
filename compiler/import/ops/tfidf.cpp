// TfIdfVectorizer: counts each n-gram of a pool in a list of integers.
#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/limits.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/indexing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::OpBuilder;
using mlir::Value;
using mlir::ValueRange;
namespace arith = mlir::arith;

// Limits: each skip of each length is a separate loop with a comparison for each element.
constexpr int64_t kMaxSkips = 64, kLongestGram = 16;

struct Pool {
  std::vector<std::vector<int64_t>> grams;    ///< by length - 1: the n-grams, one after another
  std::vector<std::vector<int64_t>> columns;  ///< by length - 1: the column that counts each n-gram
  std::vector<double> weights;                ///< by column; empty: none
  int64_t width = 0;                          ///< columns of the result
  int64_t shortest = 1, longest = 1, skips = 0;
  std::string mode;
};

absl::StatusOr<Pool> readPool(Node& n) {
  if (n.hasAttribute("pool_strings")) {
    return n.unsupported("n-grams of strings",
                         {.attribute = "pool_strings", .found = "strings", .accepted = "pool_int64s"});
  }
  Pool pool;
  TESSERA_ASSIGN_OR_RETURN(const auto tokens, n.integers("pool_int64s"));
  TESSERA_ASSIGN_OR_RETURN(const auto starts, n.integers("ngram_counts"));
  TESSERA_ASSIGN_OR_RETURN(const auto columns, n.integers("ngram_indexes"));
  TESSERA_ASSIGN_OR_RETURN(const auto weights, n.reals("weights", std::vector<double>{}));
  TESSERA_ASSIGN_OR_RETURN(pool.shortest, n.integer("min_gram_length"));
  TESSERA_ASSIGN_OR_RETURN(pool.longest, n.integer("max_gram_length"));
  TESSERA_ASSIGN_OR_RETURN(pool.skips, n.integer("max_skip_count"));
  TESSERA_ASSIGN_OR_RETURN(pool.mode, n.text("mode"));
  if (pool.mode != "TF" && pool.mode != "IDF" && pool.mode != "TFIDF") {
    return n.invalid("unknown mode", {.attribute = "mode", .found = pool.mode, .accepted = "TF, IDF, TFIDF"});
  }
  if (pool.shortest < 1 || pool.longest < pool.shortest || pool.longest > static_cast<int64_t>(starts.size()) ||
      pool.skips < 0 || pool.skips > INT32_MAX || columns.empty()) {
    return n.invalid("lengths of n-grams do not fit the pool",
                     {.attribute = "max_gram_length",
                      .found = absl::StrCat(pool.shortest, " to ", pool.longest, ", ", pool.skips, " skipped"),
                      .accepted = absl::StrCat("1 to ", starts.size(), ", a column for each n-gram")});
  }
  if (pool.longest > kLongestGram) {
    return n.unsupported("long n-grams", {.attribute = "max_gram_length",
                                          .found = absl::StrCat(pool.longest),
                                          .accepted = absl::StrCat("up to ", kLongestGram)});
  }
  if (pool.skips > kMaxSkips) {
    return n.unsupported("too many skipped elements", {.attribute = "max_skip_count",
                                                       .found = absl::StrCat(pool.skips),
                                                       .accepted = absl::StrCat("up to ", kMaxSkips)});
  }
  // The pool lists n-grams of length 1, then 2, and so on; starts gives where each length begins.
  size_t gram = 0;
  for (size_t k = 0; k < starts.size(); ++k) {
    const int64_t begin = starts[k];
    const auto end = k + 1 < starts.size() ? starts[k + 1] : static_cast<int64_t>(tokens.size());
    const auto length = static_cast<int64_t>(k) + 1;
    const bool fits = begin >= 0 && begin <= end && end <= static_cast<int64_t>(tokens.size()) &&
                      (end - begin) % length == 0 && gram + (end - begin) / length <= columns.size();
    if (!fits) {
      return n.invalid("the pool does not split into n-grams",
                       {.attribute = "ngram_counts", .found = shapeText(starts), .accepted = "ascending offsets"});
    }
    pool.grams.emplace_back(tokens.begin() + begin, tokens.begin() + end);
    const size_t count = (end - begin) / length;
    pool.columns.emplace_back(columns.begin() + gram, columns.begin() + gram + count);
    gram += count;
  }
  for (int64_t column : columns) {
    if (column < 0 || column >= limits::kTensorElements) {
      return n.invalid("a column is out of range",
                       {.attribute = "ngram_indexes", .found = absl::StrCat(column), .accepted = "0 or more"});
    }
    // The result has a column for each number up to the greatest.
    pool.width = std::max(pool.width, column + 1);
  }
  if (weights.empty()) return pool;
  if (weights.size() != columns.size()) {
    return n.invalid(
        "not a weight for each n-gram",
        {.attribute = "weights", .found = absl::StrCat(weights.size()), .accepted = absl::StrCat(columns.size())});
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult({pool.width}, v1::DATA_TYPE_F64));
  pool.weights.assign(pool.width, 1);
  for (size_t i = 0; i < columns.size(); ++i) pool.weights[columns[i]] = weights[i];
  return pool;
}

/// Adds to counts [rows, width] the occurrences of the n-grams of one length: elements `skip` + 1 apart, for each
/// allowed skip.
Value countGrams(Emitter& e, const Pool& pool, int64_t length, const Tensor& rows, Value counts) {
  const int64_t grams = static_cast<int64_t>(pool.columns[length - 1].size()), extent = rows.shape[1];
  const Value source = e.value(rows);
  const Value wanted = e.value(Emitter::wrap(reshaped(integerConstant(pool.grams[length - 1]), {grams, length})));
  const Value columns = e.value(Emitter::wrap(integerConstant(pool.columns[length - 1])));
  const int64_t skips = length == 1 ? 0 : pool.skips;  // a single element has no gaps
  for (int64_t step = 1; step <= skips + 1; ++step) {
    // The last position at which such an n-gram can start.
    const int64_t starts = extent - step * (length - 1);
    if (starts <= 0) break;
    auto count = [&](OpBuilder& b, mlir::Location loc, ValueRange point, ValueRange now) -> llvm::SmallVector<Value> {
      const Scalars s(b, loc, rows.dtype), wide = s.as(kI64), real = s.as(kF32);
      auto constant = [&](int64_t value) { return arith::ConstantIndexOp::create(b, loc, value).getResult(); };
      // An n-gram occurs if all its tokens are equal.
      Value hit = s.as(v1::DATA_TYPE_BOOL).integer(1);
      for (int64_t k = 0; k < length; ++k) {
        Value at = arith::AddIOp::create(b, loc, point[1], constant(k * step));
        Value token = s.cast(e.extract(s, source, {point[0], at}), kI64);
        Value other = e.extract(wide, wanted, {point[2], constant(k)});
        hit = wide.logicalAnd(hit, wide.compare(Relation::kEqual, token, other));
      }
      Value column = arith::IndexCastOp::create(b, loc, b.getIndexType(), e.extract(wide, columns, {point[2]}));
      // Always adds 0 or 1, because imported operations contain no branches.
      Value more =
          real.add(e.extract(real, now[0], {point[0], column}), real.select(hit, real.constant(1), real.constant(0)));
      return {mlir::tensor::InsertOp::create(b, loc, more, now[0], ValueRange{point[0], column})};
    };
    counts = serialLoops(e, {rows.shape[0], starts, grams}, {counts}, count)[0];
  }
  return counts;
}

Results lowerTfIdfVectorizer(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 1, 2));
  TESSERA_ASSIGN_OR_RETURN(const Pool pool, readPool(n));
  const Tensor& x = n.in(0);
  const int64_t extent = x.shape.back();
  const Tensor rows = e.reshape(x, {x.rank() == 2 ? x.shape[0] : 1, extent});
  Shape shape(x.shape.begin(), x.shape.end() - 1);
  shape.push_back(pool.width);
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, kF32));
  if (elementCount(shape) == 0) return {{Emitter::wrap(makeConstant(kF32, shape, ""))}};
  Value counts = e.zeros(kF32, {rows.shape[0], pool.width}).value;
  for (int64_t length = pool.shortest; length <= pool.longest && extent > 0; ++length) {
    if (!pool.columns[length - 1].empty()) counts = countGrams(e, pool, length, rows, counts);
  }
  Tensor result = Emitter::wrap(counts, kF32);
  if (pool.mode != "TF") {
    const std::vector<double> ones(pool.width, 1);
    const Tensor weights = Emitter::wrap(realConstant(kF32, {pool.width}, pool.weights.empty() ? ones : pool.weights));
    const bool frequency = pool.mode == "TFIDF";
    result = e.elementwise(kF32, {result, weights}, [&](const Scalars& s, ValueRange v) {
      if (frequency) return s.mul(v[0], v[1]);
      // IDF asks only whether the n-gram occurs.
      return s.select(s.compare(Relation::kGreater, v[0], s.constant(0)), v[1], s.constant(0));
    });
  }
  return {{e.reshape(result, shape)}};
}

}  // namespace

std::vector<Operator> textOperators() { return {{"TfIdfVectorizer", 9, 1, 1, lowerTfIdfVectorizer, kSigned}}; }

}  // namespace tessera::compiler
