// The oracle of importer and interpreter: walks ONNX's backend test cases, imports each model, interprets it
// (reference_run.h) and compares with the expected outputs that ship with the case.
//
//   import_conformance --data DIR [--filter TEXT] [--unsupported FILE] [--verbose]
//
// A check of each model must agree with its import. A case named in the file of unsupported cases must fail with a
// typed error; every other one must pass. Each case runs in a child process: a crash is one failed case.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/constant.h"
#include "compiler/import/model_error.h"
#include "compiler/import/model_file.h"
#include "compiler/import/testing/reference_run.h"
#include "onnx/onnx.pb.h"
#include "proto/support/cli11.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

namespace fs = std::filesystem;

enum class Outcome { kPass, kFail, kUnsupported };

struct Verdict {
  Outcome outcome;
  std::string text;
};

/// Reads the numbered tensors `input_0.pb`, ... of a data set.
absl::StatusOr<std::vector<ConstantPtr>> readTensors(const fs::path& folder, const std::string& prefix) {
  std::vector<ConstantPtr> tensors;
  for (int i = 0;; ++i) {
    std::ifstream file(folder / absl::StrCat(prefix, "_", i, ".pb"), std::ios::binary);
    if (!file) return tensors;
    auto proto = std::make_shared<onnx::TensorProto>();
    if (!proto->ParseFromIstream(&file) || proto->data_type() == 0) {
      return absl::UnimplementedError(absl::StrCat(prefix, "_", i, ".pb is not a tensor"));
    }
    ExternalData none({});
    TESSERA_ASSIGN_OR_RETURN(auto tensor, readTensor(*proto, proto, none));
    tensors.push_back(std::move(tensor));
  }
}

bool nearlyEqual(double got, double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= 1e-5 + tolerance * std::abs(want);
}

/// Returns an empty text if equal within ONNX's tolerance (relative 1e-3), otherwise the first difference.
std::string difference(Constant want, v1::DataType dtype, const Shape& shape, const std::string& bytes) {
  Constant got{dtype, shape, bytes, nullptr};
  // The cases store bfloat16 results as u16 with the same bits.
  if (got.dtype == v1::DATA_TYPE_BF16 && want.dtype == v1::DATA_TYPE_U16) want.dtype = v1::DATA_TYPE_BF16;
  // Results of storage-only types leave the module as bytes and are compared as bytes.
  want.dtype = storageType(want.dtype);
  if (got.dtype != want.dtype || got.shape != want.shape) {
    return absl::StrCat(typeName(got.dtype), " ", shapeText(got.shape), " instead of ", typeName(want.dtype), " ",
                        shapeText(want.shape));
  }
  const double tolerance = elementBytes(want.dtype) == 2 && isFloat(want.dtype) ? 8e-3 : 1e-3;
  for (int64_t i = 0; i < want.elements(); ++i) {
    const bool same = isFloat(want.dtype) ? nearlyEqual(got.realAt(i), want.realAt(i), tolerance)
                                          : got.integerAt(i) == want.integerAt(i);
    if (!same) return absl::StrCat("element ", i, " is ", got.realAt(i), " instead of ", want.realAt(i));
  }
  return "";
}

/// Writes the model with the inputs that decide shapes as initializers, which a static compiler needs; `all` freezes
/// every input.
std::string freezeInputs(const fs::path& model_path, const std::vector<ConstantPtr>& inputs, bool all) {
  onnx::ModelProto model;
  std::ifstream in(model_path, std::ios::binary);
  model.ParseFromIstream(&in);
  auto* graph = model.mutable_graph();
  onnx::GraphProto declared;
  declared.mutable_input()->Swap(graph->mutable_input());
  for (int i = 0; i < declared.input_size(); ++i) {
    const bool given = i < static_cast<int>(inputs.size());
    const bool decides =
        given && ((!isFloat(inputs[i]->dtype) && inputs[i]->shape.size() <= 1) || inputs[i]->shape.empty());
    if (!given || (!all && !decides)) {
      *graph->add_input() = declared.input(i);
      continue;
    }
    // Removes the input: with an initializer it would have a default value that runs may replace.
    const Constant& value = *inputs[i];
    auto* initializer = graph->add_initializer();
    initializer->set_name(declared.input(i).name());
    initializer->set_data_type(declared.input(i).type().tensor_type().elem_type());
    for (int64_t dim : value.shape) initializer->add_dims(dim);
    initializer->set_raw_data(std::string(value.bytes));
  }
  std::string path = (fs::temp_directory_path() / absl::StrCat("frozen-", getpid(), ".onnx")).string();
  std::ofstream out(path, std::ios::binary);
  model.SerializeToOstream(&out);
  return path;
}

absl::StatusOr<ImportedModel> importCase(mlir::MLIRContext& context, const std::string& path,
                                         const std::vector<ConstantPtr>& inputs) {
  ImportOptions options;
  onnx::ModelProto model;
  std::ifstream in(path, std::ios::binary);
  if (model.ParseFromIstream(&in)) {
    std::map<std::string, bool> initialized;
    for (const auto& initializer : model.graph().initializer()) initialized[initializer.name()] = true;
    size_t next = 0;
    for (const auto& input : model.graph().input()) {
      if (initialized.contains(input.name())) continue;
      const auto& dims = input.type().tensor_type().shape().dim();
      const bool fixed = input.type().tensor_type().has_shape() &&
                         std::all_of(dims.begin(), dims.end(), [](const auto& dim) { return dim.has_dim_value(); });
      if (!fixed && next < inputs.size()) options.input_shapes[input.name()] = inputs[next]->shape;
      ++next;
    }
  }
  absl::StatusOr<ImportedModel> imported = importOnnx(context, path, options);
  // A check, which continues after problems, must come to the same verdict.
  const absl::StatusOr<v1::CheckReport> checked = checkOnnx(context, path, options);
  if ((checked.ok() && checked->problems().empty()) == imported.ok()) return imported;
  return absl::InternalError(absl::StrCat("import: ", imported.status().ToString(), "; check: ",
                                          checked.ok() ? checked->ShortDebugString() : checked.status().ToString()));
}

bool needsConstants(const absl::Status& status) { return failureOf(status).found() == "a run-time value"; }

Verdict runDataSet(const fs::path& model, const fs::path& folder) {
  auto inputs = readTensors(folder, "input");
  auto outputs = readTensors(folder, "output");
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  // Unreadable data must still give a typed error.
  auto imported = importCase(context, model, inputs.ok() ? *inputs : std::vector<ConstantPtr>{});
  std::vector<ConstantPtr> left = inputs.ok() ? *inputs : std::vector<ConstantPtr>{};
  std::string note;
  for (const bool all : {false, true}) {
    if (imported.ok() || !inputs.ok() || !needsConstants(imported.status())) break;
    const std::string frozen = freezeInputs(model, *inputs, all);
    std::erase_if(left, [&](const ConstantPtr& value) {
      return all || (!isFloat(value->dtype) && value->shape.size() <= 1) || value->shape.empty();
    });
    imported = importCase(context, frozen, left);
    fs::remove(frozen);
    note = all ? " (all inputs constant)" : " (shape inputs constant)";
  }
  if (!imported.ok()) {
    const v1::Failure failure = failureOf(imported.status());
    const bool typed = failure.reason() == v1::Failure::UNSUPPORTED_OPERATOR;
    return {typed ? Outcome::kUnsupported : Outcome::kFail,
            absl::StrCat(v1::Failure::Reason_Name(failure.reason()), ": ", failure.message(), " [found ",
                         failure.found(), "; accepted ", failure.accepted(), "]")};
  }
  if (!inputs.ok()) return {Outcome::kFail, inputs.status().ToString()};
  if (!outputs.ok()) return {Outcome::kFail, outputs.status().ToString()};
  const std::vector<v1::TensorSpec> specs = imported->outputs;
  std::vector<std::string> bytes;
  for (const ConstantPtr& input : left) bytes.emplace_back(input->bytes);
  std::vector<Shape> shapes;
  auto results = referenceRun(*std::move(imported), bytes, &shapes);
  if (!results.ok()) return {Outcome::kFail, results.status().ToString()};
  for (size_t i = 0; i < outputs->size() && i < results->size(); ++i) {
    const std::string differs = difference(*(*outputs)[i], specs[i].dtype(), shapes[i], (*results)[i]);
    if (!differs.empty()) return {Outcome::kFail, absl::StrCat("output ", i, ": ", differs)};
  }
  return {Outcome::kPass, note};
}

Verdict runCase(const fs::path& folder) {
  Verdict verdict{Outcome::kFail, "no data set"};
  for (int i = 0; fs::exists(folder / absl::StrCat("test_data_set_", i)); ++i) {
    verdict = runDataSet(folder / "model.onnx", folder / absl::StrCat("test_data_set_", i));
    if (verdict.outcome != Outcome::kPass) break;
  }
  return verdict;
}

Verdict runIsolated(const fs::path& folder) {
  int ends[2];
  if (pipe(ends) != 0) return {Outcome::kFail, "no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(60);
    const Verdict verdict = runCase(folder);
    const std::string message = absl::StrCat(static_cast<int>(verdict.outcome), verdict.text);
    [[maybe_unused]] ssize_t written = write(ends[1], message.data(), message.size());
    _exit(0);
  }
  close(ends[1]);
  std::string message;
  char chunk[4096];
  for (ssize_t n; (n = read(ends[0], chunk, sizeof chunk)) > 0;) message.append(chunk, n);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return {Outcome::kFail, absl::StrCat("died of signal ", WTERMSIG(status))};
  if (message.empty()) return {Outcome::kFail, "no verdict"};
  return {static_cast<Outcome>(message[0] - '0'), message.substr(1)};
}

/// Reads lines "suite/case reason..." for the suite in the folder `data`. Skips cases that only the service's runner
/// excludes because of their test data.
std::map<std::string, std::string> readTable(const std::string& path, const fs::path& data) {
  std::map<std::string, std::string> table;
  const std::string suite = data.filename().string() + "/";
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t blank = line.find(' ');
    if (!line.starts_with(suite) || blank == std::string::npos) continue;
    const std::string reason = line.substr(blank + 1);
    if (!reason.starts_with("the test's own data")) table[line.substr(suite.size(), blank - suite.size())] = reason;
  }
  return table;
}

}  // namespace
}  // namespace tessera::compiler

int main(int argc, char** argv) {
  using namespace tessera::compiler;
  std::string data, filter, unsupported;
  bool verbose = false;
  CLI::App app("Runs ONNX's backend test cases against the importer");
  app.add_option("--data", data, "folder of cases")->required();
  app.add_option("--filter", filter, "run only cases whose name contains this");
  app.add_option("--unsupported", unsupported, "cases that must fail with a typed error, with the reason");
  app.add_flag("--verbose", verbose, "a line for each case, not only for surprises");
  CLI11_PARSE(app, argc, argv);

  const auto table = readTable(unsupported, data);
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(data)) {
    if (fs::exists(entry.path() / "model.onnx") && absl::StrContains(entry.path().filename().string(), filter)) {
      cases.push_back(entry.path());
    }
  }
  std::sort(cases.begin(), cases.end());
  int passed = 0, refused = 0, surprises = 0;
  for (const fs::path& path : cases) {
    const std::string name = path.filename();
    const Verdict verdict = runIsolated(path);
    const bool listed = table.contains(name);
    passed += verdict.outcome == Outcome::kPass;
    refused += verdict.outcome == Outcome::kUnsupported && listed;
    const bool known = listed && table.at(name).starts_with("known:");
    const bool expected = verdict.outcome == (known ? Outcome::kFail : listed ? Outcome::kUnsupported : Outcome::kPass);
    surprises += !expected;
    static constexpr const char* kNames[] = {"pass", "FAIL", "refused"};
    if (verbose || !expected) {
      std::printf("%s %s %s%s\n", expected ? " " : "!", kNames[static_cast<int>(verdict.outcome)], name.c_str(),
                  verdict.text.empty() ? "" : absl::StrCat(": ", verdict.text).c_str());
      std::fflush(stdout);
    }
  }
  std::printf("%zu cases: %d pass, %d refused as listed, %d surprises\n", cases.size(), passed, refused, surprises);
  return surprises == 0 && !cases.empty() ? 0 : 1;
}
