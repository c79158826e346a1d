#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/backends/ptx/machine_block.h"
#include "compiler/backends/spatial/element.h"
#include "proto/messages/element_size.h"

/// wmma: the manual does not specify which thread holds which element. The machine uses a different order for each
/// layout, so that a fragment loaded in one layout and multiplied in another gives a wrong result.
namespace tessera::compiler::ptx {
namespace {

constexpr int64_t kRowBytes = 16;   // bytes that a thread reads at once
constexpr size_t kRowsAtOnce = 8;   // rows whose accesses may conflict
constexpr size_t kSourceWords = 8;  // registers of a source, for every shape
constexpr int64_t kUnitBytes = 4;   // bytes of a register

/// Number of a thread's registers.
size_t wordsOf(const std::string& role, v1::DataType type) {
  if (role == "a" || role == "b") return type == v1::DATA_TYPE_F16 ? kSourceWords : 0;
  return type == v1::DATA_TYPE_F32 ? 8 : type == v1::DATA_TYPE_F16 ? 4 : 0;
}

/// Position of the `number`-th element of its matrix: thread, register, and part of the register.
struct Slot {
  int thread;
  size_t word, part;
};
Slot slotOf(int64_t number, v1::DataType type) {
  const auto in_word = static_cast<size_t>(kUnitBytes / elementBytes(type));
  const auto slot = static_cast<size_t>(number / kLanes);
  return {static_cast<int>(number % kLanes), slot / in_word, slot % in_word};
}

}  // namespace

bool Block::opaque() {
  const bool multiplies = i_->op[1] == "mma", moves = i_->op[1] == "load" || i_->op[1] == "store";
  constexpr size_t kShape = 6;  // position among the words
  if ((!multiplies && !moves) || i_->op.size() != 9 || i_->op[multiplies ? 2 : 3] != "sync" ||
      i_->op[multiplies ? 3 : 4] != "aligned")
    return fail("is not known");
  int m = 0, n = 0, k = 0;
  const std::vector<std::string> sizes = absl::StrSplit(i_->op[kShape], absl::ByAnyChar("mnk"));
  if (sizes.size() != 4 || !absl::SimpleAtoi(sizes[1], &m) || !absl::SimpleAtoi(sizes[2], &n) ||
      !absl::SimpleAtoi(sizes[3], &k) || k != 16 || m * n != 256 || m < 8 || n < 8)
    return fail("its shape is not known");
  for (int t = 0; t < kLanes; ++t) {
    if (!active(t)) return fail("threads of a group differ");
  }
  if (multiplies) return multiplyOpaque(m, n, k);
  const std::string& role = i_->op[2];
  if (role != (i_->op[1] == "store" ? "d" : role) || (role != "a" && role != "b" && role != "c" && role != "d"))
    return fail("is not known");
  return moveOpaque(role == "b" ? k : m, role == "a" ? k : n);
}

bool Block::moveOpaque(int rows, int columns) {
  const bool load = i_->op[1] == "load", in_rows = i_->op[5] == "row";
  const std::string& role = i_->op[2];
  const v1::DataType type = typeOf(i_->op[8]);
  const size_t words = wordsOf(role, type);
  if (i_->op[7] != "shared" || (!in_rows && i_->op[5] != "col") || words == 0 || i_->operands.size() != 3 ||
      i_->operands[load ? 0 : 1].list.size() != words)
    return fail("has another level, other types or registers than its shape");
  const std::vector<int>& registers = i_->operands[load ? 0 : 1].list;
  const auto bytes = static_cast<uint64_t>(elementBytes(type));
  const uint64_t begin = address(load ? 1 : 0, 0), pitch = value(2, 0) * bytes;
  // The manual requires base and stride to be multiples of a thread's data.
  const uint64_t unit = words * kUnitBytes;
  if (begin % unit != 0 || pitch % unit != 0)
    return fail(absl::StrCat("rows at ", begin, ", ", pitch, " bytes apart, are not aligned to ", unit));
  for (int t = 1; t < kLanes; ++t) {
    if (address(load ? 1 : 0, t) != begin || value(2, t) * bytes != pitch) return fail("threads have other addresses");
  }
  const int lines = in_rows ? rows : columns, in_line = in_rows ? columns : rows;
  // Sources have a separate order for each layout; results have one order, whatever the layout of the store.
  const bool own_order = load && role != "c" && !in_rows;
  for (int line = 0; line < lines; ++line) {
    for (int e = 0; e < in_line; ++e) {
      const uint64_t at = begin + static_cast<uint64_t>(line) * pitch + static_cast<uint64_t>(e) * bytes;
      uint8_t* memory = shared(at, bytes);
      if (!memory) return fail(absl::StrCat("an element at ", at, " is not there"));
      const int row = in_rows ? line : e, column = in_rows ? e : line;
      const Slot slot = slotOf(own_order ? column * rows + row : row * columns + column, type);
      uint8_t* held = reinterpret_cast<uint8_t*>(&reg(registers[slot.word], slot.thread)) + slot.part * bytes;
      load ? std::memcpy(held, memory, bytes) : std::memcpy(memory, held, bytes);
      if (!load) wrote(at, bytes);
    }
  }
  for (int64_t byte = 0; byte < in_line * static_cast<int64_t>(bytes); byte += kRowBytes) {
    std::vector<int64_t> at;
    for (int line = 0; line < lines; ++line) {
      at.push_back(static_cast<int64_t>(begin) + line * static_cast<int64_t>(pitch) + byte);
      if (at.size() < kRowsAtOnce && line + 1 < lines) continue;
      count(load ? run_.fetches : run_.stores, at, kRowBytes);
      at.clear();
    }
  }
  return true;
}

bool Block::multiplyOpaque(int m, int n, int k) {
  const v1::DataType to = typeOf(i_->op[7]), from = v1::DATA_TYPE_F16;
  const bool in_rows[2] = {i_->op[4] == "row", i_->op[5] == "row"};
  const auto& words = i_->operands;
  if (i_->op[8] != i_->op[7] || words.size() != 4 || words[0].list.size() != wordsOf("d", to) ||
      words[3].list.size() != words[0].list.size() || words[1].list.size() != kSourceWords ||
      words[2].list.size() != kSourceWords || (!in_rows[0] && i_->op[4] != "col") ||
      (!in_rows[1] && i_->op[5] != "col"))
    return fail("its types or registers are not known");
  // PTX does not say which thread holds which element of a fragment. slotOf() is this machine's
  // own choice, the same for loads, stores and products: correct code does not depend on it.
  const auto read = [&](size_t operand, int count, v1::DataType type) {
    std::vector<double> elements(static_cast<size_t>(count));
    for (int number = 0; number < count; ++number) {
      const Slot slot = slotOf(number, type);
      simulator::decode(type,
                        reinterpret_cast<const uint8_t*>(&reg(words[operand].list[slot.word], slot.thread)) +
                            slot.part * static_cast<size_t>(elementBytes(type)),
                        1, &elements[static_cast<size_t>(number)]);
    }
    return elements;
  };
  const std::vector<double> left = read(1, m * k, from), right = read(2, k * n, from), before = read(3, m * n, to);
  std::vector<double> sums(static_cast<size_t>(m * n));
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      double sum = 0;
      for (int r = 0; r < k; ++r)
        sum += left[static_cast<size_t>(in_rows[0] ? row * k + r : r * m + row)] *
               right[static_cast<size_t>(in_rows[1] ? r * n + column : column * k + r)];
      const auto number = static_cast<size_t>(row * n + column);
      sums[number] = simulator::rounded(sum + before[number], to);
    }
  }
  for (int number = 0; number < m * n; ++number) {
    const Slot slot = slotOf(number, to);
    simulator::encode(to, &sums[static_cast<size_t>(number)], 1,
                      reinterpret_cast<uint8_t*>(&reg(words[0].list[slot.word], slot.thread)) +
                          slot.part * static_cast<size_t>(elementBytes(to)));
  }
  return true;
}

}  // namespace tessera::compiler::ptx
