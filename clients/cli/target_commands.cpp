// tessera targets [list | runnable | opencl | show | validate | register | host]

#include <google/protobuf/text_format.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/list_output.h"
#include "clients/cli/output.h"
#include "clients/cli/target_flag.h"
#include "compiler/backends/opencl/driver.h"
#include "compiler/target/host.h"
#include "compiler/target/target.h"

namespace tessera::client {
namespace {

using TargetStub = v1::TargetService::Stub;

std::string textProto(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

std::vector<std::string> targetRow(const v1::GetTargetResponse& entry) {
  const v1::Target& target = entry.target();
  return {target.name(),
          v1::Target::Family_Name(target.family()),
          target.code().cpu(),
          target.has_registers()
              ? absl::StrCat(target.registers().vector_count(), " x ", target.registers().vector_bits(), " bit")
              : "-",
          entry.builtin() ? "built-in" : "registered",
          target.summary()};
}

const std::vector<std::string> kTargetHeadings = {"TARGET", "FAMILY", "CPU", "REGISTERS", "FROM", "SUMMARY"};

template <typename Call>
int list(const CommandLine& line, const ListFlags& flags, Call&& call) {
  return printList<v1::ListTargetsRequest>(
      line, flags, "targets", kTargetHeadings, call, [](const auto& page) -> const auto& { return page.targets(); },
      targetRow);
}

v1::ListTargetsResponse builtins(bool (*wanted)(const v1::Target&)) {
  v1::ListTargetsResponse page;
  for (const v1::Target& target : compiler::builtinTargets()) {
    if (!wanted(target)) continue;
    v1::GetTargetResponse& entry = *page.add_targets();
    *entry.mutable_target() = target;
    entry.set_builtin(true);
    entry.set_hash(compiler::targetHash(target));
  }
  return page;
}

int list(const CommandLine& line, const ListFlags& flags) {
  auto channel = line.connectIfThere();
  if (!channel.ok()) return reportError(channel.status(), line.json);
  if (*channel == nullptr) {
    const v1::ListTargetsResponse all = builtins([](const v1::Target&) { return true; });
    return printBuiltin(line, flags, "targets", kTargetHeadings, all.targets(), targetRow);
  }
  return list(line, flags, [&](const auto& request) {
    return (*channel)->call((*channel)->targets(), &TargetStub::ListTargets, request);
  });
}

// Needs no server: the built-in targets and this machine suffice.
int listRunnable(const CommandLine& line) {
  const v1::ListTargetsResponse page = builtins([](const v1::Target& target) {
    static const v1::HostInfo host = compiler::hostInfo();
    return compiler::hostProblems(target.code(), host).empty();
  });
  ListFlags all;
  all.limit = 0;
  return list(line, all, [&](const auto&) { return absl::StatusOr<v1::ListTargetsResponse>(page); });
}

int show(const CommandLine& line, const std::string& name) {
  v1::Target target;
  if (name == "host") {
    auto ref = resolveTarget(name);
    if (!ref.ok()) return reportError(ref.status(), line.json);
    target = ref->inline_();
  } else if (const v1::Target* builtin = compiler::findBuiltinTarget(name); builtin && !line.namesServer()) {
    target = *builtin;
  } else {
    auto channel = line.connect();
    if (!channel.ok()) return reportError(channel.status(), line.json);
    v1::GetTargetRequest request;
    request.set_name(name);
    auto answer = (*channel)->call((*channel)->targets(), &TargetStub::GetTarget, request);
    if (!answer.ok()) return reportError(answer.status(), line.json);
    target = answer->target();
  }
  std::cout << (line.json ? toJson(target) + "\n" : textProto(target));
  return 0;
}

int validate(const CommandLine& line, const std::string& path) {
  auto target = readTargetFile(path);
  if (!target.ok()) return reportError(target.status(), line.json);
  auto channel = line.connect();
  if (!channel.ok()) return reportError(channel.status(), line.json);
  v1::ValidateTargetRequest request;
  *request.mutable_target() = *target;
  auto answer = (*channel)->call((*channel)->targets(), &TargetStub::ValidateTarget, request);
  if (!answer.ok()) return reportError(answer.status(), line.json);
  if (line.json) {
    std::cout << toJson(*answer) << "\n";
  } else if (answer->problems().empty()) {
    std::cout << "valid; hash " << answer->hash() << "\n";
  }
  for (const auto& problem : answer->problems()) {
    if (!line.json) std::cerr << path << ": " << problem.field() << ": " << problem.message() << "\n";
  }
  return answer->problems().empty() ? kExitOk : kExitInvalid;
}

int registerTarget(const CommandLine& line, const std::string& path) {
  auto target = readTargetFile(path);
  if (!target.ok()) return reportError(target.status(), line.json);
  auto channel = line.connect();
  if (!channel.ok()) return reportError(channel.status(), line.json);
  v1::RegisterTargetRequest request;
  *request.mutable_target() = *target;
  auto answer = (*channel)->call((*channel)->targets(), &TargetStub::RegisterTarget, request);
  if (!answer.ok()) return reportError(answer.status(), line.json);
  std::cout << (line.json ? toJson(*answer)
                          : absl::StrCat(target->name(), answer->created() ? " registered" : " is there already",
                                         "; hash ", answer->hash()))
            << "\n";
  return 0;
}

int showOpenClDevice(const CommandLine& line) {
  const absl::StatusOr<compiler::opencl::Device> device = compiler::opencl::firstDevice();
  if (!device.ok()) return reportError(device.status(), line.json);
  const v1::Target target = compiler::opencl::describedDevice(*device);
  std::cout << (line.json ? toJson(target) + "\n" : textProto(target));
  return 0;
}

}  // namespace

void addTargetCommands(CommandLine& line) {
  CLI::App* command = line.add("targets", "List targets; show, validate or register one");
  auto flags = std::make_shared<ListFlags>();
  auto name = std::make_shared<std::string>(), file = std::make_shared<std::string>(),
       addition = std::make_shared<std::string>();
  flags->addTo(command, "name, family, summary", "name");
  auto* show_option = command->add_option("--show", *name, "print a target as a text proto (host: this machine)");
  auto* validate_option = command->add_option("--validate", *file, "check a description file")->excludes(show_option);
  auto* register_option = command->add_option("--register", *addition, "register a description file under its name")
                              ->excludes(show_option)
                              ->excludes(validate_option);
  auto runnable = std::make_shared<bool>(false);
  command->add_flag("--runnable", *runnable, "list built-in targets whose code runs on this machine; needs no server")
      ->excludes(show_option)
      ->excludes(validate_option)
      ->excludes(register_option);
  auto opencl = std::make_shared<bool>(false);
  command
      ->add_flag(
          "--opencl", *opencl,
          "print what the first OpenCL device of this machine states of itself, as a text proto; needs no server")
      ->excludes(show_option)
      ->excludes(validate_option)
      ->excludes(register_option)
      ->excludes("--runnable");
  for (const char* of_lists : {"--filter", "--order-by", "--limit", "--page-token"}) {
    for (const char* other : {"--show", "--validate", "--register", "--runnable", "--opencl"})
      command->get_option(of_lists)->excludes(command->get_option(other));
  }
  command->callback([&line, flags, name, file, addition, runnable, opencl] {
    line.action = [&line, flags, name, file, addition, runnable, opencl] {
      if (*runnable) return listRunnable(line);
      if (*opencl) return showOpenClDevice(line);
      if (!name->empty()) return show(line, *name);
      if (!file->empty()) return validate(line, *file);
      if (!addition->empty()) return registerTarget(line, *addition);
      return list(line, *flags);
    };
  });
}

}  // namespace tessera::client
