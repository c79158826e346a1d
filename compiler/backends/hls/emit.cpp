#include "compiler/backends/hls/emit.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/hls/cpp_text.h"
#include "compiler/backends/hls/engine_writer.h"
#include "compiler/target/element_text.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::hls {
namespace {

/// An argument of the top function: a port of one of the engines.
struct TopArgument {
  std::string name, type;
  int buffer = 0, bank = 0;
};

std::string heading(const Program& program, const Device& device) {
  return absl::StrFormat("// %s for %s, at %g MHz: %d engines, predicted %.0f cycles.\n// %s of %s.\n", program.name,
                         device.name(), 1000 * device.gigahertz(), program.designs.size(), program.cycles,
                         print(program.resources), print(device.limits()));
}

std::string topSignature(const std::string& name, const std::vector<TopArgument>& arguments) {
  return absl::StrCat(
      "void ", name, "(",
      absl::StrJoin(arguments, ", ",
                    [](std::string* out, const TopArgument& each) { absl::StrAppend(out, each.type, each.name); }),
      ")");
}

/// The test bench: random operands, the design, and the operator's loops.
absl::StatusOr<std::string> testBench(const Program& program, const std::vector<TopArgument>& arguments) {
  std::string text = absl::StrCat("// Test bench: compares ", program.name,
                                  " with the operator's plain loops on random data.\n#include \"", program.name,
                                  ".h\"\n\n#include <cstdio>\n#include <random>\n#include <vector>\n", cppPrelude());
  std::vector<std::string> types;
  for (v1::DataType type : program.checked.types) {
    TESSERA_ASSIGN_OR_RETURN(std::string name, cppType(type));
    types.push_back(std::move(name));
  }
  absl::StrAppend(&text, "\n// Runs the design on the buffers of the workload, in their order.\nextern \"C\" void ",
                  program.name, "_run(void *const *buffers) {\n  ", program.name, "(",
                  absl::StrJoin(arguments, ", ",
                                [&](std::string* out, const TopArgument& each) {
                                  absl::StrAppend(out, "static_cast<", each.type, ">(buffers[", each.buffer, "])");
                                }),
                  ");\n}\n\n// The operator's loops, one after another.\nextern \"C\" void ", program.name,
                  "_reference(void *const *buffers) {\n");
  for (size_t b = 0; b < types.size(); ++b)
    absl::StrAppend(&text, "  auto *b", b, " = static_cast<", types[b], " *>(buffers[", b, "]);\n  (void)b", b, ";\n");
  for (const simulator::SpatialNest& nest : program.checked.nests) {
    TESSERA_ASSIGN_OR_RETURN(const std::string loops, plainLoops(nest, "    "));
    absl::StrAppend(&text, "  {  // ", nest.name, "\n", loops, "  }\n");
  }
  text += "}\n\n#ifndef TESSERA_NO_MAIN\nint main() {\n  std::mt19937 random(1);\n";
  std::vector<std::string> pointers, expected;
  for (size_t b = 0; b < types.size(); ++b) {
    const bool argument = static_cast<int>(b) < program.kernel.operands() - program.kernel.results();
    const std::string count = absl::StrCat(program.checked.elements[b]);
    // A char per bool: std::vector<bool> has no elements.
    const std::string type = types[b] == "bool" ? "char" : types[b];
    absl::StrAppend(&text, "  std::vector<", type, "> d", b, "(", count, ")",
                    argument ? "" : absl::StrCat(", e", b, "(", count, ")"), ";\n");
    if (argument)
      absl::StrAppend(&text, "  for (auto &each : d", b, ") each = ",
                      isFloatingPoint(program.checked.types[b])
                          ? absl::StrCat(type, "(float(random() % 2001) / 1000 - 1)")
                          : absl::StrCat(type, "(random() % ", types[b] == "bool" ? "2" : "256", ")"),
                      ";\n");
    pointers.push_back(absl::StrCat("d", b, ".data()"));
    expected.push_back(absl::StrCat(argument ? "d" : "e", b, ".data()"));
  }
  absl::StrAppend(&text, "  void *buffers[] = {", absl::StrJoin(pointers, ", "), "};\n  void *expected[] = {",
                  absl::StrJoin(expected, ", "), "};\n  ", program.name, "_run(buffers);\n  ", program.name,
                  "_reference(expected);\n  size_t wrong = 0;\n");
  for (int b = program.kernel.operands() - program.kernel.results(); b < program.kernel.operands(); ++b) {
    const bool real = isFloatingPoint(program.checked.types[static_cast<size_t>(b)]);
    // Unrolled sums are added in another order.
    const std::string differ =
        real ? absl::StrFormat(
                   "!(std::fabs(double(d%d[i]) - double(e%d[i])) <= 1e-3 * (1 + std::fabs(double(e%d[i]))))", b, b, b)
             : absl::StrFormat("d%d[i] != e%d[i]", b, b);
    absl::StrAppend(&text, "  for (size_t i = 0; i < d", b, ".size(); ++i) wrong += ", differ, ";\n");
  }
  absl::StrAppend(&text, "  std::printf(\"", program.name,
                  ": %zu wrong\\n\", wrong);\n  return wrong == 0 ? 0 : 1;\n}\n#endif\n");
  return text;
}

}  // namespace

absl::StatusOr<std::vector<SourceFile>> sourcesOf(const Program& program, const Device& device) {
  std::string engines;
  std::vector<TopArgument> arguments;
  std::vector<std::string> calls;
  for (size_t d = 0; d < program.designs.size(); ++d) {
    const std::string name = absl::StrCat(program.name, "_engine", d);
    TESSERA_ASSIGN_OR_RETURN(const Engine engine, engineOf(program.designs[d], name, device));
    engines += engine.text;
    std::vector<std::string> given;
    for (const PortArgument& port : engine.ports) {
      arguments.push_back({absl::StrCat("engine", d, "_", port.name), port.type, port.buffer, port.bank});
      given.push_back(arguments.back().name);
    }
    calls.push_back(absl::StrCat("  ", name, "(", absl::StrJoin(given, ", "), ");\n"));
  }
  const std::string title = heading(program, device), signature = topSignature(program.name, arguments);
  std::string header = absl::StrCat(title, "#pragma once\n\n#include <cstdint>\n\n// Arguments in banks of ",
                                    device.externalLevel(), ":\n");
  for (const TopArgument& each : arguments)
    absl::StrAppend(&header, "//   ", each.name, ": buffer ", each.buffer, ", bank ", each.bank, "\n");
  absl::StrAppend(&header, signature, ";\n");
  std::string source =
      absl::StrCat(title, "#include \"", program.name, ".h\"\n\n", cppPrelude(), "\n", engines, signature, " {\n");
  for (const TopArgument& each : arguments)
    absl::StrAppend(&source, "#pragma HLS interface mode=m_axi port=", each.name, " bundle=", each.name,
                    " offset=slave\n");
  absl::StrAppend(&source, "#pragma HLS interface mode=s_axilite port=return\n", absl::StrJoin(calls, ""), "}\n");
  TESSERA_ASSIGN_OR_RETURN(std::string bench, testBench(program, arguments));
  return std::vector<SourceFile>{{program.name + ".h", std::move(header)},
                                 {program.name + ".cpp", std::move(source)},
                                 {program.name + "_test.cpp", std::move(bench)}};
}

}  // namespace tessera::compiler::hls
