#include "compiler/runtime/module_image.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "compiler/runtime/image_check.h"

namespace tessera::compiler {
namespace {

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U  // Linux 6.3
#endif

/// An anonymous file that can be mapped executable, even if vm.memfd_noexec is set.
int executableMemfd() {
  // Kernels before 6.3 refuse the unknown flag with EINVAL, and need none.
  const int fd = memfd_create("tessera-code", MFD_CLOEXEC | MFD_EXEC);
  return fd >= 0 || errno != EINVAL ? fd : memfd_create("tessera-code", MFD_CLOEXEC);
}

bool writeAll(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

struct SegmentSearch {
  uintptr_t base;
  std::string name;
  std::vector<ImageSegment> segments;
};

int collectSegments(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<SegmentSearch*>(data);
  if (info->dlpi_addr != search->base || search->name != info->dlpi_name) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || !(header.p_flags & PF_R)) continue;
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    search->segments.push_back({begin, begin + header.p_memsz, (header.p_flags & PF_X) != 0});
  }
  return 1;
}

std::vector<ImageSegment> segmentsOf(const link_map& map) {
  SegmentSearch search{map.l_addr, map.l_name, {}};
  dl_iterate_phdr(collectSegments, &search);
  return std::move(search.segments);
}

}  // namespace

RuntimeStatus ModuleImage::load(std::span<const uint8_t> code, const Requirements& requirements, uint64_t weights_bytes,
                                std::unique_ptr<ModuleImage>* image) {
  // Both checks come before the dynamic linker sees the bytes: it trusts what it loads.
  if (RuntimeStatus status = checkHost(requirements); !status.ok()) return status;
  uint64_t module = 0;
  if (RuntimeStatus status = checkImage(code, &module); !status.ok()) return status;
  std::unique_ptr<ModuleImage> loaded(new ModuleImage);
  loaded->fd_ = executableMemfd();
  if (loaded->fd_ < 0) return systemError("memfd_create for the artifact's code", errno);
  if (!writeAll(loaded->fd_, code)) return systemError("write the artifact's code to memory", errno);
  // The descriptor stays open while the code is loaded. The dynamic linker identifies loaded files by name; if the
  // number were reused, the name would refer to this image instead of the new one.
  const std::string path = "/proc/self/fd/" + std::to_string(loaded->fd_);
  loaded->handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!loaded->handle_) {
    const char* reason = dlerror();
    return runtimeError(TESSERA_CORRUPT, "the artifact's code cannot be loaded: %s",
                        reason ? reason : "unknown reason");
  }
  link_map* map = nullptr;
  if (dlinfo(loaded->handle_, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) {
    return runtimeError(TESSERA_IO_ERROR, "the artifact's code was loaded, and its place is not known: %s", dlerror());
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the dynamic linker gives the address as an integer
  loaded->table_ = reinterpret_cast<const tessera_module*>(map->l_addr + module);
  const std::vector<ImageSegment> segments = segmentsOf(*map);
  if (RuntimeStatus status = checkModule(loaded->table_, segments, requirements, weights_bytes); !status.ok()) {
    return status;
  }
  *image = std::move(loaded);
  return {};
}

ModuleImage::~ModuleImage() {
  if (handle_) dlclose(handle_);
  if (fd_ >= 0) close(fd_);
}

}  // namespace tessera::compiler
