// tessera kernel: compiles an operator to PTX for a described GPU, or to C++ for high-level synthesis for an FPGA.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/fpga_design.h"
#include "clients/cli/operator_flags.h"
#include "clients/cli/output.h"
#include "clients/cli/target_flag.h"
#include "clients/cpp/local_file.h"
#include "compiler/backends/ptx/kernel.h"
#include "compiler/backends/ptx/write.h"
#include "compiler/target/element_text.h"

namespace tessera::client {
namespace {

using compiler::elementText;
using compiler::ptx::Checked;
using compiler::ptx::Kernel;
using compiler::ptx::SharedTraffic;

struct KernelFlags {
  std::string target, type, result, name = "kernel", out = "-", manifest;
  OperatorFlags op;
  compiler::ptx::Question question;
  bool plain = false;
  uint64_t seed = 1;
  int64_t points = int64_t{1} << 22, plans = 0;
  std::vector<const CLI::Option*> of_ptx;  ///< options without a meaning for an FPGA
};

/// A type of --type and --result, and the type in which its products are accumulated.
struct Type {
  const char* name;
  v1::DataType type, sum;
};
constexpr Type kTypes[] = {
    {"f16", v1::DATA_TYPE_F16, v1::DATA_TYPE_F32}, {"bf16", v1::DATA_TYPE_BF16, v1::DATA_TYPE_F32},
    {"s8", v1::DATA_TYPE_I8, v1::DATA_TYPE_I32},   {"u8", v1::DATA_TYPE_U8, v1::DATA_TYPE_I32},
    {"f64", v1::DATA_TYPE_F64, v1::DATA_TYPE_F64}, {"f32", v1::DATA_TYPE_F32, v1::DATA_TYPE_F32},
    {"s32", v1::DATA_TYPE_I32, v1::DATA_TYPE_I32}};
const Type* typeNamed(const std::string& name) {
  for (const Type& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

/// The manifest: data that a driver needs to launch the kernel, and a description of the computation.
std::string manifestOf(const Kernel& kernel, const v1::Target& target) {
  const auto& plan = kernel.plan;
  const auto& nest = plan.software;
  const std::string parameters = absl::StrJoin(plan.tensors(), ",", [&](std::string* out, const auto& access) {
    absl::StrAppendFormat(out, R"({"name":%s,"type":%s,"shape":[%s]})", jsonString(access.name),
                          jsonString(elementText(access.dtype)), absl::StrJoin(shapeOf(nest, access), ","));
  });
  double products = 1;
  for (const auto& loop : nest.loops) products *= static_cast<double>(loop.extent);
  return absl::StrFormat(
      R"({"target":%s,"entry":%s,"grid":%d,"threads":%d,"shared_bytes":%d,"operator":%s,"loops":[%s],"parameters":[%s],"epilogue":[%s],"products":%.0f,"instruction":%s,"mapping":%s,"groups":[%d,%d],"tile":[%d,%d,%d],"stages":%d,"estimated_cycles":%.0f,"bound":%.6g})",
      jsonString(target.name()), jsonString(kernel.name), plan.grid(), plan.threads(), plan.sharedBytes(),
      jsonString(print(nest)),
      absl::StrJoin(nest.loops, ",",
                    [&](std::string* out, const auto& loop) {
                      const bool sum = nest.isReduction(nest.loopNamed(loop.name));
                      absl::StrAppendFormat(out, R"({"name":%s,"extent":%d,"sum":%s})", jsonString(loop.name),
                                            loop.extent, sum ? "true" : "false");
                    }),
      parameters,
      absl::StrJoin(plan.epilogue, ",",
                    [](std::string* out, const auto& step) { absl::StrAppend(out, jsonString(step.text)); }),
      products, jsonString(plan.intrinsic.name()),
      jsonString(mappingText(plan.software, plan.instruction, plan.matching)), plan.groups_x, plan.groups_y,
      plan.tileX(), plan.tileY(), plan.tileR(), plan.stages, plan.cycles, boundOf(plan));
}

std::string trafficText(const SharedTraffic& traffic) {
  return absl::StrFormat(
      "%d accesses in %d cycles of the banks (%.2f)", traffic.accesses, traffic.cycles,
      traffic.accesses == 0 ? 0.0 : static_cast<double>(traffic.cycles) / static_cast<double>(traffic.accesses));
}

/// `type` is the sources' if --type is not given.
absl::StatusOr<compiler::loopnest::Nest> typedNest(const KernelFlags& flags, const std::string& type, bool mappable) {
  absl::StatusOr<compiler::loopnest::Nest> nest = flags.op.nest(mappable);
  if (!nest.ok()) return nest;
  const Type *from = typeNamed(flags.type.empty() ? type : flags.type), *to = typeNamed(flags.result);
  if (!from || (!flags.result.empty() && !to)) {
    return absl::InvalidArgumentError(
        absl::StrCat(from ? "--result " : "--type ", from ? flags.result : flags.type, ": accepted are ",
                     absl::StrJoin(kTypes, ", ", [](std::string* out, const Type& type) { *out += type.name; })));
  }
  for (auto& access : nest->accesses) access.dtype = from->type;
  // Every tensor that a statement writes has the result's type.
  for (const auto& statement : nest->statements) {
    const std::string written = nest->accesses[static_cast<size_t>(statement.output)].name;
    for (auto& access : nest->accesses)
      if (access.name == written) access.dtype = to ? to->type : from->sum;
  }
  return nest;
}

std::string fileText(const Kernel& kernel, const v1::Target& target) {
  return absl::StrCat("// ", print(kernel.plan.software), "\n// ", manifestOf(kernel, target), "\n",
                      compiler::ptx::heading(target), kernel.text);
}

/// Reports a wrong request, or that no instruction of the chip can compute the operator.
absl::Status refused(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument ? status : absl::UnimplementedError(status.message());
}

/// Writes kernels of many plans to a folder, to be measured.
int writePlans(const CommandLine& line, const KernelFlags& flags, const v1::Target& target,
               const compiler::loopnest::Nest& nest, const compiler::ptx::Question& question) {
  const auto kernels = kernelsOf(nest, target, flags.name, flags.plans, question);
  if (!kernels.ok()) return reportError(refused(kernels.status()), line.json);
  std::error_code failed;
  std::filesystem::create_directories(flags.out, failed);
  if (failed) return reportError(fileError(failed.value(), absl::StrCat("cannot create ", flags.out)), line.json);
  for (const Kernel& kernel : *kernels) {
    const std::string file = absl::StrCat(flags.out, "/", kernel.name);
    for (const auto& [name, content] : {std::pair(file + ".ptx", fileText(kernel, target)),
                                        std::pair(file + ".json", manifestOf(kernel, target) + "\n")}) {
      if (absl::Status status = writeText(name, content); !status.ok()) return reportError(status, line.json);
    }
  }
  if (line.json) {
    std::cout << absl::StrFormat(R"({"plans":%d,"mappings":%d})", kernels->size(), kernels->front().mappings) << "\n";
  } else {
    std::cout << absl::StrFormat("%d plans of %d mappings, estimated at %.0f to %.0f cycles\n", kernels->size(),
                                 kernels->front().mappings, kernels->front().plan.cycles, kernels->back().plan.cycles);
  }
  return kExitOk;
}

/// Writes the C++ sources of an FPGA design: the engines to the output, or all files to a folder.
int writeDesign(const CommandLine& line, const KernelFlags& flags, const v1::Target& target) {
  for (const CLI::Option* option : flags.of_ptx) {
    if (option->count() == 0) continue;
    return reportError(
        absl::InvalidArgumentError(absl::StrCat(option->get_name(), " is for PTX; ", target.name(),
                                                " is an FPGA: state further steps as statements of --op")),
        line.json);
  }
  const auto nest = typedNest(flags, "f32", false);
  if (!nest.ok()) return reportError(nest.status(), line.json);
  const bool printed = flags.out == "-";
  const auto design = designForFpga(*nest, target, flags.name, printed ? "" : flags.out);
  if (!design.ok()) {
    const bool impossible = absl::IsFailedPrecondition(design.status());
    return reportError(impossible ? absl::UnimplementedError(design.status().message()) : design.status(), line.json);
  }
  std::cout << (line.json ? design->json + "\n" : printed ? design->source : design->text);
  return kExitOk;
}

int writeKernel(const CommandLine& line, const KernelFlags& flags) {
  const auto target = describedTarget(line, flags.target);
  if (!target.ok()) return reportError(target.status(), line.json);
  if (target->has_logic()) return writeDesign(line, flags, *target);
  const auto nest = typedNest(flags, "f16", true);
  if (!nest.ok()) return reportError(nest.status(), line.json);
  compiler::ptx::Question question = flags.question;
  question.swizzled = !flags.plain;
  if (flags.plans > 0) return writePlans(line, flags, *target, *nest, question);
  const auto kernel = kernelOf(*nest, *target, flags.name, question);
  if (!kernel.ok()) return reportError(refused(kernel.status()), line.json);
  const std::string manifest = manifestOf(*kernel, *target), text = fileText(*kernel, *target);
  for (const auto& [file, content] : {std::pair(flags.manifest, manifest + "\n"), std::pair(flags.out, text)}) {
    if (file.empty() || file == "-") continue;
    if (absl::Status status = writeText(file, content); !status.ok()) return reportError(status, line.json);
  }
  if (flags.out == "-") {
    std::cout << text;
    return kExitOk;
  }
  Checked checked;
  if (flags.points > 0) {
    auto found = check(*kernel, *target, flags.seed, flags.points);
    if (!found.ok()) return reportError(absl::InternalError(found.status().message()), line.json);
    checked = *std::move(found);
  }
  if (line.json) {
    std::cout
        << absl::StrFormat(
               R"({"kernel":%s,"checked":{"blocks":%d,"results":%d,"wrong":%d,"largest_error":%.6g,"share_of_bound":%.6g},"fetches":{"accesses":%d,"cycles":%d},"stores":{"accesses":%d,"cycles":%d}})",
               manifest, checked.blocks, checked.results, checked.wrong, checked.largest_error,
               checked.largest_error_ratio, checked.run.fetches.accesses, checked.run.fetches.cycles,
               checked.run.stores.accesses, checked.run.stores.cycles)
        << "\n";
  } else {
    const auto& plan = kernel->plan;
    std::cout << absl::StrFormat("%s on %s, %s\n", print(plan.software), target->name(), plan.intrinsic.name())
              << mappingText(plan.software, plan.instruction, plan.matching) << ", of " << kernel->mappings
              << " with a kernel\n"
              << absl::StrFormat("%d blocks of %d threads, tiles of %dx%dx%d, %d stages in %d bytes\n", plan.grid(),
                                 plan.threads(), plan.tileX(), plan.tileY(), plan.tileR(), plan.stages,
                                 plan.sharedBytes());
    if (flags.points > 0) {
      std::cout << "run: " << checked.blocks << " of " << plan.grid() << " blocks, " << checked.results << " results, "
                << (checked.wrong > 0 ? absl::StrCat(checked.wrong, " wrong: ", checked.first_wrong)
                    : compiler::isFloatingPoint(plan.software.accesses[0].dtype)
                        ? absl::StrFormat("%.1e off at most, %.1f %% of the bound", checked.largest_error,
                                          100 * checked.largest_error_ratio)
                        : std::string("exact"))
                << "\nfetches: " << trafficText(checked.run.fetches)
                << "\ncopies in: " << trafficText(checked.run.stores) << "\n";
    }
  }
  return checked.wrong > 0 ? kExitInternal : kExitOk;
}

}  // namespace

void addKernelCommand(CommandLine& line) {
  CLI::App* command =
      line.add("kernel", "Compile an operator to PTX for a GPU, or to C++ for high-level synthesis for an FPGA");
  auto flags = std::make_shared<KernelFlags>();
  command->add_option("--target", flags->target, "built-in or registered name, or a description's file")->required();
  flags->op.addTo(command, "a name of table 5.3 (tessera mappings)")->required();
  command->add_option("--type", flags->type,
                      "element type of the sources: f16, bf16, s8, u8, f64, f32; default: f16, for FPGAs f32");
  command->add_option("--result", flags->result,
                      "element type of the result; default: the type of the sums (f32, s32 or f64)");
  command->add_option("--instruction", flags->question.instruction,
                      "instruction of the target; default: the one with the least estimated time");
  command
      ->add_option("--epilogue", flags->question.epilogue,
                   "a step applied to the sums before they are stored; repeat for several steps: '+ NAME[loops of "
                   "the\nresult]' adds a tensor of the result's type, 'relu' replaces negative values by zero")
      ->allow_extra_args(false);
  command->add_option("--name", flags->name, "name of the kernel's entry")
      ->capture_default_str()
      ->check([](const std::string& name) {
        const bool legal =
            !name.empty() && absl::ascii_isalpha(name[0]) && name.size() < 64 &&
            std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
        return legal ? "" : "letters, digits and '_' are accepted, a letter first";
      });
  CLI::Option* output =
      command
          ->add_option("-o,--output", flags->out,
                       "output file of the kernel, for FPGAs the folder of the sources; - prints without running")
          ->capture_default_str();
  CLI::Option* manifest =
      command->add_option("--manifest", flags->manifest, "output file of the launch data for a driver, as JSON")
          ->check(
              [](const std::string& file) { return file == "-" ? "a file is accepted; - prints kernels only" : ""; });
  command->add_flag("--plain", flags->plain,
                    "lay out rows of shared memory without the swizzle that avoids bank conflicts, for comparison");
  CLI::Option* points = command
                            ->add_option("--points", flags->points,
                                         "number of the operator's products whose blocks are run and compared; 0: none")
                            ->check(CLI::Range(int64_t{0}, int64_t{1} << 36))
                            ->capture_default_str();
  command->add_option("--seed", flags->seed, "seed of the tensors that the kernel runs on")->capture_default_str();
  command
      ->add_option(
          "--plans", flags->plans,
          "write this many plans, spread evenly over all mappings and tiles by estimated time, to the folder -o")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->needs(output)
      ->excludes(points)
      ->excludes(manifest);
  for (const char* name : {"--instruction", "--epilogue", "--manifest", "--plain", "--points", "--seed", "--plans"})
    flags->of_ptx.push_back(command->get_option(name));
  command->footer(
      "The operator's mapping becomes blocks of thread groups: tiles copied to shared memory stage by stage, "
      "fragments\n"
      "fetched from there, results kept in registers. The text is run by an interpreter of PTX and compared with the\n"
      "operator's loops; accesses that meet in one bank are counted. compiler/backends/ptx/README.md says how.\n"
      "For an FPGA the sources have read, compute and write processes over double buffers, and a test bench that any "
      "C++\n"
      "compiler builds; compiler/backends/hls/README.md says how.");
  command->callback([&line, flags] { line.action = [&line, flags] { return writeKernel(line, *flags); }; });
}

}  // namespace tessera::client
