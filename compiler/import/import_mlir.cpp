// Imports MLIR text: parses, checks, lowers tosa, and makes large constants weights.
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/element_type.h"
#include "compiler/import/import.h"
#include "compiler/import/limits.h"
#include "compiler/import/model_error.h"
#include "compiler/ir/weight_attribute.h"
#include "mlir/Conversion/TosaToArith/TosaToArith.h"
#include "mlir/Conversion/TosaToLinalg/TosaToLinalg.h"
#include "mlir/Conversion/TosaToTensor/TosaToTensor.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

constexpr std::string_view kDialects[] = {"builtin", "func", "linalg", "tensor", "arith", "math", "affine", "scf"};

// Captures the first error that MLIR reports, with its place in the text.
class FirstError {
 public:
  explicit FirstError(mlir::MLIRContext& context)
      : handler_(&context, [this](mlir::Diagnostic& diagnostic) {
          // Later errors often follow from the first one.
          if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error || !text_.empty()) return;
          if (auto at = llvm::dyn_cast<mlir::FileLineColLoc>(diagnostic.getLocation())) {
            text_ = absl::StrCat("line ", at.getLine(), ", column ", at.getColumn(), ": ");
          }
          text_ += diagnostic.str();
        }) {}
  absl::Status status(const std::string& what) const {
    return fault(
        v1::Failure::INVALID_MODEL, absl::StrCat(what, ": ", text_),
        {.accepted = "one function on tensors of static shape in the linalg, tensor, arith, math and tosa dialects"});
  }

 private:
  std::string text_;
  mlir::ScopedDiagnosticHandler handler_;
};

v1::DataType dtypeOf(mlir::Type type) {
  if (type.isF32()) return v1::DATA_TYPE_F32;
  if (type.isF64()) return v1::DATA_TYPE_F64;
  if (type.isF16()) return v1::DATA_TYPE_F16;
  if (type.isBF16()) return v1::DATA_TYPE_BF16;
  // MLIR's integers without a sign are read as signed.
  if (type.isInteger(8)) return type.isUnsignedInteger() ? v1::DATA_TYPE_U8 : v1::DATA_TYPE_I8;
  if (type.isInteger(16)) return v1::DATA_TYPE_I16;
  if (type.isInteger(32)) return v1::DATA_TYPE_I32;
  if (type.isInteger(64)) return v1::DATA_TYPE_I64;
  return v1::DATA_TYPE_UNSPECIFIED;
}

std::string printed(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

absl::StatusOr<v1::TensorSpec> specOf(mlir::Type type, const std::string& name) {
  v1::TensorSpec spec;
  spec.set_name(name);
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  if (tensor) spec.set_dtype(dtypeOf(tensor.getElementType()));
  if (!tensor || !tensor.hasStaticShape() || spec.dtype() == v1::DATA_TYPE_UNSPECIFIED) {
    return fault(v1::Failure::INVALID_MODEL, absl::StrCat("'", name, "' has a type that no input or output can have"),
                 {.attribute = name,
                  .found = printed(type),
                  .accepted = "tensors of static shape of f16, bf16, f32, f64, i8, i16, i32 or i64"});
  }
  const Shape shape(tensor.getShape().begin(), tensor.getShape().end());
  TESSERA_RETURN_IF_ERROR(checkShape(shape, spec.dtype(), name));
  for (int64_t extent : shape) spec.add_shape(extent);
  return spec;
}

template <typename Attribute>
std::string nameOr(Attribute attribute, const std::string& otherwise) {
  return attribute ? attribute.getValue().str() : otherwise;
}

// Returns the module's only function, renamed to main and the only public symbol.
absl::StatusOr<mlir::func::FuncOp> soleFunction(mlir::ModuleOp module) {
  auto functions = llvm::to_vector(module.getOps<mlir::func::FuncOp>());
  if (functions.size() != 1 || functions[0].isExternal()) {
    return fault(v1::Failure::INVALID_MODEL, "the module must hold one function with a body",
                 {.found = absl::StrCat(functions.size(), " functions"), .accepted = "one"});
  }
  // The rest of the compiler expects this name.
  functions[0].setSymName("main");
  functions[0].setPublic();
  return functions[0];
}

absl::Status checkOperations(mlir::func::FuncOp main) {
  absl::Status status;
  int64_t count = 0;
  // Also walks through bodies, where other dialects could hide.
  main.walk([&](mlir::Operation* op) {
    const std::string dialect = op->getName().getDialectNamespace().str();
    const bool known = llvm::is_contained(kDialects, dialect);
    if (++count > limits::kNodes) {
      status = fault(v1::Failure::LIMIT_EXCEEDED, absl::StrCat("more than ", limits::kNodes, " operations"));
    } else if (!known) {
      status = fault(
          v1::Failure::UNSUPPORTED_OPERATOR,
          absl::StrCat("the operation '", op->getName().getStringRef().str(), "' is not supported"),
          {.found = dialect, .accepted = absl::StrJoin(kDialects, ", ", [](std::string* out, std::string_view name) {
                               out->append(name);
                             })});
    }
    for (mlir::Type type : op->getResultTypes()) {
      auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
      if (status.ok() && tensor && !tensor.hasStaticShape()) {
        status = fault(v1::Failure::UNBOUND_DIMENSION,
                       absl::StrCat("'", op->getName().getStringRef().str(), "' has a result of dynamic shape"),
                       {.found = printed(type), .accepted = "static shapes"});
      }
    }
    return status.ok() ? mlir::WalkResult::advance() : mlir::WalkResult::interrupt();
  });
  return status;
}

// Turns constants that are too large for code into weight arguments.
void hoistConstants(mlir::func::FuncOp main, ImportedModel& model) {
  llvm::SmallVector<mlir::arith::ConstantOp> large;
  main.walk([&](mlir::arith::ConstantOp constant) {
    auto dense = llvm::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
    // A splat is small as code, whatever its shape.
    if (dense && !dense.isSplat() && dense.getRawData().size() > static_cast<size_t>(limits::kInlineConstantBytes) &&
        dtypeOf(dense.getElementType()) != v1::DATA_TYPE_UNSPECIFIED) {
      large.push_back(constant);
    }
  });
  mlir::OpBuilder builder(main.getContext());
  for (mlir::arith::ConstantOp constant : large) {
    auto dense = llvm::cast<mlir::DenseElementsAttr>(constant.getValue());
    Weight& weight = model.weights.emplace_back();
    weight.spec.set_dtype(dtypeOf(dense.getElementType()));
    for (int64_t extent : dense.getType().getShape()) weight.spec.add_shape(extent);
    auto owned = std::make_shared<std::string>(dense.getRawData().data(), dense.getRawData().size());
    weight.bytes = *owned;
    weight.owner = owned;
    const auto index = builder.getI64IntegerAttr(static_cast<int64_t>(model.weights.size() - 1));
    const unsigned position = main.getNumArguments();
    (void)main.insertArgument(position, dense.getType(),
                              builder.getDictionaryAttr(builder.getNamedAttr(kWeightAttribute, index)),
                              constant.getLoc());
    constant.getResult().replaceAllUsesWith(main.getArgument(position));
    constant.erase();
  }
}

mlir::LogicalResult lowerTosa(mlir::ModuleOp module) {
  mlir::PassManager passes(module.getContext());
  mlir::TosaToLinalgNamedOptions named;
  mlir::tosa::addTosaToLinalgPasses(passes, mlir::TosaToLinalgOptions(), named, std::nullopt);
  passes.addNestedPass<mlir::func::FuncOp>(mlir::createTosaToArithPass());
  passes.addNestedPass<mlir::func::FuncOp>(mlir::createTosaToTensorPass());
  return passes.run(module);
}

}  // namespace

absl::StatusOr<ImportedModel> importMlir(mlir::MLIRContext& context, const std::string& path,
                                         const ImportOptions& options) {
  mlir::DialectRegistry registry;
  registry
      .insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::math::MathDialect,
              mlir::scf::SCFDialect, mlir::tensor::TensorDialect, mlir::tosa::TosaDialect>();
  context.appendDialectRegistry(registry);
  // All dialects are loaded before parsing, which loads none.
  context.loadAllAvailableDialects();
  if (!options.input_shapes.empty() || !options.dimensions.empty()) {
    return fault(v1::Failure::INVALID_INPUT, "MLIR text has static shapes: there is nothing to bind",
                 {.attribute = options.dimensions.empty() ? "input_shapes" : options.dimensions.begin()->first,
                  .remedy = "leave --shape and --dim out"});
  }
  FirstError error(context);
  ImportedModel model;
  model.module = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  if (!model.module) return error.status("the text does not parse");
  TESSERA_ASSIGN_OR_RETURN(mlir::func::FuncOp main, soleFunction(*model.module));
  if (main.getNumResults() == 0) {
    return fault(v1::Failure::INVALID_MODEL, "the function has no result", {.accepted = "at least one tensor"});
  }
  bool tosa = false;
  main.walk([&](mlir::Operation* op) {
    tosa |= llvm::isa<mlir::tosa::TosaDialect>(op->getDialect());
    ++model.nodes;
  });
  // Lowers TOSA first, so that one check covers every text.
  if (tosa && mlir::failed(lowerTosa(*model.module))) return error.status("the tosa operations cannot be lowered");
  TESSERA_RETURN_IF_ERROR(checkOperations(main));
  // Names are optional in MLIR; arguments without one are numbered.
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    const std::string name =
        nameOr(main.getArgAttrOfType<mlir::StringAttr>(i, "tessera.input"), absl::StrCat("arg", i));
    TESSERA_ASSIGN_OR_RETURN(v1::TensorSpec spec, specOf(main.getArgumentTypes()[i], name));
    model.inputs.push_back(std::move(spec));
  }
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    const std::string name =
        nameOr(main.getResultAttrOfType<mlir::StringAttr>(i, "tessera.output"), absl::StrCat("result", i));
    TESSERA_ASSIGN_OR_RETURN(v1::TensorSpec spec, specOf(main.getResultTypes()[i], name));
    model.outputs.push_back(std::move(spec));
  }
  // Constants move last: positions of inputs and outputs are known by then.
  hoistConstants(main, model);
  if (mlir::failed(mlir::verify(*model.module))) return error.status("the module is not valid");
  return model;
}

}  // namespace tessera::compiler
