#include "compiler/training/training.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/model_error.h"
#include "compiler/training/adjoints.h"
#include "compiler/training/gradient_norm.h"
#include "compiler/training/loss.h"
#include "compiler/training/optimizer.h"
#include "compiler/training/reverse_mode.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Verifier.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::training {
namespace {

using mlir::Value;
using mlir::ValueRange;

constexpr char kLoss[] = "loss", kLearningRate[] = "learning_rate", kSteps[] = "steps";
constexpr char kNext[] = ".next";  // after the name of a state: its output

/// Whether the pattern, in which * stands for any characters, describes the whole name.
bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

absl::Status invalid(const std::string& attribute, const std::string& message, const std::string& found,
                     const std::string& accepted, const std::string& remedy = "") {
  return fault(v1::Failure::INVALID_INPUT, message,
               {.attribute = attribute, .found = found, .accepted = accepted, .remedy = remedy});
}

/// Builds the step at the end of @main.
class StepBuilder {
 public:
  StepBuilder(ImportedModel& model, const v1::TrainingOptions& options, mlir::func::FuncOp main)
      : model_(model), options_(options), main_(main), block_(main.getBody().front()) {}

  absl::StatusOr<std::vector<v1::StatePair>> run() {
    TESSERA_RETURN_IF_ERROR(checkModel());
    TESSERA_ASSIGN_OR_RETURN(const Optimizer optimizer, optimizerOf(options_.optimizer()));
    TESSERA_ASSIGN_OR_RETURN(const size_t output, outputIndex());
    const std::string loss_name = options_.loss();
    TESSERA_ASSIGN_OR_RETURN(const Labels labels, labelsOf(loss_name, model_.outputs[output]));

    generalizeNamed(main_);
    auto results = mlir::cast<mlir::func::ReturnOp>(block_.getTerminator());
    const Value read = results.getOperand(static_cast<unsigned>(output));
    std::vector<std::pair<size_t, Value>> variables;  // positions among the inputs, arguments
    for (size_t i = 0; i < model_.inputs.size(); ++i)
      if (isVariable(model_.inputs[i].name())) variables.emplace_back(i, block_.getArgument(static_cast<unsigned>(i)));
    llvm::SmallVector<Value> arguments;
    for (const auto& [index, argument] : variables) arguments.push_back(argument);
    llvm::SmallVector<mlir::Operation*> forward;
    for (mlir::Operation& op : block_.without_terminator()) forward.push_back(&op);

    Emitter e = emitterAt("loss");
    Tensor label;
    if (!labels.name.empty()) {
      TESSERA_ASSIGN_OR_RETURN(label, addInput(e, labels.name, labels.dtype, labels.shape));
    }
    TESSERA_ASSIGN_OR_RETURN(const Tensor rate, addInput(e, kLearningRate, v1::DATA_TYPE_F32, {}));
    Adjoints adjoints(main_, arguments);
    const Loss loss = emitLoss(e, loss_name, Emitter::wrap(read, model_.outputs[output].dtype()), label);
    adjoints.add(e, read, loss.gradient.value);
    TESSERA_RETURN_IF_ERROR(differentiate(main_, adjoints, forward));

    // Only what the loss depends on is trained; the others keep their default values.
    std::vector<Trained> trained;
    e = emitterAt("optimizer");
    for (const auto& [index, argument] : variables)
      if (const Value gradient = adjoints.of(argument))
        trained.push_back({model_.inputs[index], argument, Emitter::wrap(gradient, floatTypeOf(gradient))});
    if (trained.empty())
      return invalid("trainable", "the loss depends on no trainable initializer",
                     absl::StrCat(variables.size(), " trainable initializers"), "an initializer that the output reads",
                     "--loss-output names the output, --trainable the initializers");
    TESSERA_RETURN_IF_ERROR(update(e, optimizer, rate, trained));
    return finish(results, loss);
  }

 private:
  struct Trained {
    v1::TensorSpec spec;
    Value argument;
    Tensor gradient;
  };

  absl::Status checkModel() {
    for (const v1::DimensionBinding& dimension : model_.dimensions)
      if (dimension.size() < 0)
        return invalid("training", absl::StrCat("dimension '", dimension.name(), "' is a range"),
                       absl::StrCat("..", -dimension.size()), "one size for each dimension",
                       absl::StrCat("bind one size: --dim ", dimension.name(), "=", -dimension.size()));
    if (!model_.extents.empty() || !model_.run_faults.empty())
      return fault(v1::Failure::UNSUPPORTED_OPERATOR, "training needs shapes that no run decides",
                   {.attribute = "training",
                    .found = model_.extents.empty() ? "operators that may fail in a run" : "outputs of a computed size",
                    .accepted = "fixed shapes"});
    if (!(options_.max_gradient_norm() >= 0))
      return invalid("max_gradient_norm", "the limit of the gradients' norm is negative",
                     absl::StrCat(options_.max_gradient_norm()), "at least 0");
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> outputIndex() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < model_.outputs.size(); ++i) {
      names.push_back(model_.outputs[i].name());
      if (!options_.output().empty() && names.back() == options_.output()) return i;
    }
    if (options_.output().empty() && names.size() == 1) return 0;
    return invalid("loss-output",
                   options_.output().empty() ? "the model has several outputs"
                                             : absl::StrCat("the model has no output '", options_.output(), "'"),
                   options_.output(), absl::StrJoin(names, ", "), "name the output that the loss reads: --loss-output");
  }

  bool isVariable(const std::string& name) const {
    return std::ranges::any_of(model_.default_inputs,
                               [&](const v1::TensorValue& value) { return value.spec().name() == name; });
  }

  Emitter emitterAt(const std::string& label) {
    mlir::OpBuilder b(block_.getTerminator());
    return Emitter(b, mlir::NameLoc::get(b.getStringAttr(label)), [](Emitter&, const ConstantPtr&) { return Value(); });
  }

  /// Adds an argument after the model's inputs and before its weights.
  absl::StatusOr<Tensor> addInput(Emitter& e, const std::string& name, v1::DataType dtype, const Shape& shape) {
    for (const std::vector<v1::TensorSpec>* specs : {&model_.inputs, &model_.outputs})
      for (const v1::TensorSpec& spec : *specs)
        if (spec.name() == name)
          return invalid("training", absl::StrCat("the model has a tensor '", name, "', as the training step has"),
                         name, "other names of inputs and outputs", "rename it in the model");
    v1::TensorSpec& spec = model_.inputs.emplace_back();
    spec.set_name(name);
    spec.set_dtype(dtype);
    for (const int64_t extent : shape) spec.add_shape(extent);
    const auto at = static_cast<unsigned>(model_.inputs.size() - 1);
    const auto attributes = e.b.getDictionaryAttr(e.b.getNamedAttr("tessera.input", e.b.getStringAttr(name)));
    if (mlir::failed(
            main_.insertArgument(at, e.type(dtype, shape), attributes, mlir::NameLoc::get(e.b.getStringAttr(name)))))
      return fault(v1::Failure::INTERNAL, "the function takes no further argument");
    return Emitter::wrap(block_.getArgument(at), dtype);
  }

  /// Makes `value` the next value of the state `name`.
  void addState(const std::string& name, const Tensor& value) {
    v1::StatePair& pair = pairs_.emplace_back();
    pair.set_input(name);
    pair.set_output(absl::StrCat(name, kNext));
    next_.emplace_back(pair.output(), value);
  }

  absl::Status update(Emitter& e, const Optimizer& optimizer, const Tensor& rate, std::vector<Trained>& trained) {
    TESSERA_ASSIGN_OR_RETURN(const Tensor before, addInput(e, kSteps, v1::DATA_TYPE_I64, {}));
    const Tensor step = e.elementwise(v1::DATA_TYPE_I64, {before},
                                      [](const Scalars& s, ValueRange v) { return s.add(v[0], s.integer(1)); });
    addState(kSteps, step);
    if (options_.max_gradient_norm() > 0) {
      std::vector<Tensor> gradients;
      for (const Trained& each : trained) gradients.push_back(each.gradient);
      gradients = limitNorm(e, gradients, options_.max_gradient_norm());
      for (size_t i = 0; i < trained.size(); ++i) trained[i].gradient = gradients[i];
    }
    const StepValues values = stepValues(e, optimizer, rate, step);
    for (const Trained& each : trained) {
      const Tensor parameter = Emitter::wrap(each.argument, each.spec.dtype());
      std::vector<std::string> names;
      std::vector<Tensor> moments;
      for (const std::string& moment : optimizer.moments()) {
        names.push_back(absl::StrCat(each.spec.name(), ".", moment));
        TESSERA_ASSIGN_OR_RETURN(const Tensor before, addInput(e, names.back(), parameter.dtype, parameter.shape));
        moments.push_back(before);
      }
      const Update update = emitUpdate(e, optimizer, values, parameter, each.gradient, moments);
      addState(each.spec.name(), update.parameter);
      for (size_t i = 0; i < names.size(); ++i) addState(names[i], update.moments[i]);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<v1::StatePair>> finish(mlir::func::ReturnOp results, const Loss& loss) {
    std::vector<std::pair<std::string, Tensor>> outputs = {{kLoss, loss.value}};
    std::vector<v1::TensorSpec> specs;
    llvm::SmallVector<Value> values;
    std::set<std::string> taken;
    for (const v1::TensorSpec& spec : model_.outputs) taken.insert(spec.name());
    const bool is_output = options_.loss() == "output" && taken.contains(kLoss);
    if (is_output) outputs.clear();  // the model's own output has that name and value
    const auto append = [&](const std::string& name, const Tensor& tensor) {
      v1::TensorSpec& spec = specs.emplace_back();
      spec.set_name(name);
      spec.set_dtype(tensor.dtype);
      for (const int64_t extent : tensor.shape) spec.add_shape(extent);
      values.push_back(tensor.value);
    };
    for (const auto& [name, tensor] : outputs) append(name, tensor);
    specs.insert(specs.end(), model_.outputs.begin(), model_.outputs.end());
    llvm::append_range(values, results.getOperands());
    for (const auto& [name, tensor] : next_) append(name, tensor);
    std::set<std::string> names;
    for (const v1::TensorSpec& spec : specs)
      if (!names.insert(spec.name()).second)
        return invalid("training", absl::StrCat("the model has an output '", spec.name(), "', as the step has"),
                       spec.name(), "other names of outputs", "rename it in the model");
    model_.outputs = std::move(specs);

    results.getOperandsMutable().assign(values);
    mlir::Builder b(main_.getContext());
    main_.setFunctionType(b.getFunctionType(block_.getArgumentTypes(), ValueRange(values).getTypes()));
    llvm::SmallVector<mlir::DictionaryAttr> attributes;
    for (const v1::TensorSpec& spec : model_.outputs)
      attributes.push_back(b.getDictionaryAttr(b.getNamedAttr("tessera.output", b.getStringAttr(spec.name()))));
    main_.setAllResultAttrs(attributes);
    return std::move(pairs_);
  }

  ImportedModel& model_;
  const v1::TrainingOptions& options_;
  mlir::func::FuncOp main_;
  mlir::Block& block_;
  std::vector<v1::StatePair> pairs_;
  std::vector<std::pair<std::string, Tensor>> next_;
};

}  // namespace

VariableChoice::VariableChoice(const v1::TrainingOptions& options) {
  for (const std::string& text : options.trainable()) trainable_.push_back({text});
  for (const std::string& text : options.frozen()) frozen_.push_back({text});
}

bool VariableChoice::operator()(const std::string& initializer) {
  const auto any = [&](std::vector<Pattern>& patterns) {
    bool found = false;
    for (Pattern& pattern : patterns) {
      const bool here = matches(pattern.text, initializer);
      pattern.found |= here;
      found |= here;
    }
    return found;
  };
  const bool chosen = any(trainable_) || trainable_.empty();
  return !any(frozen_) && chosen;
}

absl::Status VariableChoice::check() const {
  for (const auto& [patterns, flag] : {std::pair(&trainable_, "trainable"), {&frozen_, "frozen"}})
    for (const Pattern& pattern : *patterns)
      if (!pattern.found)
        return invalid(flag, absl::StrCat("no initializer that can be trained has the name '", pattern.text, "'"),
                       pattern.text, "names of initializers of floating-point types; * stands for any characters");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::StatePair>> makeTrainingStep(ImportedModel& model, const v1::TrainingOptions& options) {
  auto main = mlir::dyn_cast_or_null<mlir::func::FuncOp>(mlir::SymbolTable::lookupSymbolIn(*model.module, "main"));
  if (!main) return fault(v1::Failure::INTERNAL, "the imported module has no function @main");
  auto pairs = StepBuilder(model, options, main).run();
  if (!pairs.ok()) return pairs;
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(main.getContext(), [&](mlir::Diagnostic& diagnostic) {
    if (errors.empty()) errors = diagnostic.str();
    return mlir::success();
  });
  if (mlir::failed(mlir::verify(*model.module)))
    return fault(v1::Failure::INTERNAL, absl::StrCat("the training step is an invalid module: ", errors));
  return pairs;
}

}  // namespace tessera::compiler::training
