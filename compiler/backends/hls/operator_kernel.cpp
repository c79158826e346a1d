#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/backends/hls/program.h"
#include "compiler/target/element_text.h"

namespace tessera::compiler::hls {
namespace {

using v1::SpatialKernel;

struct Name {
  std::string_view operation, real, whole;  ///< of loopnest::Operation, and of the kernel's for its types
};
constexpr std::array<Name, 16> kNames = {{{"add", "addf", "addi"},
                                          {"sub", "subf", "subi"},
                                          {"mul", "mulf", "muli"},
                                          {"div", "divf", "divsi"},
                                          {"max", "maximumf", "maxsi"},
                                          {"min", "minimumf", "minsi"},
                                          {"pow", "powf", ""},
                                          {"neg", "negf", ""},
                                          {"exp", "exp", ""},
                                          {"log", "log", ""},
                                          {"sqrt", "sqrt", ""},
                                          {"tanh", "tanh", ""},
                                          {"erf", "erf", ""},
                                          {"abs", "absf", "absi"},
                                          {"floor", "floor", ""},
                                          {"ceil", "ceil", ""}}};

absl::StatusOr<std::string> nameOf(std::string_view operation, v1::DataType type) {
  const auto* found = std::ranges::find(kNames, operation, &Name::operation);
  const std::string_view name = found == kNames.end() ? "" : isFloatingPoint(type) ? found->real : found->whole;
  if (!name.empty()) return std::string(name);
  return absl::UnimplementedError(
      absl::StrCat("operation ", std::string(operation), " on ", elementText(type), " has no kernel"));
}

/// One element of the number, little-endian. f16 holds the small integers and infinities that initial values are.
absl::StatusOr<std::string> elementOfNumber(double number, v1::DataType type) {
  std::string bytes;
  const auto put = [&](auto value) { bytes.assign(reinterpret_cast<const char*>(&value), sizeof value); };
  switch (type) {
    case v1::DATA_TYPE_F32:
      put(static_cast<float>(number));
      break;
    case v1::DATA_TYPE_F64:
      put(number);
      break;
    case v1::DATA_TYPE_I8:
    case v1::DATA_TYPE_U8:
      put(static_cast<int8_t>(number));
      break;
    case v1::DATA_TYPE_I16:
    case v1::DATA_TYPE_U16:
      put(static_cast<int16_t>(number));
      break;
    case v1::DATA_TYPE_I32:
    case v1::DATA_TYPE_U32:
      put(static_cast<int32_t>(number));
      break;
    case v1::DATA_TYPE_I64:
    case v1::DATA_TYPE_U64:
      put(static_cast<int64_t>(number));
      break;
    case v1::DATA_TYPE_F16:
      if (number == 0 || number == 1 || std::isinf(number)) {
        put(static_cast<uint16_t>(number == 0 ? 0 : number == 1 ? 0x3C00 : number < 0 ? 0xFC00 : 0x7C00));
        break;
      }
      [[fallthrough]];
    default:
      return absl::UnimplementedError(
          absl::StrCat("constant ", number, " of type ", elementText(type), " has no kernel"));
  }
  return bytes;
}

/// The start value of a reduction.
double neutral(loopnest::Combine combine, v1::DataType type) {
  const double largest = isFloatingPoint(type)       ? std::numeric_limits<double>::infinity()
                         : type == v1::DATA_TYPE_I8  ? 127.0
                         : type == v1::DATA_TYPE_I16 ? 32767.0
                                                     : 2147483647.0;
  switch (combine) {
    case loopnest::Combine::kProduct:
      return 1;
    case loopnest::Combine::kMaximum:
      return isFloatingPoint(type) ? -largest : -largest - 1;
    case loopnest::Combine::kMinimum:
      return largest;
    default:
      return 0;
  }
}

class Writer {
 public:
  explicit Writer(const loopnest::Nest& nest) : nest_(nest) {
    for (const loopnest::Loop& loop : nest.loops) loops_.push_back(loop.name);
  }

  absl::StatusOr<SpatialKernel> run() {
    if (!nest_.bounds.empty())
      return absl::UnimplementedError(absl::StrCat("operator ", nest_.name, " has bounds on its loops"));
    addBuffers();
    for (const loopnest::Statement& statement : nest_.statements)
      if (absl::Status status = addStatement(statement); !status.ok()) return status;
    kernel_.set_symbol(nest_.name);
    return std::move(kernel_);
  }

 private:
  /// Inputs in the order of their first use, then what statements write; the last statement's output is the result.
  void addBuffers() {
    std::vector<std::string> written, names;
    for (const loopnest::Statement& each : nest_.statements) written.push_back(nameAt(each.output));
    const auto isWritten = [&](const std::string& name) { return std::ranges::count(written, name) > 0; };
    for (const loopnest::Statement& each : nest_.statements)
      for (int input : each.inputs)
        if (const std::string& name = nameAt(input); !isWritten(name) && std::ranges::count(names, name) == 0)
          names.push_back(name);
    const std::string result = written.empty() ? "" : written.back();
    names.push_back(result);
    kernel_.set_operands(static_cast<int>(names.size()));
    kernel_.set_results(1);
    for (const std::string& name : written)
      if (std::ranges::count(names, name) == 0) names.push_back(name);
    for (const std::string& name : names) {
      numbers_[name] = kernel_.buffers_size();
      SpatialKernel::Buffer& buffer = *kernel_.add_buffers();
      for (const loopnest::Access& access : nest_.accesses) {
        if (access.name != name) continue;
        buffer.set_dtype(access.dtype);
        const std::vector<int64_t> shape = shapeOf(nest_, access);
        for (size_t d = 0; d < shape.size(); ++d) {
          if (buffer.shape_size() <= static_cast<int>(d))
            buffer.add_shape(shape[d]);
          else
            buffer.set_shape(static_cast<int>(d), std::max(buffer.shape(static_cast<int>(d)), shape[d]));
        }
      }
    }
  }

  const std::string& nameAt(int access) const { return nest_.accesses[static_cast<size_t>(access)].name; }

  void addAccess(SpatialKernel::Nest& to, int number) const {
    const loopnest::Access& from = nest_.accesses[static_cast<size_t>(number)];
    SpatialKernel::Access& access = *to.add_accesses();
    access.set_buffer(numbers_.at(from.name));
    const auto& shape = kernel_.buffers(access.buffer()).shape();
    int64_t stride = 1;
    std::vector<int64_t> strides(from.subscripts.size());
    for (size_t d = from.subscripts.size(); d-- > 0;) {
      strides[d] = stride;
      stride *= shape[static_cast<int>(d)];
    }
    for (size_t d = 0; d < strides.size(); ++d) {
      access.add_subscripts(print(from.subscripts[d], loops_));
      access.add_strides(strides[d]);
    }
  }

  static SpatialKernel::Operation& add(SpatialKernel::Nest& to, const std::string& name, v1::DataType type,
                                       std::initializer_list<int> operands) {
    SpatialKernel::Operation& operation = *to.add_body();
    operation.set_name(name);
    operation.set_dtype(type);
    for (int operand : operands) operation.add_operands(operand);
    return operation;
  }
  static int lastValue(const SpatialKernel::Nest& nest) { return nest.accesses_size() + nest.body_size() - 1; }

  absl::Status addFill(const loopnest::Statement& statement, v1::DataType type) {
    SpatialKernel::Nest& fill = *kernel_.add_nests();
    fill.set_name(absl::StrCat("start of ", nameAt(statement.output)));
    const loopnest::Access& output = nest_.accesses[static_cast<size_t>(statement.output)];
    for (int loop : statement.loops)
      if (output.uses(loop)) addLoop(fill, loop);
    fill.set_outputs(1);
    addAccess(fill, statement.output);
    const absl::StatusOr<std::string> number = elementOfNumber(neutral(statement.body.combine, type), type);
    if (!number.ok()) return number.status();
    add(fill, "constant", type, {}).set_constant(*number);
    fill.add_yields(1);
    return absl::OkStatus();
  }

  void addLoop(SpatialKernel::Nest& to, int number) const {
    SpatialKernel::Loop& loop = *to.add_loops();
    loop.set_name(nest_.loops[static_cast<size_t>(number)].name);
    loop.set_extent(nest_.loops[static_cast<size_t>(number)].extent);
  }

  absl::Status addStatement(const loopnest::Statement& statement) {
    if (statement.body.opaque) return absl::UnimplementedError(absl::StrCat(statement.name, " has no described body"));
    const v1::DataType type = kernel_.buffers(numbers_.at(nameAt(statement.output))).dtype();
    const bool combines = statement.body.combine != loopnest::Combine::kAssign;
    if (combines && !written_.contains(nameAt(statement.output)))
      if (absl::Status status = addFill(statement, type); !status.ok()) return status;
    written_[nameAt(statement.output)] = true;
    SpatialKernel::Nest& nest = *kernel_.add_nests();
    nest.set_name(statement.name.empty() ? nest_.name : statement.name);
    for (int loop : statement.loops) addLoop(nest, loop);
    nest.set_outputs(1);
    addAccess(nest, statement.output);
    for (int input : statement.inputs) addAccess(nest, input);
    std::vector<int> values;
    for (int input = 1; input < nest.accesses_size(); ++input) values.push_back(input);
    for (int& value : values) {
      const v1::DataType from = kernel_.buffers(nest.accesses(value).buffer()).dtype();
      if (from == type) continue;
      const bool real = isFloatingPoint(type);
      if (real != isFloatingPoint(from))
        return absl::UnimplementedError(
            absl::StrCat("factors of ", elementText(from), " do not sum to ", elementText(type)));
      const bool is_unsigned = elementText(from)[0] == 'u';
      add(nest, real ? "extf" : is_unsigned ? "extui" : "extsi", type, {value});
      value = lastValue(nest);
    }
    for (const loopnest::Operation& operation : statement.body.operations) {
      if (operation.name == "constant") {
        const absl::StatusOr<std::string> number = elementOfNumber(operation.constant, type);
        if (!number.ok()) return number.status();
        add(nest, "constant", type, {}).set_constant(*number);
      } else {
        const absl::StatusOr<std::string> name = nameOf(operation.name, type);
        if (!name.ok()) return name.status();
        SpatialKernel::Operation& added = add(nest, *name, type, {});
        for (int operand : operation.operands) added.add_operands(values[static_cast<size_t>(operand)]);
      }
      values.push_back(lastValue(nest));
    }
    int result = values.empty() ? 0 : values.back();
    if (statement.body.operations.empty() && !values.empty()) result = values[0];
    if (combines) {
      static const std::map<loopnest::Combine, std::string> kCombining = {{loopnest::Combine::kSum, "add"},
                                                                          {loopnest::Combine::kProduct, "mul"},
                                                                          {loopnest::Combine::kMaximum, "max"},
                                                                          {loopnest::Combine::kMinimum, "min"}};
      const absl::StatusOr<std::string> name = nameOf(kCombining.at(statement.body.combine), type);
      if (!name.ok()) return name.status();
      add(nest, *name, type, {0, result});
      result = lastValue(nest);
    }
    nest.add_yields(result);
    return absl::OkStatus();
  }

  const loopnest::Nest& nest_;
  std::vector<std::string> loops_;
  std::map<std::string, int> numbers_;
  std::map<std::string, bool> written_;
  SpatialKernel kernel_;
};

}  // namespace

absl::StatusOr<SpatialKernel> kernelOf(const loopnest::Nest& nest) { return Writer(nest).run(); }

}  // namespace tessera::compiler::hls
