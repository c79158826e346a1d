#include "compiler/interpreter/structured.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::interpreter {

int64_t evaluate(mlir::AffineExpr expr, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> symbols) {
  if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr)) return dims[dim.getPosition()];
  if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr)) return symbols[symbol.getPosition()];
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) return constant.getValue();
  auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
  const int64_t lhs = evaluate(binary.getLHS(), dims, symbols), rhs = evaluate(binary.getRHS(), dims, symbols);
  // C++ division truncates; affine expressions round down.
  const int64_t floor = rhs == 0 ? 0 : lhs / rhs - (lhs % rhs != 0 && (lhs < 0) != (rhs < 0) ? 1 : 0);
  switch (expr.getKind()) {
    case mlir::AffineExprKind::Add:
      return lhs + rhs;
    case mlir::AffineExprKind::Mul:
      return lhs * rhs;
    case mlir::AffineExprKind::FloorDiv:
      return floor;
    case mlir::AffineExprKind::CeilDiv:
      return floor + (floor * rhs != lhs ? 1 : 0);
    default:
      return lhs - floor * rhs;
  }
}

namespace {

/// Access of an array: linear in the loops, or by evaluating its map at every point.
struct Access {
  const Array* array = nullptr;
  mlir::AffineMap map;
  bool linear = true;
  int64_t base = 0;
  Extents strides;  // of the storage, per loop

  int64_t position(llvm::ArrayRef<int64_t> point) const {
    int64_t result = base;
    if (linear) {
      for (size_t l = 0; l < point.size(); ++l) result += strides[l] * point[l];
      return result;
    }
    result = array->offset;
    for (unsigned d = 0; d < map.getNumResults(); ++d) {
      const int64_t index = evaluate(map.getResult(d), point);
      if (index < 0 || index >= array->shape[d]) return -1;
      result += index * array->strides[d];
    }
    return result;
  }
};

bool isLinear(mlir::AffineExpr expr) {
  bool linear = true;
  expr.walk([&](mlir::AffineExpr each) {
    const mlir::AffineExprKind kind = each.getKind();
    linear &= kind != mlir::AffineExprKind::FloorDiv && kind != mlir::AffineExprKind::CeilDiv &&
              kind != mlir::AffineExprKind::Mod;
  });
  return linear;
}

absl::StatusOr<Access> accessOf(const Array& array, mlir::AffineMap map, llvm::ArrayRef<int64_t> extents) {
  Access access{&array, map, llvm::all_of(map.getResults(), isLinear), array.offset, Extents(extents.size(), 0)};
  if (!access.linear) return access;
  Extents point(extents.size(), 0);
  for (unsigned d = 0; d < map.getNumResults(); ++d) {
    const int64_t first = evaluate(map.getResult(d), point);
    int64_t least = first, greatest = first;
    access.base += first * array.strides[d];
    for (size_t l = 0; l < extents.size(); ++l) {
      point[l] = 1;
      // A linear expression is determined by its value at the origin and at each unit point.
      const int64_t step = evaluate(map.getResult(d), point) - first;
      point[l] = 0;
      access.strides[l] += step * array.strides[d];
      // The extremes of a linear function are at corners, so one check covers all points.
      (step < 0 ? least : greatest) += step * (extents[l] - 1);
    }
    if (least < 0 || greatest >= array.shape[d]) {
      return absl::OutOfRangeError(
          absl::StrCat("dimension ", d, " of ", array.shape[d], " elements is walked from ", least, " to ", greatest));
    }
  }
  return access;
}

class Walk {
 public:
  Walk(mlir::linalg::LinalgOp op, Extents extents) : op_(op), extents_(std::move(extents)) {}

  absl::Status run(std::vector<Operand>& inputs, std::vector<Array>& outputs, const Surroundings& surroundings,
                   int64_t& budget);

 private:
  void orderLoops();
  absl::Status chunk(int64_t first, int count, bool last);
  absl::Status load(const Access& access, Lanes& lanes, int64_t first, int count);
  absl::Status store(const Access& access, unsigned result, int64_t first, int count, bool last);

  mlir::linalg::LinalgOp op_;
  Extents extents_;
  Extents point_;
  llvm::SmallVector<int> order_;  // loops outside of the lanes, outermost first
  int lane_loop_ = -1;
  size_t reductions_from_ = 0;  // in order_
  std::optional<Body> body_;
  std::vector<std::optional<Access>> reads_;  // of the block's arguments; none for scalars
  std::vector<Access> writes_;
};

void Walk::orderLoops() {
  const auto kinds = op_.getIteratorTypesArray();
  for (size_t l = 0; l < extents_.size(); ++l) {
    if (kinds[l] != mlir::utils::IteratorType::parallel) continue;
    // Different lanes must not write the same result.
    const bool apart =
        llvm::all_of(writes_, [&](const Access& access) { return access.linear && access.strides[l] != 0; });
    // The longest parallel loop fills the lanes best.
    if (apart && extents_[l] > 1 && (lane_loop_ < 0 || extents_[l] >= extents_[lane_loop_]))
      lane_loop_ = static_cast<int>(l);
  }
  for (const bool parallel : {true, false}) {
    if (!parallel) reductions_from_ = order_.size();
    for (size_t l = 0; l < extents_.size(); ++l) {
      if (static_cast<int>(l) == lane_loop_) continue;
      if ((kinds[l] == mlir::utils::IteratorType::parallel) == parallel) order_.push_back(static_cast<int>(l));
    }
  }
}

absl::Status Walk::load(const Access& access, Lanes& lanes, int64_t first, int count) {
  const Storage& storage = *access.array->storage;
  const bool real = storage.element.isReal();
  // Positions of div and mod expressions are evaluated for each lane.
  if (!access.linear) {
    for (int i = 0; i < count; ++i) {
      if (lane_loop_ >= 0) point_[lane_loop_] = first + i;
      const int64_t position = access.position(point_);
      if (position < 0) return absl::OutOfRangeError("an access leaves its array");
      lanes.set(i, access.array->at(position));
    }
    return absl::OkStatus();
  }
  if (lane_loop_ >= 0) point_[lane_loop_] = first;
  const int64_t start = access.position(point_);
  const int64_t step = lane_loop_ >= 0 ? access.strides[lane_loop_] : 0;
  const double* error = storage.error.data() + start;
  if (real) {
    const double* from = storage.real.data() + start;
    for (int i = 0; i < count; ++i) lanes.real[i] = from[i * step];
  } else {
    const int64_t* from = storage.integer.data() + start;
    for (int i = 0; i < count; ++i) lanes.integer[i] = from[i * step];
  }
  for (int i = 0; i < count; ++i) lanes.error[i] = error[i * step];
  return absl::OkStatus();
}

absl::Status Walk::store(const Access& access, unsigned result, int64_t first, int count, bool last) {
  Storage& storage = *access.array->storage;
  const Lanes& lanes = body_->yielded(result);
  // Sums stay in double precision until their last step.
  const bool round = last && storage.element.isReal() && body_->isSum(result);
  if (lane_loop_ >= 0) point_[lane_loop_] = first;
  const int64_t start = access.position(point_);
  if (start < 0) return absl::OutOfRangeError("an access leaves its array");
  // Lanes are used only if every result is linear in their loop.
  const int64_t step = lane_loop_ >= 0 ? access.strides[lane_loop_] : 0;
  double* error = storage.error.data() + start;
  if (round) {
    for (int i = 0; i < count; ++i) {
      const Scalar value = rounded(storage.element, lanes.get(i));
      storage.real[start + i * step] = value.real;
      error[i * step] = value.error;
    }
    return absl::OkStatus();
  }
  if (storage.element.isReal()) {
    double* to = storage.real.data() + start;
    for (int i = 0; i < count; ++i) to[i * step] = lanes.real[i];
  } else {
    int64_t* to = storage.integer.data() + start;
    for (int i = 0; i < count; ++i) to[i * step] = lanes.integer[i];
  }
  for (int i = 0; i < count; ++i) error[i * step] = lanes.error[i];
  return absl::OkStatus();
}

absl::Status Walk::chunk(int64_t first, int count, bool last) {
  for (size_t a = 0; a < reads_.size(); ++a) {
    if (!reads_[a]) continue;
    TESSERA_RETURN_IF_ERROR(load(*reads_[a], body_->argument(static_cast<unsigned>(a)), first, count));
  }
  if (lane_loop_ >= 0) point_[lane_loop_] = first;
  llvm::SmallVector<std::pair<int64_t, int64_t>> loops;
  for (size_t l = 0; l < point_.size(); ++l) loops.emplace_back(point_[l], static_cast<int>(l) == lane_loop_ ? 1 : 0);
  TESSERA_RETURN_IF_ERROR(body_->run(loops, count));
  for (size_t o = 0; o < writes_.size(); ++o) {
    if (absl::Status status = store(writes_[o], static_cast<unsigned>(o), first, count, last); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

absl::Status Walk::run(std::vector<Operand>& inputs, std::vector<Array>& outputs, const Surroundings& surroundings,
                       int64_t& budget) {
  mlir::Block& block = *op_.getBlock();
  const auto maps = op_.getIndexingMapsArray();
  llvm::SmallVector<mlir::BlockArgument> results;
  for (size_t o = 0; o < outputs.size(); ++o) results.push_back(block.getArgument(inputs.size() + o));
  TESSERA_ASSIGN_OR_RETURN(body_, Body::translate(block, results, surroundings));
  int64_t points = 1;
  for (int64_t extent : extents_) points *= extent;
  budget -= points * body_->operations();
  if (budget < 0) return absl::ResourceExhaustedError("too many operations");
  if (points == 0) return absl::OkStatus();

  for (size_t i = 0; i < inputs.size() + outputs.size(); ++i) {
    if (i < inputs.size() && inputs[i].is_scalar) {
      reads_.emplace_back();
      Lanes& lanes = body_->argument(static_cast<unsigned>(i));
      for (int lane = 0; lane < Lanes::kLanes; ++lane) lanes.set(lane, inputs[i].scalar);
      continue;
    }
    const Array& array = i < inputs.size() ? inputs[i].array : outputs[i - inputs.size()];
    TESSERA_ASSIGN_OR_RETURN(Access access, accessOf(array, maps[i], extents_));
    if (i >= inputs.size()) writes_.push_back(access);
    reads_.emplace_back();
    // Outputs that the body does not read are not loaded: they may be uninitialized.
    if (!block.getArgument(static_cast<unsigned>(i)).use_empty()) reads_.back() = access;
  }
  orderLoops();
  point_.assign(extents_.size(), 0);
  const int64_t lanes = lane_loop_ < 0 ? 1 : extents_[lane_loop_];
  while (true) {
    bool last = true;
    for (size_t k = reductions_from_; k < order_.size(); ++k) last &= point_[order_[k]] + 1 == extents_[order_[k]];
    for (int64_t first = 0; first < lanes; first += Lanes::kLanes) {
      const int count = static_cast<int>(std::min<int64_t>(Lanes::kLanes, lanes - first));
      TESSERA_RETURN_IF_ERROR(chunk(first, count, last));
    }
    int64_t k = static_cast<int64_t>(order_.size()) - 1;
    // Counts like an odometer: reductions are the last digits, so each result is completed before the next one begins.
    for (; k >= 0 && ++point_[order_[k]] == extents_[order_[k]]; --k) point_[order_[k]] = 0;
    if (k < 0) return absl::OkStatus();
  }
}

}  // namespace

absl::Status runStructured(mlir::linalg::LinalgOp op, std::vector<Operand>& inputs, std::vector<Array>& outputs,
                           const Surroundings& surroundings, int64_t& budget) {
  const auto ranges = op.getStaticLoopRanges();
  for (Array& output : outputs) output.storage->hash = 0;
  return Walk(op, Extents(ranges.begin(), ranges.end())).run(inputs, outputs, surroundings, budget);
}

}  // namespace tessera::compiler::interpreter
