// Runs an artifact through libtessera_rt's C interface, for machines without the command line client, such as emulated
// ones. Inputs are files of bare elements.
//   run_artifact ARTIFACT FOLDER [THREADS]
// reads FOLDER/in0, in1, ... and writes FOLDER/out0, out1, ...; for a variant it also prints one line "OUTPUT NAME
// EXTENT..." for each output. Runs once without and once with each guard, and requires equal bytes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "compiler/runtime/tessera.h"
#include "proto/version/version.h"

namespace {

void check(tessera_status status, const char* what) {
  if (status == TESSERA_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, tessera_last_error());
  std::exit(1);
}

/// Bytes at an address that is a multiple of 64, if there are any.
class Tensor {
 public:
  explicit Tensor(size_t size) : storage_(size + 64), size_(size) {}
  char* data() { return storage_.data() + (64 - reinterpret_cast<uintptr_t>(storage_.data()) % 64) % 64; }
  size_t size() const { return size_; }

 private:
  std::vector<char> storage_;
  size_t size_;
};

std::vector<std::string> bytesOf(std::vector<Tensor>& tensors) {
  std::vector<std::string> bytes;
  bytes.reserve(tensors.size());
  for (Tensor& tensor : tensors) bytes.emplace_back(tensor.data(), tensor.size());
  return bytes;
}

}  // namespace

const char* tessera::releaseVersion() { return "under emulation"; }

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "run_artifact ARTIFACT FOLDER [THREADS]\n"), 2;
  const std::string folder = argv[2];
  tessera_report_faults(nullptr);
  tessera_artifact* artifact = nullptr;
  tessera_session* session = nullptr;
  check(tessera_artifact_load(argv[1], TESSERA_VERIFY_WEIGHTS, &artifact), "load");
  check(tessera_session_create(artifact, argc > 3 ? std::atoi(argv[3]) : 1, &session), "session");

  std::vector<Tensor> inputs, outputs;
  std::vector<tessera_const_buffer> in;
  std::vector<tessera_buffer> out;
  tessera_tensor_info info;
  for (size_t i = 0; i < tessera_artifact_num_inputs(artifact); ++i) {
    check(tessera_artifact_input(artifact, i, &info), "input");
    std::ifstream file(folder + "/in" + std::to_string(i), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    inputs.emplace_back(bytes.size());
    std::memcpy(inputs.back().data(), bytes.data(), bytes.size());
  }
  for (Tensor& tensor : inputs) in.push_back({tensor.data(), tensor.size()});
  for (size_t i = 0; i < tessera_artifact_num_outputs(artifact); ++i) {
    check(tessera_artifact_output(artifact, i, &info), "output");
    outputs.emplace_back(static_cast<size_t>(info.size_bytes));
  }
  for (Tensor& tensor : outputs) out.push_back({tensor.data(), tensor.size()});

  check(tessera_session_run(session, in.data(), in.size(), out.data(), out.size()), "run");
  const std::vector<std::string> plain = bytesOf(outputs);
  for (tessera_guard guard : {TESSERA_GUARD_BACK, TESSERA_GUARD_FRONT}) {
    check(tessera_session_run_guarded(session, in.data(), in.size(), out.data(), out.size(), guard), "guarded run");
    if (bytesOf(outputs) == plain) continue;
    return std::fprintf(stderr, "a guarded run differs from a plain one\n"), 1;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    check(tessera_artifact_output(artifact, i, &info), "output");
    std::ofstream(folder + "/out" + std::to_string(i), std::ios::binary)
        .write(plain[i].data(), static_cast<std::streamsize>(plain[i].size()));
    std::printf("%s\n", info.name);
  }
  tessera_session_destroy(session);
  tessera_artifact_destroy(artifact);
  return 0;
}
