#include "compiler/runtime/image_check.h"

#include <elf.h>

#include <cstring>
#include <optional>
#include <vector>

#include "compiler/runtime/module_abi.h"

namespace tessera::compiler {
namespace {

#if defined(__aarch64__)
constexpr uint64_t kRelative = R_AARCH64_RELATIVE;
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint64_t kRelative = R_X86_64_RELATIVE;
constexpr uint16_t kMachine = EM_X86_64;
#endif
constexpr uint64_t kPage = 4096;

RuntimeStatus refused(const char* what) {
  return runtimeError(TESSERA_CORRUPT, "the artifact's code is not as Tessera links it: %s", what);
}

/// The entries of the dynamic section. Accepts only entries that make the dynamic linker run no code: no initializers,
/// no other libraries, no ifuncs.
struct Dynamic {
  uint64_t symbols = 0, strings = 0, strings_size = 0, relocations = 0, relocations_size = 0, relative = 0;
};

class Image {
 public:
  explicit Image(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  RuntimeStatus check(uint64_t* module) {
    if (RuntimeStatus status = readSegments(); !status.ok()) return status;
    if (RuntimeStatus status = readDynamic(); !status.ok()) return status;
    if (RuntimeStatus status = checkRelocations(); !status.ok()) return status;
    return findModule(module);
  }

 private:
  template <typename T>
  std::optional<T> at(uint64_t offset) const {
    if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) return std::nullopt;
    T value{};
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  /// File offset of the bytes mapped at this address, if they are all in one segment that is writable or not, as
  /// requested.
  std::optional<uint64_t> offsetOf(uint64_t address, uint64_t size, bool writable) const {
    for (const Elf64_Phdr& load : loads_) {
      if (((load.p_flags & PF_W) != 0) != writable || address < load.p_vaddr) continue;
      const uint64_t within = address - load.p_vaddr;
      if (within <= load.p_filesz && size <= load.p_filesz - within) return load.p_offset + within;
    }
    return std::nullopt;
  }

  RuntimeStatus readSegments() {
    const auto header = at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_type != ET_DYN ||
        header->e_phentsize != sizeof(Elf64_Phdr))
      return refused("not a 64-bit ELF library");
    if (header->e_machine != kMachine)
      return runtimeError(TESSERA_INCOMPATIBLE, "the artifact's code is for another machine");
    uint64_t end = 0;
    for (uint16_t i = 0; i < header->e_phnum; ++i) {
      const auto entry = at<Elf64_Phdr>(header->e_phoff + uint64_t{i} * sizeof(Elf64_Phdr));
      if (!entry) return refused("program headers beyond its end");
      const uint64_t size = bytes_.size();
      if (entry->p_offset > size || entry->p_filesz > size - entry->p_offset || entry->p_filesz > entry->p_memsz ||
          entry->p_vaddr > UINT64_MAX / 4 || entry->p_memsz > UINT64_MAX / 4)
        return refused("a segment beyond its end");
      switch (entry->p_type) {
        case PT_LOAD:
          if (entry->p_vaddr / kPage * kPage < end) return refused("segments that overlap");
          if (entry->p_vaddr % kPage != entry->p_offset % kPage) return refused("a segment that cannot be mapped");
          if ((entry->p_flags & PF_W) && (entry->p_flags & PF_X))
            return refused("a segment that is writable and executable");
          end = (entry->p_vaddr + entry->p_memsz + kPage - 1) / kPage * kPage;
          loads_.push_back(*entry);
          break;
        case PT_DYNAMIC:
          if (dynamic_) return refused("two tables for the dynamic linker");
          dynamic_ = *entry;
          break;
        case PT_NULL:
        case PT_PHDR:
        case PT_NOTE:
        case PT_GNU_STACK:
        case PT_GNU_RELRO:
          break;
        default:
          return refused("a segment of an unknown kind");
      }
    }
    return dynamic_ ? RuntimeStatus() : refused("no table for the dynamic linker");
  }

  RuntimeStatus readDynamic() {
    const auto offset = offsetOf(dynamic_->p_vaddr, dynamic_->p_filesz, true);
    if (!offset || *offset != dynamic_->p_offset) return refused("a table for the dynamic linker that is not mapped");
    std::vector<int64_t> seen;
    for (uint64_t place = 0; place < dynamic_->p_filesz; place += sizeof(Elf64_Dyn)) {
      const auto entry = at<Elf64_Dyn>(*offset + place);
      if (!entry || sizeof(Elf64_Dyn) > dynamic_->p_filesz - place) break;
      if (entry->d_tag == DT_NULL) return {};
      for (const int64_t tag : seen)
        if (tag == entry->d_tag) return refused("an entry for the dynamic linker twice");
      seen.push_back(entry->d_tag);
      const uint64_t value = entry->d_un.d_val;
      bool good = true;
      switch (entry->d_tag) {
        case DT_SYMTAB:
          table_.symbols = value;
          break;
        case DT_STRTAB:
          table_.strings = value;
          break;
        case DT_STRSZ:
          table_.strings_size = value;
          break;
        case DT_RELA:
          table_.relocations = value;
          break;
        case DT_RELASZ:
          table_.relocations_size = value;
          break;
        case DT_RELACOUNT:
          table_.relative = value;
          break;
        case DT_RELAENT:
          good = value == sizeof(Elf64_Rela);
          break;
        case DT_SYMENT:
          good = value == sizeof(Elf64_Sym);
          break;
        case DT_FLAGS:
          good = (value & ~uint64_t{DF_SYMBOLIC | DF_BIND_NOW}) == 0;
          break;
        case DT_FLAGS_1:
          good = (value & ~uint64_t{DF_1_NOW}) == 0;
          break;
        case DT_GNU_HASH:
          break;
        default:
          good = false;
      }
      if (!good)
        return refused("it asks the dynamic linker for more than addresses, for example to run code while loading");
    }
    return refused("a table for the dynamic linker without an end");
  }

  /// Checks that each relocation adds the load address to a word of the data segment, not to tables that the dynamic
  /// linker reads.
  RuntimeStatus checkRelocations() const {
    if (table_.relocations_size == 0) return {};
    const auto offset = offsetOf(table_.relocations, table_.relocations_size, false);
    if (!offset) return refused("relocations outside of read-only data");
    const uint64_t count = table_.relocations_size / sizeof(Elf64_Rela);
    if (count * sizeof(Elf64_Rela) != table_.relocations_size || table_.relative > count)
      return refused("an incomplete relocation");
    for (uint64_t i = 0; i < count; ++i) {
      const auto entry = at<Elf64_Rela>(*offset + i * sizeof(Elf64_Rela));
      if (!entry || entry->r_info != kRelative) return refused("a relocation that is not relative");
      const uint64_t place = entry->r_offset;
      if (!offsetOf(place, sizeof(uint64_t), true)) return refused("a relocation outside of its data");
      if (place + sizeof(uint64_t) > dynamic_->p_vaddr && place < dynamic_->p_vaddr + dynamic_->p_memsz)
        return refused("a relocation of data that the dynamic linker reads");
    }
    return {};
  }

  /// Finds the one symbol by reading it here: the dynamic linker might treat it as a function that it has to call (an
  /// ifunc).
  RuntimeStatus findModule(uint64_t* module) const {
    const auto symbols = offsetOf(table_.symbols, 2 * sizeof(Elf64_Sym), false);
    const auto symbol = symbols ? at<Elf64_Sym>(*symbols + sizeof(Elf64_Sym)) : std::nullopt;
    constexpr std::string_view name = TESSERA_MODULE_SYMBOL;
    const auto strings = offsetOf(table_.strings, table_.strings_size, false);
    if (!symbol || !strings || symbol->st_name > table_.strings_size ||
        table_.strings_size - symbol->st_name < name.size() + 1 ||
        std::memcmp(bytes_.data() + *strings + symbol->st_name, TESSERA_MODULE_SYMBOL, name.size() + 1) != 0)
      return runtimeError(TESSERA_CORRUPT, "the artifact's code has no symbol %s", TESSERA_MODULE_SYMBOL);
    if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_shndx == SHN_UNDEF)
      return refused("its symbol is not data");
    *module = symbol->st_value;
    return {};
  }

  std::span<const uint8_t> bytes_;
  std::vector<Elf64_Phdr> loads_;
  std::optional<Elf64_Phdr> dynamic_;
  Dynamic table_;
};

}  // namespace

RuntimeStatus checkImage(std::span<const uint8_t> code, uint64_t* module) { return Image(code).check(module); }

}  // namespace tessera::compiler
