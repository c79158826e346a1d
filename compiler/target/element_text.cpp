#include "compiler/target/element_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace tessera::compiler {
namespace {

std::string operandText(const v1::Intrinsic::Operand& operand) {
  return absl::StrCat(operand.name(), ":", elementText(operand.dtype()), "[", absl::StrJoin(operand.subscripts(), ", "),
                      "]");
}

}  // namespace

std::string elementText(v1::DataType type) {
  std::string name = absl::AsciiStrToLower(v1::DataType_Name(type));
  name = std::string(absl::StripPrefix(name, "data_type_"));
  if (name.starts_with("i")) name[0] = 's';
  return name;
}

bool isFloatingPoint(v1::DataType type) {
  return type == v1::DATA_TYPE_F32 || type == v1::DATA_TYPE_F64 || type == v1::DATA_TYPE_F16 ||
         type == v1::DATA_TYPE_BF16;
}

std::string computeText(const v1::Intrinsic& intrinsic) {
  using Form = v1::Intrinsic::Arithmetic;
  if (intrinsic.operands().empty()) return intrinsic.name();
  const Form::Form form = intrinsic.arithmetic().form();
  const bool extremum = form == Form::MAXIMUM || form == Form::MINIMUM;
  std::string text = operandText(intrinsic.operands(0));
  absl::StrAppend(&text, form == Form::MULTIPLY ? " = " : extremum ? " = " : " += ");
  if (extremum) {
    absl::StrAppend(&text, form == Form::MAXIMUM ? "max(" : "min(", operandText(intrinsic.operands(0)), ", ");
  }
  for (int i = 1; i < intrinsic.operands_size(); ++i) {
    absl::StrAppend(&text, i == 1 ? "" : " * ", operandText(intrinsic.operands(i)));
  }
  if (extremum) text += ")";
  for (const auto& iteration : intrinsic.iterations()) {
    absl::StrAppend(&text, ", ", iteration.name(), " < ", iteration.extent());
  }
  for (const std::string& bound : intrinsic.bounds()) absl::StrAppend(&text, ", ", bound);
  return text;
}

}  // namespace tessera::compiler
