#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/backends/ptx/machine_block.h"
#include "compiler/backends/spatial/element.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::ptx {

template <typename Number>
std::vector<Number> Block::elements(const std::vector<int>& registers, v1::DataType type) {
  const size_t size = static_cast<size_t>(elementBytes(type)), each = size > 4 ? 1 : 4 / size;
  std::vector<Number> numbers(kLanes * registers.size() * each);
  for (int t = 0; t < kLanes; ++t) {
    for (size_t r = 0; r < registers.size(); ++r) {
      simulator::decode(type, reinterpret_cast<const uint8_t*>(&reg(registers[r], t)), each,
                        numbers.data() + (static_cast<size_t>(t) * registers.size() + r) * each);
    }
  }
  return numbers;
}

template <typename Number>
bool Block::product(int m, int n, int k, v1::DataType to, v1::DataType from) {
  const size_t e = elementBytes(from) > 4 ? 1 : 4 / static_cast<size_t>(elementBytes(from));
  const auto &c = i_->operands[0].list, &a = i_->operands[1].list, &b = i_->operands[2].list;
  // The manual's layout of fragments, independent of the digits in the description: thread t holds row t / 4 and column
  // pair t % 4 of each block of 8 rows.
  const size_t halves = static_cast<size_t>(m) / 8, pack = to == v1::DATA_TYPE_F16 ? 2 : 1;
  if (a.size() * e * kLanes != static_cast<size_t>(m * k) || b.size() * e * kLanes != static_cast<size_t>(n * k) ||
      c.size() * pack * kLanes != static_cast<size_t>(m * n)) {
    return fail("has other registers than its shape");
  }
  const std::vector<Number> as = elements<Number>(a, from), bs = elements<Number>(b, from),
                            cs = elements<Number>(i_->operands[3].list, to);
  std::vector<Number> left(static_cast<size_t>(m * k)), right(static_cast<size_t>(n * k));
  for (size_t t = 0; t < kLanes; ++t) {
    for (size_t r = 0; r < a.size(); ++r) {
      for (size_t x = 0; x < e; ++x) {
        const size_t row = t / 4 + 8 * (r % halves), column = t % 4 * e + x + 4 * e * (r / halves);
        left[row * static_cast<size_t>(k) + column] = as[(t * a.size() + r) * e + x];
      }
    }
    for (size_t r = 0; r < b.size(); ++r) {
      for (size_t x = 0; x < e; ++x)
        right[t / 4 * static_cast<size_t>(k) + t % 4 * e + x + 4 * e * r] = bs[(t * b.size() + r) * e + x];
    }
  }
  for (size_t t = 0; t < kLanes; ++t) {
    for (size_t x = 0; x < c.size() * pack; ++x) {
      const size_t row = t / 4 + 8 * (x / 2), column = t % 4 * 2 + x % 2;
      // Summed in double precision or 64 bits, the old value last, and rounded once.
      Number sum = 0;
      for (size_t r = 0; r < static_cast<size_t>(k); ++r)
        sum += left[row * static_cast<size_t>(k) + r] * right[column * static_cast<size_t>(k) + r];
      sum += cs[t * c.size() * pack + x];
      if constexpr (std::is_same_v<Number, int64_t>) {
        sum = simulator::held(sum, to, v1::Intrinsic::Arithmetic::WRAP);
      } else {
        sum = simulator::rounded(sum, to);
      }
      uint64_t& held = reg(c[x / pack], static_cast<int>(t));
      const auto bytes = static_cast<size_t>(elementBytes(to));
      if (x % pack == 0) held = 0;
      simulator::encode(to, &sum, 1, reinterpret_cast<uint8_t*>(&held) + x % pack * bytes);
    }
  }
  return true;
}

template <typename Number>
bool Block::read(const MatrixDescriptor& matrix, int64_t first, int64_t count, int k, v1::DataType from, bool turned,
                 std::vector<Number>& numbers) {
  const auto bytes = static_cast<uint64_t>(elementBytes(from));
  numbers.resize(static_cast<size_t>(count * k));
  for (int64_t kept = 0; kept < count; ++kept) {
    for (int64_t summed = 0; summed < k; ++summed) {
      const uint64_t at = matrix.addressOf(first + kept, summed, static_cast<int64_t>(bytes), turned);
      const uint8_t* memory = shared(at, bytes);
      if (!memory) return fail(absl::StrCat("an operand's element at ", at, " is not there"));
      // Asynchronous products read through another proxy: ordinary stores become visible to them after a fence only.
      if (unpublished_[at]) return fail(absl::StrCat("no fence has published what it reads at ", at));
      simulator::decode(from, memory, 1, &numbers[static_cast<size_t>(kept * k + summed)]);
    }
  }
  return true;
}

template <typename Number>
bool Block::finishAs(const MatrixDescriptor& left, const MatrixDescriptor& right, int n, int k, v1::DataType to,
                     v1::DataType from, bool adds) {
  const auto& words = i_->operands;
  // 16-bit operands may have either layout; others must be stored along the sum
  const bool chooses = elementBytes(from) == 2;
  if (words.size() != (chooses ? 8 : 4)) return fail("has other operands than its types");
  // The last two operands say whether a matrix is transposed.
  const bool turned[2] = {chooses && words[6].number == 1, chooses && words[7].number == 1};
  std::vector<Number> as, bs;
  // Four groups share one product; each computes 16 of its 64 rows.
  if (!read(left, index_ % 4 * 16, 16, k, from, turned[0], as) || !read(right, 0, n, k, from, turned[1], bs))
    return false;
  for (int t = 0; t < kLanes; ++t) {
    for (size_t r = 0; r < words[0].list.size(); ++r) {
      const size_t row = static_cast<size_t>(t) / 4 + r / 2 % 2 * 8,
                   column = r / 4 * 8 + static_cast<size_t>(t) % 4 * 2 + r % 2;
      uint64_t& held = reg(words[0].list[r], t);
      Number sum = 0, was = 0;
      for (size_t i = 0; i < static_cast<size_t>(k); ++i)
        sum += as[row * static_cast<size_t>(k) + i] * bs[column * static_cast<size_t>(k) + i];
      simulator::decode(to, reinterpret_cast<const uint8_t*>(&held), 1, &was);
      if (adds) sum += was;
      if constexpr (std::is_same_v<Number, int64_t>) {
        sum = simulator::held(sum, to, v1::Intrinsic::Arithmetic::WRAP);
      } else {
        sum = simulator::rounded(sum, to);
      }
      held = 0;
      simulator::encode(to, &sum, 1, reinterpret_cast<uint8_t*>(&held));
    }
  }
  return true;
}

bool Block::publish() {
  for (const auto& [at, bytes] : group_->unpublished)
    std::fill_n(unpublished_.begin() + static_cast<int64_t>(at), bytes, false);
  group_->unpublished.clear();
  return true;
}

// ldmatrix: threads 8 m to 8 m + 7 give the row addresses of matrix m; thread t receives element pair t % 4 of row t /
// 4, or the transposed one.
bool Block::matrices() {
  const bool turned = has("trans");
  const std::vector<int>& registers = i_->operands[0].list;
  for (size_t m = 0; m < registers.size(); ++m) {
    std::vector<int64_t> rows;
    for (int row = 0; row < 8; ++row) {
      rows.push_back(static_cast<int64_t>(address(1, static_cast<int>(m) * 8 + row)));
      if (!shared(static_cast<uint64_t>(rows.back()), 16)) return fail("a row is not there, or not aligned");
    }
    count(run_.fetches, rows, 16);
    for (int t = 0; t < kLanes; ++t) {
      uint32_t word = 0;
      if (!turned) {
        std::memcpy(&word, shared_.data() + rows[static_cast<size_t>(t / 4)] + t % 4 * 4, 4);
      } else {
        for (int e = 0; e < 2; ++e) {
          uint16_t element = 0;
          std::memcpy(&element, shared_.data() + rows[static_cast<size_t>(t % 4 * 2 + e)] + t / 4 * 2, 2);
          word |= uint32_t{element} << 16 * e;
        }
      }
      reg(registers[m], t) = word;
    }
  }
  return true;
}

bool Block::multiply() {
  const size_t words = i_->op.size();
  const std::string& shape = i_->op[3];
  int m = 0, n = 0, k = 0;
  const std::vector<std::string> sizes = absl::StrSplit(shape, absl::ByAnyChar("mnk"));
  if (words != 10 || sizes.size() != 4 || !absl::SimpleAtoi(sizes[1], &m) || !absl::SimpleAtoi(sizes[2], &n) ||
      !absl::SimpleAtoi(sizes[3], &k) || shape != absl::StrCat("m", m, "n", n, "k", k) || i_->op[4] != "row" ||
      i_->op[5] != "col" || n != 8) {
    return fail("its shape is not known");
  }
  const v1::DataType to = typeOf(i_->op[6]), left = typeOf(i_->op[7]), right = typeOf(i_->op[8]);
  if (to == v1::DATA_TYPE_UNSPECIFIED || left != right || left == v1::DATA_TYPE_UNSPECIFIED)
    return fail("its types are not known");
  return to == v1::DATA_TYPE_I32 ? product<int64_t>(m, n, k, to, left) : product<double>(m, n, k, to, left);
}

bool Block::startAsyncProduct() {
  if (has("fence")) return group_->fenced = true;
  if (has("commit_group")) {
    group_->going.push_back(std::move(group_->products));
    group_->products.clear();
    return true;
  }
  if (has("wait_group")) {
    // finish() reads operands of the product's own instruction, so `i_` is replaced meanwhile.
    const Instruction* const waits = i_;
    for (const uint64_t most = value(0, 0); group_->going.size() > most; group_->going.pop_front()) {
      for (const Product& product : group_->going.front()) {
        i_ = product.instruction;
        if (!finish(product)) return false;
      }
    }
    i_ = waits;
    return true;
  }
  if (i_->op[1] != "mma_async" || i_->operands.size() < 4) return fail("is not known");
  // The manual requires a fence between writes to registers and the first asynchronous product.
  if (!group_->fenced) return fail("registers are not fenced");
  for (int t = 1; t < kLanes; ++t) {
    if (value(1, t) != value(1, 0) || value(2, t) != value(2, 0)) return fail("threads have other descriptors");
  }
  group_->products.push_back({i_, value(1, 0), value(2, 0), value(3, 0) != 0});
  return true;
}

bool Block::finish(const Product& product) {
  const std::vector<std::string> sizes = absl::StrSplit(i_->op[4], absl::ByAnyChar("mnk"));
  int n = 0, k = 0;
  const v1::DataType to = typeOf(i_->op[5]), from = typeOf(i_->op[6]);
  if (i_->op.size() != 8 || sizes.size() != 4 || sizes[1] != "64" || !absl::SimpleAtoi(sizes[2], &n) ||
      !absl::SimpleAtoi(sizes[3], &k) || from == v1::DATA_TYPE_UNSPECIFIED || i_->op[6] != i_->op[7] || n % 8 != 0 ||
      k * elementBytes(from) != 32 || i_->operands[0].list.size() * 2 != static_cast<size_t>(n)) {
    return fail("its shape or its types are not known");
  }
  const auto left = MatrixDescriptor::of(product.left), right = MatrixDescriptor::of(product.right);
  if (!left || !right) return fail("a descriptor is of no layout that is known");
  return to == v1::DATA_TYPE_I32 ? finishAs<int64_t>(*left, *right, n, k, to, from, product.adds)
                                 : finishAs<double>(*left, *right, n, k, to, from, product.adds);
}

}  // namespace tessera::compiler::ptx
