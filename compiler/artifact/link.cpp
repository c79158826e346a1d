#include "compiler/artifact/link.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/artifact/internal_failure.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"
#include "proto/support/io_failure.h"
#include "proto/support/status_macros.h"

LLD_HAS_DRIVER(elf)

namespace tessera::compiler {
namespace {

absl::Status writeFile(const std::string& path, const std::string& contents) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  file.close();
  return file ? absl::OkStatus() : ioFailure("cannot write " + path, errno != 0 ? errno : EIO);
}

/// Collects the bytes written to a pipe, which lld opens by its path in /proc. lld writes ordinary files through a
/// mapping and would die of SIGBUS on a full disk; it writes a pipe from its own memory.
class PipeReader {
 public:
  PipeReader() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      error_ = errno;
      return;
    }
    write_ = ends[1];
    reader_ = std::thread([this, end = ends[0]] { readAll(end); });
  }
  ~PipeReader() { finish(); }
  PipeReader(const PipeReader&) = delete;
  PipeReader& operator=(const PipeReader&) = delete;

  int error() const { return error_; }
  std::string path() const { return absl::StrCat("/proc/self/fd/", write_); }

  /// All bytes written. The writer must have closed its end by now.
  std::string finish() {
    if (write_ >= 0) close(std::exchange(write_, -1));
    if (reader_.joinable()) reader_.join();
    return std::move(bytes_);
  }

 private:
  void readAll(int end) {
    constexpr size_t kPiece = size_t{1} << 16;
    for (std::string piece(kPiece, 0);;) {
      const ssize_t got = read(end, piece.data(), kPiece);
      if (got > 0) bytes_.append(piece, 0, static_cast<size_t>(got));
      if (got == 0 || (got < 0 && errno != EINTR)) break;
    }
    close(end);
  }

  int error_ = 0;
  int write_ = -1;
  std::string bytes_;
  std::thread reader_;
};

}  // namespace

absl::StatusOr<std::string> linkShared(const std::vector<std::string>& objects, const std::string& exported_symbol,
                                       const std::string& folder) {
  const std::string script = folder + "/exports.map";
  const std::string text = absl::StrCat("{ global: ", exported_symbol, "; local: *; };\n");
  TESSERA_RETURN_IF_ERROR(writeFile(script, text));
  std::vector<std::string> arguments = {
      "ld.lld", "-shared", "--version-script=" + script, "--gc-sections", "--hash-style=gnu", "--build-id=none",
      "-Bsymbolic",
      // Read-only after relocation, never writable and executable at once, bound at load time.
      "-z", "relro", "-z", "now", "-z", "noexecstack", "-z", "separate-code",
      // Generated code is self-contained: a call of libc or libm in it is a fault of the compiler and must fail here.
      "--no-undefined",
      // One thread: a task process has a CPU limit, and the result is the same.
      "--threads=1"};
  for (size_t i = 0; i < objects.size(); ++i) {
    arguments.push_back(absl::StrCat(folder, "/", i, ".o"));
    TESSERA_RETURN_IF_ERROR(writeFile(arguments.back(), objects[i]));
  }
  PipeReader library;
  if (library.error() != 0) return ioFailure("cannot make a pipe for the linked code", library.error());
  arguments.insert(arguments.end(), {"-o", library.path()});
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());

  // lld keeps its state in globals; after a crash it must not be called again.
  static std::mutex mutex;
  static bool broken = false;
  const std::lock_guard lock(mutex);
  if (broken) return internalFailure("lld failed before and cannot be used again in this process");
  std::string output, errors;
  llvm::raw_string_ostream output_stream(output), error_stream(errors);
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  const lld::Result result = lld::lldMain(pointers, output_stream, error_stream, drivers);
  broken = !result.canRunAgain;
  if (result.retCode != 0) return internalFailure(absl::StrCat("linking the kernels failed: ", errors));
  std::string code = library.finish();
  if (code.empty()) return internalFailure("lld wrote nothing");
  return code;
}

}  // namespace tessera::compiler
