// tessera gradient: differentiates tensor expressions.

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/output.h"
#include "clients/cli/shape_flags.h"
#include "clients/cpp/local_file.h"
#include "compiler/gradient/gradient.h"
#include "compiler/import/expression/make_node.h"
#include "compiler/import/expression/print.h"

namespace tessera::client {
namespace {

using compiler::gradient::Gradient;
using compiler::gradient::GradientOptions;
using compiler::gradient::InputGradient;

struct GradientFlags {
  std::string file;
  std::vector<std::string> inputs, dimensions;
  bool guarded = false;
};

std::string gradientJson(const Gradient& gradient, const std::string& text) {
  return absl::StrFormat(R"({"gradients":[%s],"output_gradients":[%s],"text":%s})",
                         absl::StrJoin(gradient.inputs, ",",
                                       [](std::string* out, const InputGradient& each) {
                                         absl::StrAppendFormat(out, R"({"input":%s,"gradient":%s,"shape":[%s]})",
                                                               jsonString(each.input), jsonString(each.gradient),
                                                               absl::StrJoin(each.shape, ","));
                                       }),
                         absl::StrJoin(gradient.output_gradients, ",",
                                       [](std::string* out, const std::string& name) { *out += jsonString(name); }),
                         jsonString(text));
}

/// Gives the extent NAME the size of --dim NAME=SIZE, as a param would.
absl::Status bindDimensions(const std::vector<std::string>& dimensions, compiler::expression::Program& program) {
  std::vector<compiler::expression::Param> bound;
  for (const std::string& text : dimensions) {
    TESSERA_ASSIGN_OR_RETURN(const DimensionSizes dimension, parseDimension(text));
    const auto& params = program.params;
    if (dimension.range || dimension.sizes.size() != 1 ||
        std::ranges::find(params, dimension.name, &compiler::expression::Param::name) != params.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--dim ", text, ": accepted is one size for an extent without a value, such as N=4"));
    }
    bound.push_back({dimension.name, compiler::expression::integerNode(dimension.sizes[0])});
  }
  program.params.insert(program.params.begin(), std::make_move_iterator(bound.begin()),
                        std::make_move_iterator(bound.end()));
  return absl::OkStatus();
}

absl::Status differentiate(const CommandLine& line, const GradientFlags& flags) {
  constexpr int64_t kMaxBytes = compiler::expression::kMaxTextBytes;
  const std::optional<std::string> text = readSmallFile(flags.file, kMaxBytes);
  if (!text) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.file, ": cannot be read; accepted is a text file of at most 1 MiB"));
  }
  TESSERA_ASSIGN_OR_RETURN(auto program, compiler::expression::parse(*text));
  TESSERA_RETURN_IF_ERROR(bindDimensions(flags.dimensions, program));
  const GradientOptions options{.inputs = flags.inputs, .pads = !flags.guarded};
  TESSERA_ASSIGN_OR_RETURN(const Gradient gradient, gradientOf(program, options));
  const std::string printed = print(gradient.program);
  std::cout << (line.json ? gradientJson(gradient, printed) + "\n" : printed);
  return absl::OkStatus();
}

}  // namespace

void addGradientCommand(CommandLine& line) {
  CLI::App* command = line.add("gradient", "Differentiate tensor expressions");
  auto flags = std::make_shared<GradientFlags>();
  command->add_option("FILE", flags->file, "file with tensor expressions (.te)")->required();
  command->add_option("--wrt", flags->inputs,
                      "input whose gradient is wanted; may be repeated. Default: all inputs of float types");
  command->add_option("--dim", flags->dimensions, "size of an extent that has no value in the file: N=4");
  command->add_flag("--guarded", flags->guarded, "conditions where a read leaves its tensor, instead of zero padding");
  command->footer(
      "Prints tensor expressions that compute the gradient of each input from the gradients of the outputs: of output\n"
      "C they read the input dC, of input A they compute dA. The text is itself a model: compile and run it.\n"
      "The page Gradients of tensor expressions documents it, with examples. No server is needed.");
  command->callback([&line, flags] {
    line.action = [&line, flags] {
      const absl::Status status = differentiate(line, *flags);
      return status.ok() ? kExitOk : reportError(status, line.json);
    };
  });
}

}  // namespace tessera::client
