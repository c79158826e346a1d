#include "compiler/graph/testing/model_builder.h"

#include <cstring>
#include <random>

#include "compiler/graph/analysis/element_type.h"
#include "compiler/ir/weight_attribute.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::AffineMap;
using mlir::Location;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;

llvm::SmallVector<int64_t> shapeOf(Value value) {
  return llvm::SmallVector<int64_t>(mlir::cast<RankedTensorType>(value.getType()).getShape());
}

Value constantOf(OpBuilder& b, Location at, float value) {
  return arith::ConstantOp::create(b, at, b.getF32FloatAttr(value));
}

}  // namespace

ModelBuilder::ModelBuilder(mlir::MLIRContext& context) : b_(&context), loc_(mlir::UnknownLoc::get(&context)) {
  context.loadDialect<mlir::func::FuncDialect, mlir::linalg::LinalgDialect, arith::ArithDialect,
                      mlir::tensor::TensorDialect, mlir::math::MathDialect>();
  model_.module = mlir::ModuleOp::create(b_, loc_);
  b_.setInsertionPointToEnd(model_.module->getBody());
  main_ = mlir::func::FuncOp::create(b_, loc_, "main", b_.getFunctionType({}, {}));
  b_.setInsertionPointToStart(main_.addEntryBlock());
}

Value ModelBuilder::input(llvm::ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, b_.getF32Type());
  const unsigned position = main_.getNumArguments();
  (void)main_.insertArgument(position, type, b_.getDictionaryAttr({}), loc_);
  model_.inputs.push_back(specOf("x" + std::to_string(model_.inputs.size()), type));
  main_.setArgAttr(position, "tessera.input", b_.getStringAttr(model_.inputs.back().name()));
  return main_.getArgument(position);
}

Value ModelBuilder::weight(llvm::ArrayRef<int64_t> shape, float lowest) {
  auto type = RankedTensorType::get(shape, b_.getF32Type());
  std::mt19937_64 random(seed_++);
  auto bytes = std::make_shared<std::string>(type.getNumElements() * 4, '\0');
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    const float unit = static_cast<float>(random() % 100'000) / 100'000;
    const float value = lowest > 0 ? lowest + unit : 2 * unit - 1;
    std::memcpy(bytes->data() + i * 4, &value, 4);
  }
  const unsigned position = main_.getNumArguments();
  (void)main_.insertArgument(position, type, b_.getDictionaryAttr({}), loc_);
  const auto index = static_cast<int64_t>(model_.weights.size());
  main_.setArgAttr(position, kWeightAttribute, b_.getI64IntegerAttr(index));
  model_.weights.push_back({specOf("w" + std::to_string(index), type), *bytes, bytes});
  return main_.getArgument(position);
}

Value ModelBuilder::filled(llvm::ArrayRef<int64_t> shape, float value) {
  Value empty = mlir::tensor::EmptyOp::create(b_, loc_, shape, b_.getF32Type());
  return mlir::linalg::FillOp::create(b_, loc_, constantOf(b_, loc_, value), empty).getResult(0);
}

/// The first operand has the result's shape.
Value ModelBuilder::elementwise(llvm::ArrayRef<Value> operands, llvm::ArrayRef<AffineMap> maps, Body body) {
  llvm::SmallVector<int64_t> shape = shapeOf(operands[0]);
  Value empty = mlir::tensor::EmptyOp::create(b_, loc_, shape, b_.getF32Type());
  llvm::SmallVector<AffineMap> all(maps);
  all.push_back(b_.getMultiDimIdentityMap(shape.size()));
  llvm::SmallVector<IteratorType> loops(shape.size(), IteratorType::parallel);
  return mlir::linalg::GenericOp::create(b_, loc_, mlir::TypeRange{empty.getType()}, ValueRange(operands),
                                         ValueRange{empty}, all, loops,
                                         [&](OpBuilder& b, Location at, ValueRange arguments) {
                                           Value result = body(b, at, arguments);
                                           mlir::linalg::YieldOp::create(b, at, result);
                                         })
      .getResult(0);
}

Value ModelBuilder::channelwise(Value x, Value vector, int64_t dim, Body body) {
  const auto rank = static_cast<unsigned>(shapeOf(x).size());
  AffineMap channel = AffineMap::get(rank, 0, b_.getAffineDimExpr(dim));
  return elementwise({x, vector}, {b_.getMultiDimIdentityMap(rank), channel}, body);
}

Value ModelBuilder::addChannel(Value x, Value vector, int64_t dim) {
  return channelwise(x, vector, dim, [](OpBuilder& b, Location at, ValueRange v) -> Value {
    return arith::AddFOp::create(b, at, v[0], v[1]);
  });
}
Value ModelBuilder::mulChannel(Value x, Value vector, int64_t dim) {
  return channelwise(x, vector, dim, [](OpBuilder& b, Location at, ValueRange v) -> Value {
    return arith::MulFOp::create(b, at, v[0], v[1]);
  });
}
Value ModelBuilder::subChannel(Value x, Value vector, int64_t dim) {
  return channelwise(x, vector, dim, [](OpBuilder& b, Location at, ValueRange v) -> Value {
    return arith::SubFOp::create(b, at, v[0], v[1]);
  });
}

Value ModelBuilder::batchNorm(Value x) {
  const int64_t channels = shapeOf(x)[1];
  Value variance = weight({channels}, 0.5F);
  Value scale =
      elementwise({weight({channels}), variance}, {b_.getMultiDimIdentityMap(1), b_.getMultiDimIdentityMap(1)},
                  [](OpBuilder& b, Location at, ValueRange v) -> Value {
                    Value sum = arith::AddFOp::create(b, at, v[1], constantOf(b, at, 1e-5F));
                    Value root = mlir::math::SqrtOp::create(b, at, sum);
                    return arith::DivFOp::create(b, at, v[0], root);
                  });
  return addChannel(mulChannel(subChannel(x, weight({channels})), scale), weight({channels}));
}

Value ModelBuilder::relu(Value x) {
  return elementwise({x}, {b_.getMultiDimIdentityMap(shapeOf(x).size())},
                     [](OpBuilder& b, Location at, ValueRange v) -> Value {
                       return arith::MaximumFOp::create(b, at, v[0], constantOf(b, at, 0));
                     });
}

Value ModelBuilder::sigmoid(Value x) {
  return elementwise({x}, {b_.getMultiDimIdentityMap(shapeOf(x).size())},
                     [](OpBuilder& b, Location at, ValueRange v) -> Value {
                       Value negative = arith::NegFOp::create(b, at, v[0]);
                       Value power = mlir::math::ExpOp::create(b, at, negative);
                       Value one = constantOf(b, at, 1);
                       return arith::DivFOp::create(b, at, one, arith::AddFOp::create(b, at, power, one));
                     });
}

Value ModelBuilder::add(Value x, Value y) {
  AffineMap identity = b_.getMultiDimIdentityMap(shapeOf(x).size());
  return elementwise({x, y}, {identity, identity}, [](OpBuilder& b, Location at, ValueRange v) -> Value {
    return arith::AddFOp::create(b, at, v[0], v[1]);
  });
}

Value ModelBuilder::pad(Value x, int64_t amount, float with) {
  if (amount == 0) return x;
  llvm::SmallVector<int64_t> shape = shapeOf(x);
  llvm::SmallVector<mlir::OpFoldResult> low(shape.size(), b_.getIndexAttr(0));
  for (size_t d = 2; d < shape.size(); ++d) {
    low[d] = b_.getIndexAttr(amount);
    shape[d] += 2 * amount;
  }
  return mlir::tensor::PadOp::create(b_, loc_, RankedTensorType::get(shape, b_.getF32Type()), x, low, low,
                                     constantOf(b_, loc_, with));
}

Value ModelBuilder::convWith(Value x, Value filter, Window w) {
  Value padded = pad(x, w.pad);
  llvm::SmallVector<int64_t> in = shapeOf(padded);
  auto extent = [&](int64_t size) { return (size - (w.kernel - 1) * w.dilation - 1) / w.stride + 1; };
  auto pair = RankedTensorType::get({2}, b_.getI64Type());
  auto strides = mlir::DenseIntElementsAttr::get(pair, {w.stride, w.stride});
  auto dilations = mlir::DenseIntElementsAttr::get(pair, {w.dilation, w.dilation});
  Value init = filled({in[0], shapeOf(filter)[0], extent(in[2]), extent(in[3])}, 0);
  return mlir::linalg::Conv2DNchwFchwOp::create(b_, loc_, mlir::TypeRange{init.getType()}, ValueRange{padded, filter},
                                                ValueRange{init}, strides, dilations)
      .getResult(0);
}

Value ModelBuilder::conv(Value x, int64_t outputs, Window w) {
  if (w.groups == 1) return convWith(x, weight({outputs, shapeOf(x)[1], w.kernel, w.kernel}), w);
  Value padded = pad(x, w.pad);
  llvm::SmallVector<int64_t> in = shapeOf(padded);
  auto extent = [&](int64_t size) { return (size - (w.kernel - 1) * w.dilation - 1) / w.stride + 1; };
  const int64_t g = w.groups, c = in[1] / g, f = outputs / g, oh = extent(in[2]), ow = extent(in[3]);
  // n, g, f, oh, ow, c, kh, kw
  auto d = [&](unsigned position) { return b_.getAffineDimExpr(position); };
  auto map = [&](llvm::ArrayRef<mlir::AffineExpr> results) { return AffineMap::get(8, 0, results, b_.getContext()); };
  Value input = reshape(padded, {in[0], g, c, in[2], in[3]});
  Value filter = reshape(weight({outputs, c, w.kernel, w.kernel}), {g, f, c, w.kernel, w.kernel});
  Value init = filled({in[0], g, f, oh, ow}, 0);
  llvm::SmallVector<IteratorType> loops(8, IteratorType::parallel);
  loops[5] = loops[6] = loops[7] = IteratorType::reduction;
  llvm::SmallVector<AffineMap> maps = {
      map({d(0), d(1), d(5), d(3) * w.stride + d(6) * w.dilation, d(4) * w.stride + d(7) * w.dilation}),
      map({d(1), d(2), d(5), d(6), d(7)}), map({d(0), d(1), d(2), d(3), d(4)})};
  Value result = mlir::linalg::GenericOp::create(b_, loc_, mlir::TypeRange{init.getType()}, ValueRange{input, filter},
                                                 ValueRange{init}, maps, loops,
                                                 [](OpBuilder& b, Location at, ValueRange v) {
                                                   Value product = arith::MulFOp::create(b, at, v[0], v[1]);
                                                   Value sum = arith::AddFOp::create(b, at, v[2], product);
                                                   mlir::linalg::YieldOp::create(b, at, sum);
                                                 })
                     .getResult(0);
  return reshape(result, {in[0], outputs, oh, ow});
}

Value ModelBuilder::depthwise(Value x, Window w) {
  Value padded = pad(x, w.pad);
  llvm::SmallVector<int64_t> in = shapeOf(padded);
  auto extent = [&](int64_t size) { return (size - (w.kernel - 1) * w.dilation - 1) / w.stride + 1; };
  auto pair = RankedTensorType::get({2}, b_.getI64Type());
  Value init = filled({in[0], in[1], extent(in[2]), extent(in[3])}, 0);
  Value filter = weight({in[1], w.kernel, w.kernel});
  return mlir::linalg::DepthwiseConv2DNchwChwOp::create(b_, loc_, mlir::TypeRange{init.getType()},
                                                        ValueRange{padded, filter}, ValueRange{init},
                                                        mlir::DenseIntElementsAttr::get(pair, {w.stride, w.stride}),
                                                        mlir::DenseIntElementsAttr::get(pair, {w.dilation, w.dilation}))
      .getResult(0);
}

Value ModelBuilder::maxPool(Value x, Window w) {
  Value padded = pad(x, w.pad, -std::numeric_limits<float>::infinity());
  llvm::SmallVector<int64_t> in = shapeOf(padded);
  auto extent = [&](int64_t size) { return (size - (w.kernel - 1) * w.dilation - 1) / w.stride + 1; };
  auto pair = RankedTensorType::get({2}, b_.getI64Type());
  Value init = filled({in[0], in[1], extent(in[2]), extent(in[3])}, -std::numeric_limits<float>::infinity());
  Value kernel = mlir::tensor::EmptyOp::create(b_, loc_, llvm::ArrayRef<int64_t>{w.kernel, w.kernel}, b_.getF32Type());
  return mlir::linalg::PoolingNchwMaxOp::create(b_, loc_, mlir::TypeRange{init.getType()}, ValueRange{padded, kernel},
                                                ValueRange{init},
                                                mlir::DenseIntElementsAttr::get(pair, {w.stride, w.stride}),
                                                mlir::DenseIntElementsAttr::get(pair, {w.dilation, w.dilation}))
      .getResult(0);
}

Value ModelBuilder::reduceLast(Value x, float start, Body body) {
  llvm::SmallVector<int64_t> shape = shapeOf(x);
  const auto rank = static_cast<unsigned>(shape.size());
  Value init = filled(llvm::ArrayRef<int64_t>(shape).drop_back(), start);
  llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  loops.back() = IteratorType::reduction;
  AffineMap identity = b_.getMultiDimIdentityMap(rank);
  llvm::SmallVector<AffineMap> maps = {identity,
                                       AffineMap::get(rank, 0, identity.getResults().drop_back(), b_.getContext())};
  return mlir::linalg::GenericOp::create(b_, loc_, mlir::TypeRange{init.getType()}, ValueRange{x}, ValueRange{init},
                                         maps, loops,
                                         [&](OpBuilder& b, Location at, ValueRange v) {
                                           Value result = body(b, at, v);
                                           mlir::linalg::YieldOp::create(b, at, result);
                                         })
      .getResult(0);
}

Value ModelBuilder::globalAverage(Value x) {
  llvm::SmallVector<int64_t> shape = shapeOf(x);
  Value init = filled({shape[0], shape[1]}, 0);
  AffineMap identity = b_.getMultiDimIdentityMap(4);
  llvm::SmallVector<AffineMap> maps = {identity,
                                       AffineMap::get(4, 0, identity.getResults().take_front(2), b_.getContext())};
  llvm::SmallVector<IteratorType> loops = {IteratorType::parallel, IteratorType::parallel, IteratorType::reduction,
                                           IteratorType::reduction};
  Value sum = mlir::linalg::GenericOp::create(b_, loc_, mlir::TypeRange{init.getType()}, ValueRange{x},
                                              ValueRange{init}, maps, loops,
                                              [](OpBuilder& b, Location at, ValueRange v) {
                                                Value total = arith::AddFOp::create(b, at, v[0], v[1]);
                                                mlir::linalg::YieldOp::create(b, at, total);
                                              })
                  .getResult(0);
  const auto count = static_cast<float>(shape[2] * shape[3]);
  Value mean =
      elementwise({sum}, {b_.getMultiDimIdentityMap(2)}, [&](OpBuilder& b, Location at, ValueRange v) -> Value {
        return arith::DivFOp::create(b, at, v[0], constantOf(b, at, count));
      });
  return reshape(mean, {shape[0], shape[1], 1, 1});
}

Value ModelBuilder::concat(llvm::ArrayRef<Value> parts, int64_t dim) {
  llvm::SmallVector<int64_t> shape = shapeOf(parts[0]);
  shape[dim] = 0;
  for (Value part : parts) shape[dim] += shapeOf(part)[dim];
  Value result = mlir::tensor::EmptyOp::create(b_, loc_, shape, b_.getF32Type());
  int64_t at = 0;
  for (Value part : parts) {
    llvm::SmallVector<mlir::OpFoldResult> offsets(shape.size(), b_.getIndexAttr(0));
    llvm::SmallVector<mlir::OpFoldResult> sizes;
    llvm::SmallVector<mlir::OpFoldResult> strides(shape.size(), b_.getIndexAttr(1));
    offsets[dim] = b_.getIndexAttr(at);
    for (int64_t extent : shapeOf(part)) sizes.push_back(b_.getIndexAttr(extent));
    at += shapeOf(part)[dim];
    result = mlir::tensor::InsertSliceOp::create(b_, loc_, part, result, offsets, sizes, strides);
  }
  return result;
}

Value ModelBuilder::slice(Value x, int64_t dim, int64_t offset, int64_t size) {
  llvm::SmallVector<mlir::OpFoldResult> offsets(shapeOf(x).size(), b_.getIndexAttr(0)), sizes;
  llvm::SmallVector<mlir::OpFoldResult> strides(shapeOf(x).size(), b_.getIndexAttr(1));
  for (int64_t extent : shapeOf(x)) sizes.push_back(b_.getIndexAttr(extent));
  offsets[dim] = b_.getIndexAttr(offset);
  sizes[dim] = b_.getIndexAttr(size);
  return mlir::tensor::ExtractSliceOp::create(b_, loc_, x, offsets, sizes, strides);
}

Value ModelBuilder::matmul(Value x, Value y, bool transpose_y) {
  Value init = filled({shapeOf(x)[0], shapeOf(y)[transpose_y ? 0 : 1]}, 0);
  auto op =
      mlir::linalg::MatmulOp::create(b_, loc_, mlir::TypeRange{init.getType()}, ValueRange{x, y}, ValueRange{init});
  if (transpose_y) {
    auto d = [&](unsigned position) { return b_.getAffineDimExpr(position); };
    auto map = [&](unsigned row, unsigned column) {
      return AffineMap::get(3, 0, {d(row), d(column)}, b_.getContext());
    };
    op.setIndexingMapsAttr(b_.getAffineMapArrayAttr({map(0, 2), map(1, 2), map(0, 1)}));
  }
  return op.getResult(0);
}

Value ModelBuilder::batchMatmul(Value x, Value y) {
  Value init = filled({shapeOf(x)[0], shapeOf(x)[1], shapeOf(y)[2]}, 0);
  return mlir::linalg::BatchMatmulOp::create(b_, loc_, mlir::TypeRange{init.getType()}, ValueRange{x, y},
                                             ValueRange{init})
      .getResult(0);
}

Value ModelBuilder::reshape(Value x, llvm::ArrayRef<int64_t> shape) {
  auto type = mlir::cast<RankedTensorType>(x.getType());
  auto target = RankedTensorType::get(shape, type.getElementType());
  if (type == target) return x;
  auto groups = mlir::getReassociationIndicesForReshape(type, target);
  if (groups && type.getRank() > target.getRank()) {
    return mlir::tensor::CollapseShapeOp::create(b_, loc_, target, x, *groups);
  }
  if (groups) return mlir::tensor::ExpandShapeOp::create(b_, loc_, target, x, *groups);
  auto flat = RankedTensorType::get({type.getNumElements()}, type.getElementType());
  return reshape(reshape(x, flat.getShape()), shape);
}

Value ModelBuilder::transposed(Value x, llvm::ArrayRef<int64_t> permutation) {
  llvm::SmallVector<int64_t> shape;
  for (int64_t d : permutation) shape.push_back(shapeOf(x)[d]);
  Value empty = mlir::tensor::EmptyOp::create(b_, loc_, shape, b_.getF32Type());
  return mlir::linalg::TransposeOp::create(b_, loc_, x, empty, permutation).getResults()[0];
}

Value ModelBuilder::softmax(Value x) {
  const auto rank = static_cast<unsigned>(shapeOf(x).size());
  AffineMap identity = b_.getMultiDimIdentityMap(rank);
  AffineMap row = AffineMap::get(rank, 0, identity.getResults().drop_back(), b_.getContext());
  Value top = reduceLast(
      x, -std::numeric_limits<float>::infinity(),
      [](OpBuilder& b, Location at, ValueRange v) -> Value { return arith::MaximumFOp::create(b, at, v[0], v[1]); });
  Value difference = elementwise({x, top}, {identity, row}, [](OpBuilder& b, Location at, ValueRange v) -> Value {
    return arith::SubFOp::create(b, at, v[0], v[1]);
  });
  Value power = elementwise({difference}, {identity}, [](OpBuilder& b, Location at, ValueRange v) -> Value {
    return mlir::math::ExpOp::create(b, at, v[0]);
  });
  Value sum = reduceLast(power, 0, [](OpBuilder& b, Location at, ValueRange v) -> Value {
    return arith::AddFOp::create(b, at, v[0], v[1]);
  });
  return elementwise({power, sum}, {identity, row}, [](OpBuilder& b, Location at, ValueRange v) -> Value {
    return arith::DivFOp::create(b, at, v[0], v[1]);
  });
}

Value ModelBuilder::causal(Value x) {
  const auto rank = static_cast<unsigned>(shapeOf(x).size());
  return elementwise({x}, {b_.getMultiDimIdentityMap(rank)}, [&](OpBuilder& b, Location at, ValueRange v) -> Value {
    Value row = mlir::linalg::IndexOp::create(b, at, rank - 2), column = mlir::linalg::IndexOp::create(b, at, rank - 1);
    Value seen = arith::CmpIOp::create(b, at, arith::CmpIPredicate::ule, column, row);
    return arith::SelectOp::create(b, at, seen, v[0], constantOf(b, at, -std::numeric_limits<float>::infinity()));
  });
}

Value ModelBuilder::layerNorm(Value x) {
  const auto rank = static_cast<unsigned>(shapeOf(x).size());
  const auto count = static_cast<float>(shapeOf(x).back());
  AffineMap identity = b_.getMultiDimIdentityMap(rank);
  AffineMap row = AffineMap::get(rank, 0, identity.getResults().drop_back(), b_.getContext());
  auto mean = [&](Value value) {
    Value sum = reduceLast(value, 0, [](OpBuilder& b, Location at, ValueRange v) -> Value {
      return arith::AddFOp::create(b, at, v[0], v[1]);
    });
    return elementwise({sum}, {b_.getMultiDimIdentityMap(rank - 1)},
                       [&](OpBuilder& b, Location at, ValueRange v) -> Value {
                         return arith::DivFOp::create(b, at, v[0], constantOf(b, at, count));
                       });
  };
  Value centred = elementwise({x, mean(x)}, {identity, row}, [](OpBuilder& b, Location at, ValueRange v) -> Value {
    return arith::SubFOp::create(b, at, v[0], v[1]);
  });
  Value square = elementwise(
      {centred, centred}, {identity, identity},
      [](OpBuilder& b, Location at, ValueRange v) -> Value { return arith::MulFOp::create(b, at, v[0], v[1]); });
  Value normal =
      elementwise({centred, mean(square)}, {identity, row}, [](OpBuilder& b, Location at, ValueRange v) -> Value {
        Value sum = arith::AddFOp::create(b, at, v[1], constantOf(b, at, 1e-5F));
        Value root = mlir::math::SqrtOp::create(b, at, sum);
        return arith::DivFOp::create(b, at, v[0], root);
      });
  const int64_t columns = shapeOf(x).back();
  return addChannel(mulChannel(normal, weight({columns}), rank - 1), weight({columns}), rank - 1);
}

ImportedModel ModelBuilder::finish(llvm::ArrayRef<Value> results) {
  mlir::func::ReturnOp::create(b_, loc_, ValueRange(results));
  main_.setType(b_.getFunctionType(main_.getBody().front().getArgumentTypes(), ValueRange(results).getTypes()));
  for (auto [index, value] : llvm::enumerate(results)) {
    model_.outputs.push_back(specOf("y" + std::to_string(index), value.getType()));
  }
  for (mlir::Operation& op : main_.getBody().front()) model_.nodes += mlir::isa<mlir::linalg::LinalgOp>(op);
  return std::move(model_);
}

ImportedModel withFewer(ImportedModel model, int64_t fewest) {
  auto main = mlir::cast<mlir::func::FuncOp>(mlir::SymbolTable::lookupSymbolIn(*model.module, "main"));
  mlir::Block& body = main.getBody().front();
  OpBuilder builder(main.getContext());
  const auto count = RankedTensorType::get({}, builder.getI64Type());
  const int64_t most = mlir::cast<RankedTensorType>(body.getArgument(0).getType()).getDimSize(0);
  body.getTerminator()->insertOperands(body.getTerminator()->getNumOperands(), body.addArgument(count, main.getLoc()));
  main.setType(builder.getFunctionType(body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
  v1::DimensionBinding& dimension = model.dimensions.emplace_back();
  dimension.set_name("N");
  dimension.set_size(-most);
  model.inputs[0].add_bounded_dims(0);
  model.inputs[0].add_bounded_by(0);
  v1::TensorSpec& extent = model.inputs.emplace_back();
  extent.set_name("N");
  extent.set_dtype(v1::DATA_TYPE_I64);
  model.extents.push_back({0, 0});
  model.least["N"] = fewest;
  return model;
}

}  // namespace tessera::compiler
