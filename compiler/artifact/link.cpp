#include "compiler/artifact/link.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"
#include "proto/failure.h"
#include "proto/io_failure.h"

LLD_HAS_DRIVER(elf)

namespace tessera::compiler {
namespace {

absl::Status internal(const std::string& message) { return failureStatus(v1::Failure::INTERNAL, message); }

absl::Status writeFile(const std::string& path, const std::string& contents) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  file.close();
  return file ? absl::OkStatus() : ioFailure("cannot write " + path, errno != 0 ? errno : EIO);
}

/// lld writes its output through a mapping, and so dies of SIGBUS where the disk has no room: it is asked for before.
absl::Status checkRoom(const std::string& path, const std::vector<std::string>& objects) {
  constexpr size_t kHeaders = size_t{1} << 20;  // and alignment, with room to spare
  const size_t bytes =
      std::transform_reduce(objects.begin(), objects.end(), kHeaders, std::plus<>(), std::size<std::string>);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return ioFailure("cannot create " + path, errno);
  const int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  close(fd);
  unlink(path.c_str());
  return error == 0 ? absl::OkStatus() : ioFailure("cannot write " + path, error);
}

}  // namespace

absl::Status linkShared(const std::vector<std::string>& objects, const std::string& exported_symbol,
                        const std::string& folder) {
  const std::string script = folder + "/exports.map", library = folder + "/code.so";
  const std::string text = absl::StrCat("{ global: ", exported_symbol, "; local: *; };\n");
  if (absl::Status status = writeFile(script, text); !status.ok()) return status;
  std::vector<std::string> arguments = {
      "ld.lld", "-shared", "-o", library, "--version-script=" + script, "--gc-sections", "--hash-style=gnu",
      "--build-id=none", "-Bsymbolic",
      // Read-only after relocation, never writable and executable at once, resolved when loaded.
      "-z", "relro", "-z", "now", "-z", "noexecstack", "-z", "separate-code",
      // Generated code brings all it needs: a call of libc or libm in it is our fault and must not pass.
      "--no-undefined",
      // One thread: a task process has a CPU limit, and the outcome is the same.
      "--threads=1"};
  for (size_t i = 0; i < objects.size(); ++i) {
    arguments.push_back(absl::StrCat(folder, "/", i, ".o"));
    if (absl::Status status = writeFile(arguments.back(), objects[i]); !status.ok()) return status;
  }
  if (absl::Status status = checkRoom(library, objects); !status.ok()) return status;
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());

  // lld keeps its state in globals; after a crash of its own it must not be entered again.
  static std::mutex mutex;
  static bool broken = false;
  const std::lock_guard lock(mutex);
  if (broken) return internal("lld failed before and cannot be used again in this process");
  std::string output, errors;
  llvm::raw_string_ostream output_stream(output), error_stream(errors);
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  const lld::Result result = lld::lldMain(pointers, output_stream, error_stream, drivers);
  broken = !result.canRunAgain;
  if (result.retCode != 0) return internal(absl::StrCat("linking the kernels failed: ", errors));
  return absl::OkStatus();
}

}  // namespace tessera::compiler
