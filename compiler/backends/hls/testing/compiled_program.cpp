#include "compiler/backends/hls/testing/compiled_program.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace tessera::compiler::hls::testing {

absl::StatusOr<std::unique_ptr<CompiledPrograms>> CompiledPrograms::compile(
    const std::vector<std::vector<SourceFile>>& programs) {
  std::unique_ptr<CompiledPrograms> result(new CompiledPrograms);
  std::string folder = (std::filesystem::temp_directory_path() / "tessera-hls-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return absl::InternalError("no temporary folder");
  result->folder_ = folder;
  std::ofstream all(folder + "/all.cpp");
  for (const std::vector<SourceFile>& sources : programs) {
    for (const SourceFile& each : sources) {
      std::ofstream(folder + "/" + each.name) << each.text;
      if (each.name.ends_with(".cpp")) all << "#include \"" << each.name << "\"\n";
    }
  }
  all.close();
  const std::string command = absl::StrCat(TESSERA_CXX,
                                           " -std=c++17 -O1 -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function "
                                           "-Werror -fPIC -shared -DTESSERA_NO_MAIN -o ",
                                           folder, "/all.so ", folder, "/all.cpp > ", folder, "/log 2>&1");
  if (std::system(command.c_str()) != 0) {  // NOLINT: the command has no text of users
    std::ifstream log(folder + "/log");
    std::stringstream text;
    text << log.rdbuf();
    return absl::InternalError(absl::StrCat("the sources do not compile:\n", text.str().substr(0, 4000)));
  }
  result->library_ = dlopen((folder + "/all.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (result->library_ == nullptr) return absl::InternalError(dlerror());
  return result;
}

CompiledPrograms::~CompiledPrograms() {
  if (library_ != nullptr) dlclose(library_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

CompiledPrograms::Run CompiledPrograms::find(const std::string& name) const {
  return reinterpret_cast<Run>(dlsym(library_, name.c_str()));
}

}  // namespace tessera::compiler::hls::testing
