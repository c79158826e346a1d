// Imports a text of tensor expressions: inputs become arguments, each statement becomes one linalg.generic.
#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/expression/lower.h"
#include "compiler/import/import.h"
#include "compiler/import/model_error.h"
#include "compiler/import/symbolic_dimensions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::expression {
namespace {

class ProgramImport {
 public:
  ProgramImport(mlir::MLIRContext& context, const ImportOptions& options) : context_(context), options_(options) {}

  absl::StatusOr<ImportedModel> run(const Program& program) {
    for (const Param& param : program.params) {
      TESSERA_ASSIGN_OR_RETURN(const int64_t value, evaluate(*param.value, constants_));
      if (!constants_.emplace(param.name, value).second) {
        return errorAt(param.value->at, "this param is defined twice", param.name);
      }
    }
    TESSERA_RETURN_IF_ERROR(declareInputs(program));
    const mlir::Location loc = mlir::UnknownLoc::get(&context_);
    imported_.module = mlir::ModuleOp::create(loc);
    mlir::OpBuilder builder(imported_.module->getBodyRegion());
    llvm::SmallVector<mlir::Type> types;
    for (const v1::TensorSpec& spec : imported_.inputs) {
      const Shape shape(spec.shape().begin(), spec.shape().end());
      types.push_back(mlir::RankedTensorType::get(shape, mlirType(&context_, spec.dtype())));
    }
    auto main = mlir::func::FuncOp::create(builder, loc, "main", builder.getFunctionType(types, {}));
    builder.setInsertionPointToStart(main.addEntryBlock());
    for (size_t i = 0; i < imported_.inputs.size(); ++i) {
      main.setArgAttr(static_cast<unsigned>(i), "tessera.input", builder.getStringAttr(imported_.inputs[i].name()));
      tensors_.emplace(imported_.inputs[i].name(),
                       Emitter::wrap(main.getArgument(static_cast<unsigned>(i)), imported_.inputs[i].dtype()));
    }
    for (const Statement& statement : program.statements) TESSERA_RETURN_IF_ERROR(lower(builder, statement));
    return finish(program, builder, main);
  }

 private:
  // Binds names that are extents and no params, by --dim.
  absl::Status bindDimensions(const Program& program) {
    for (const Input& input : program.inputs) {
      for (const NodePtr& extent : input.shape) {
        if (extent->kind != Kind::kName || constants_.contains(extent->name)) continue;
        if (std::find(symbolic_.begin(), symbolic_.end(), extent->name) == symbolic_.end()) {
          symbolic_.push_back(extent->name);
        }
      }
    }
    TESSERA_RETURN_IF_ERROR(checkDimensionNames(options_.dimensions, symbolic_));
    constants_.insert(options_.dimensions.begin(), options_.dimensions.end());
    return absl::OkStatus();
  }

  // Returns an example shape for the input; 4 for unknown extents.
  std::string exampleShape(const Input& input) const {
    return absl::StrJoin(input.shape, "x", [this](std::string* out, const NodePtr& extent) {
      const auto value = evaluate(*extent, constants_);
      absl::StrAppend(out, value.ok() ? *value : 4);
    });
  }

  // Declares inputs. Extents are integers, params, or names with a value from --dim or --shape.
  absl::Status declareInputs(const Program& program) {
    TESSERA_RETURN_IF_ERROR(bindDimensions(program));
    for (const Input& input : program.inputs) {
      if (shapes_.contains(input.name)) return errorAt(input.at, "this input is declared twice", input.name);
      const auto given = options_.input_shapes.find(input.name);
      if (given != options_.input_shapes.end() && given->second.size() != input.shape.size()) {
        return fault(v1::Failure::INVALID_INPUT,
                     absl::StrCat("the shape given for input '", input.name, "' has ", given->second.size(),
                                  " dimensions, the input has ", input.shape.size()),
                     {.attribute = input.name, .found = absl::StrJoin(given->second, "x")});
      }
      std::vector<int64_t>& shape = shapes_[input.name];
      for (size_t d = 0; d < input.shape.size(); ++d) {
        const Node& extent = *input.shape[d];
        const bool symbolic = extent.kind == Kind::kName && !constants_.contains(extent.name);
        if (symbolic && given == options_.input_shapes.end()) {
          return fault(v1::Failure::UNBOUND_DIMENSION,
                       absl::StrCat("input '", input.name, "' has the unbound dimension '", extent.name, "'"),
                       {.attribute = input.name,
                        .found = extent.name,
                        .accepted = "a param of that name, a size for the dimension, or a shape for the input",
                        .remedy = absl::StrCat("bind it: --dim ", extent.name, "=4, or --shape ", input.name, "=",
                                               exampleShape(input))});
        }
        if (symbolic) constants_.emplace(extent.name, given->second[d]);
        TESSERA_ASSIGN_OR_RETURN(const int64_t value, evaluate(extent, constants_));
        if (given != options_.input_shapes.end() && given->second[d] != value) {
          return fault(
              v1::Failure::INVALID_INPUT,
              absl::StrCat("the shape given for input '", input.name, "' differs from its declaration in dimension ",
                           d),
              {.attribute = input.name, .found = absl::StrCat(given->second[d]), .accepted = absl::StrCat(value)});
        }
        if (value < 1) return errorAt(extent.at, "an extent is at least 1", absl::StrCat(value));
        shape.push_back(value);
      }
      TESSERA_RETURN_IF_ERROR(checkShape(shape, input.dtype, absl::StrCat("input '", input.name, "'")));
      v1::TensorSpec& spec = imported_.inputs.emplace_back();
      spec.set_name(input.name);
      spec.set_dtype(input.dtype);
      for (int64_t extent : shape) spec.add_shape(extent);
    }
    for (const std::string& name : symbolic_) {
      v1::DimensionBinding& binding = imported_.dimensions.emplace_back();
      binding.set_name(name);
      binding.set_size(constants_.at(name));
    }
    for (const auto& [name, shape] : options_.input_shapes) {
      if (!shapes_.contains(name)) {
        return fault(v1::Failure::INVALID_INPUT, absl::StrCat("a shape is given for '", name, "', which is no input"),
                     {.attribute = name});
      }
    }
    return absl::OkStatus();
  }

  absl::Status lower(mlir::OpBuilder& builder, const Statement& statement) {
    if (shapes_.contains(statement.name)) {
      return errorAt(statement.at, "this tensor is defined already; each has one definition", statement.name);
    }
    TESSERA_ASSIGN_OR_RETURN(const std::vector<Loop> loops, inferLoops(statement, shapes_, constants_));
    const mlir::Location loc = mlir::NameLoc::get(builder.getStringAttr(statement.name));
    Emitter emitter(builder, loc, [](Emitter&, const ConstantPtr&) { return mlir::Value(); });
    TESSERA_ASSIGN_OR_RETURN(Tensor tensor, lowerStatement(emitter, statement, loops, tensors_, constants_));
    builder.setInsertionPointToEnd(builder.getInsertionBlock());
    shapes_[statement.name] = tensor.shape;
    tensors_[statement.name] = std::move(tensor);
    collectReads(*statement.value);
    ++imported_.nodes;
    return absl::OkStatus();
  }

  void collectReads(const Node& node) {
    if (node.kind == Kind::kAccess) read_.insert(node.name);
    for (const NodePtr& child : node.children) collectReads(*child);
  }

  absl::StatusOr<ImportedModel> finish(const Program& program, mlir::OpBuilder& builder, mlir::func::FuncOp main) {
    std::vector<std::string> outputs = program.outputs;
    for (const Statement& statement : program.statements) {
      if (program.outputs.empty() && !read_.contains(statement.name)) outputs.push_back(statement.name);
    }
    if (outputs.empty()) return fault(v1::Failure::INVALID_MODEL, "the text has no statement and so no result");
    llvm::SmallVector<mlir::Value> results;
    for (const std::string& name : outputs) {
      const auto tensor = tensors_.find(name);
      if (tensor == tensors_.end()) {
        return fault(v1::Failure::INVALID_MODEL, absl::StrCat("the output '", name, "' is not defined"),
                     {.attribute = "output", .found = name});
      }
      results.push_back(tensor->second.value);
      v1::TensorSpec& spec = imported_.outputs.emplace_back();
      spec.set_name(name);
      spec.set_dtype(tensor->second.dtype);
      for (int64_t extent : tensor->second.shape) spec.add_shape(extent);
    }
    mlir::func::ReturnOp::create(builder, main.getLoc(), results);
    main.setFunctionType(builder.getFunctionType(main.getArgumentTypes(), mlir::ValueRange(results).getTypes()));
    for (size_t i = 0; i < outputs.size(); ++i) {
      main.setResultAttr(static_cast<unsigned>(i), "tessera.output", builder.getStringAttr(outputs[i]));
    }
    return std::move(imported_);
  }

  mlir::MLIRContext& context_;
  const ImportOptions& options_;
  ImportedModel imported_;
  Constants constants_;
  Shapes shapes_;
  std::map<std::string, Tensor> tensors_;
  std::set<std::string> read_;
  std::vector<std::string> symbolic_;
};

}  // namespace
}  // namespace tessera::compiler::expression

namespace tessera::compiler {

absl::StatusOr<ImportedModel> importExpression(mlir::MLIRContext& context, const std::string& path,
                                               const ImportOptions& options) {
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  std::ifstream file(path, std::ios::binary);
  std::string text(expression::kMaxTextBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  TESSERA_ASSIGN_OR_RETURN(const expression::Program program, expression::parse(text));
  return expression::ProgramImport(context, options).run(program);
}

}  // namespace tessera::compiler
