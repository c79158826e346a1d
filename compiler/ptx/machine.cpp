#include "compiler/ptx/machine.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/ptx/code.h"
#include "compiler/simulator/element.h"
#include "proto/element_size.h"

namespace tessera::compiler::ptx {
namespace {

constexpr int kLanes = 32;
constexpr int kTensorShift = 40;  // of an address: which tensor, from 1

/// A group of threads in lockstep.
struct Group {
  size_t at = 0;
  bool ended = false, waits = false;
  std::vector<std::vector<uint64_t>> registers;  // per register, per thread
  struct Copy {
    uint64_t to, from, bytes, read;
  };
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};

class Block {
 public:
  Block(const Code& code, const Launch& launch, int64_t number, Run& run)
      : code_(code),
        launch_(launch),
        number_(number),
        run_(run),
        shared_(static_cast<size_t>(launch.shared_bytes), 0xFF) {
    groups_.resize(static_cast<size_t>(launch.threads / kLanes));
    for (Group& group : groups_) group.registers.assign(code.registers.size(), std::vector<uint64_t>(kLanes, 0));
  }

  absl::Status execute() {
    while (true) {
      bool any = false;
      for (size_t g = 0; g < groups_.size(); ++g) {
        group_ = &groups_[g];
        index_ = static_cast<int64_t>(g);
        group_->waits = false;
        while (!group_->ended && !group_->waits) {
          any = true;
          if (group_->at >= code_.instructions.size()) return absl::InvalidArgumentError("the kernel has no end");
          i_ = &code_.instructions[group_->at++];
          if (!step())
            return absl::InvalidArgumentError(absl::StrCat("line ", i_->line, ", ", i_->op[0], ": ", fault_));
        }
      }
      if (!any) return absl::OkStatus();
    }
  }

 private:
  bool fail(const std::string& what) {
    fault_ = what;
    return false;
  }
  bool has(const char* word) const { return std::find(i_->op.begin(), i_->op.end(), word) != i_->op.end(); }
  bool active(int t) const {
    return i_->guard < 0 ||
           (group_->registers[static_cast<size_t>(i_->guard)][static_cast<size_t>(t)] != 0) != i_->negated;
  }
  uint64_t& reg(int number, int t) { return group_->registers[static_cast<size_t>(number)][static_cast<size_t>(t)]; }
  uint64_t& to(int t) { return reg(i_->operands[0].reg, t); }
  uint64_t value(size_t operand, int t) {
    const Operand& o = i_->operands[operand];
    if (o.kind == Operand::kRegister) return reg(o.reg, t);
    if (o.kind == Operand::kNumber) return o.number;
    if (o.name == "%tid.x") return static_cast<uint64_t>(index_ * kLanes + t);
    if (o.name == "%ctaid.x") return static_cast<uint64_t>(number_);
    return 0;  // the shared level begins at 0
  }
  int64_t number(size_t operand, int t) { return static_cast<int32_t>(value(operand, t)); }
  uint64_t address(size_t operand, int t) {
    const Operand& o = i_->operands[operand];
    return (o.reg < 0 ? 0 : reg(o.reg, t)) + o.number;
  }
  static uint64_t low(int64_t number) { return static_cast<uint32_t>(number); }

  template <typename Compute>
  bool all(Compute&& compute) {
    for (int t = 0; t < kLanes; ++t) {
      if (active(t)) to(t) = compute(t);
    }
    return true;
  }

  /// Bytes of a tensor or of the shared level; null where they are not there.
  uint8_t* global(uint64_t address, uint64_t bytes) {
    const uint64_t tensor = address >> kTensorShift, offset = address & ((uint64_t{1} << kTensorShift) - 1);
    if (tensor < 1 || tensor > launch_.tensors.size() || offset % bytes != 0) return nullptr;
    std::vector<uint8_t>& data = *launch_.tensors[tensor - 1];
    return offset + bytes <= data.size() ? data.data() + offset : nullptr;
  }
  uint8_t* shared(uint64_t address, uint64_t bytes) {
    return address % bytes == 0 && address + bytes <= shared_.size() ? shared_.data() + address : nullptr;
  }

  /// Of accesses of `bytes` each, as many at once as a line has.
  void count(SharedTraffic& traffic, const std::vector<int64_t>& addresses, int64_t bytes) {
    const size_t at_once =
        launch_.banks.count == 0
            ? addresses.size()
            : static_cast<size_t>(std::max<int64_t>(1, std::min<int64_t>(kLanes, launch_.banks.line() / bytes)));
    for (size_t begin = 0; begin < addresses.size(); begin += at_once) {
      const std::vector<int64_t> part(
          addresses.begin() + static_cast<int64_t>(begin),
          addresses.begin() + static_cast<int64_t>(std::min(addresses.size(), begin + at_once)));
      ++traffic.accesses;
      traffic.cycles += cyclesOf(part, bytes, launch_.banks);
    }
  }

  bool step() {
    const std::string& op = i_->op[0];
    if (op == "ret") return group_->ended = true;
    if (op == "bra") {
      for (int t = 1; t < kLanes; ++t) {
        if (active(t) != active(0)) return fail("threads of a group differ");
      }
      const auto label = code_.labels.find(i_->operands[0].name);
      if (label == code_.labels.end()) return fail("no such label");
      if (active(0)) group_->at = label->second;
      return true;
    }
    if (op == "bar") return group_->waits = true;
    if (op == "mov") return move();
    if (op == "cvta") return all([&](int t) { return value(1, t); });
    if (op == "add") return all([&](int t) { return low(number(1, t) + number(2, t)); });
    if (op == "sub") return all([&](int t) { return low(number(1, t) - number(2, t)); });
    if (op == "mul" && has("hi"))
      return all([&](int t) { return (value(1, t) & UINT32_MAX) * (value(2, t) & UINT32_MAX) >> 32; });
    if (op == "mul" && has("lo")) return all([&](int t) { return low(number(1, t) * number(2, t)); });
    if (op == "mad" && has("lo")) return all([&](int t) { return low(number(1, t) * number(2, t) + number(3, t)); });
    if (op == "mad" && has("wide"))
      return all([&](int t) { return static_cast<uint64_t>(number(1, t) * number(2, t)) + value(3, t); });
    if (op == "shl")
      return all([&](int t) { return low(static_cast<int64_t>((value(1, t) & UINT32_MAX) << value(2, t))); });
    if (op == "shr") return all([&](int t) { return (value(1, t) & UINT32_MAX) >> value(2, t); });
    if (op == "and") return all([&](int t) { return value(1, t) & value(2, t); });
    if (op == "xor") return all([&](int t) { return value(1, t) ^ value(2, t); });
    if (op == "selp") return all([&](int t) { return value(3, t) ? value(1, t) : value(2, t); });
    if (op == "setp" && i_->op.size() == 3) {
      const std::string& relation = i_->op[1];
      return all([&](int t) -> uint64_t {
        const int64_t left = number(1, t), right = number(2, t);
        return relation == "lt" ? left < right : relation == "ge" ? left >= right : left == right;
      });
    }
    if (op == "cvt") {
      const v1::DataType type = has("bf16") ? v1::DATA_TYPE_BF16 : v1::DATA_TYPE_F16;
      return all([&](int t) {
        const double from = simulator::rounded(std::bit_cast<float>(static_cast<uint32_t>(value(1, t))), type);
        uint8_t bytes[2];
        simulator::encode(type, &from, 1, bytes);
        return uint64_t{bytes[0]} | uint64_t{bytes[1]} << 8;
      });
    }
    if (op == "ld" && has("param")) {
      const auto at = std::find(code_.parameters.begin(), code_.parameters.end(), i_->operands[1].name);
      if (at == code_.parameters.end()) return fail("no such parameter");
      return all([&](int) { return static_cast<uint64_t>(at - code_.parameters.begin() + 1) << kTensorShift; });
    }
    if (op == "ld" || op == "st") return access();
    if (op == "cp") return copy();
    if (op == "ldmatrix") return matrices();
    if (op == "mma") return multiply();
    return fail("is not known");
  }

  bool move() {
    const Operand& destination = i_->operands[0];
    if (destination.kind != Operand::kList) return all([&](int t) { return value(1, t); });
    for (int t = 0; t < kLanes; ++t) {
      reg(destination.list[0], t) = value(1, t) & 0xFFFF;
      reg(destination.list[1], t) = value(1, t) >> 16 & 0xFFFF;
    }
    return true;
  }

  bool access() {
    const bool load = i_->op[0] == "ld", in_shared = has("shared");
    const std::string& type = i_->op.back();
    int bits = 0;
    if (!absl::SimpleAtoi(type.substr(1), &bits)) return fail("its type is not known");
    const Operand& data = i_->operands[load ? 0 : 1];
    const std::vector<int> registers = data.kind == Operand::kList ? data.list : std::vector<int>{data.reg};
    const uint64_t each = static_cast<uint64_t>(bits / 8), bytes = each * registers.size();
    std::vector<int64_t> addresses;
    for (int t = 0; t < kLanes; ++t) {
      if (!active(t)) continue;
      const uint64_t at = address(load ? 1 : 0, t);
      uint8_t* memory = in_shared ? shared(at, bytes) : global(at, bytes);
      if (!memory)
        return fail(absl::StrCat(bytes, " bytes at ", at, " of thread ", t, " are not there, or not aligned"));
      if (in_shared) addresses.push_back(static_cast<int64_t>(at));
      for (size_t r = 0; r < registers.size(); ++r) {
        uint64_t& held = reg(registers[r], t);
        if (load) {
          held = 0;
          std::memcpy(&held, memory + r * each, each);
        } else {
          std::memcpy(memory + r * each, &held, each);
        }
      }
      if (!load && !in_shared && at >> kTensorShift == 1) {
        const auto begin = run_.written.begin() + static_cast<int64_t>(at & ((uint64_t{1} << kTensorShift) - 1));
        std::fill(begin, begin + static_cast<int64_t>(bytes), true);
      }
    }
    if (in_shared && !addresses.empty())
      count(load ? run_.fetches : run_.stores, addresses, static_cast<int64_t>(bytes));
    return true;
  }

  bool copy() {
    if (has("commit_group")) {
      group_->groups.push_back(std::move(group_->open));
      group_->open.clear();
      return true;
    }
    if (has("wait_group")) {
      while (group_->groups.size() > value(0, 0)) {
        for (const Group::Copy& copy : group_->groups.front()) {
          uint8_t* memory = shared_.data() + copy.to;
          std::memset(memory, 0, copy.bytes);
          if (copy.read > 0) std::memcpy(memory, global(copy.from, copy.bytes), copy.read);
        }
        group_->groups.pop_front();
      }
      return true;
    }
    std::vector<int64_t> addresses;
    uint64_t bytes = 1;
    for (int t = 0; t < kLanes; ++t) {
      if (!active(t)) continue;
      const Group::Copy copy{address(0, t), address(1, t), value(2, t), value(3, t)};
      bytes = copy.bytes;
      if (!shared(copy.to, bytes) || (copy.read > 0 && !global(copy.from, bytes)))
        return fail("an address is not there, or not aligned");
      addresses.push_back(static_cast<int64_t>(copy.to));
      group_->open.push_back(copy);
    }
    if (!addresses.empty()) count(run_.stores, addresses, static_cast<int64_t>(bytes));
    return true;
  }

  /// Thread t has bytes 4 (t % 4) to 4 (t % 4) + 3 of row t / 4 of each matrix; turned, the elements of 16 bits of
  /// column t / 4 in rows 2 (t % 4) and 2 (t % 4) + 1.
  bool matrices() {
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

  static v1::DataType typeOf(const std::string& name) {
    return name == "f16"    ? v1::DATA_TYPE_F16
           : name == "bf16" ? v1::DATA_TYPE_BF16
           : name == "f32"  ? v1::DATA_TYPE_F32
           : name == "f64"  ? v1::DATA_TYPE_F64
           : name == "s8"   ? v1::DATA_TYPE_I8
           : name == "u8"   ? v1::DATA_TYPE_U8
           : name == "s32"  ? v1::DATA_TYPE_I32
                            : v1::DATA_TYPE_UNSPECIFIED;
  }

  /// Elements of the registers of all threads: use(thread, element of its, position in `numbers`).
  template <typename Number>
  std::vector<Number> elements(const std::vector<int>& registers, v1::DataType type) {
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

  bool multiply() {
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

  /// The manual's fragments: thread t is member t % 4 of quad t / 4. A: quads along rows, 8 of them, the next 8 in the
  /// next register, then the next half of k. B: quads along columns. The result: quads along rows, pairs of columns.
  template <typename Number>
  bool product(int m, int n, int k, v1::DataType to, v1::DataType from) {
    const size_t e = elementBytes(from) > 4 ? 1 : 4 / static_cast<size_t>(elementBytes(from));
    const auto &c = i_->operands[0].list, &a = i_->operands[1].list, &b = i_->operands[2].list;
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

  const Code& code_;
  const Launch& launch_;
  const int64_t number_;
  Run& run_;
  std::vector<uint8_t> shared_;
  std::vector<Group> groups_;
  Group* group_ = nullptr;
  int64_t index_ = 0;
  const Instruction* i_ = nullptr;
  std::string fault_;
};

}  // namespace

absl::StatusOr<Run> run(const std::string& text, const Launch& launch) {
  const Code code = parse(text);
  Run found;
  found.written.resize(launch.tensors.empty() ? 0 : launch.tensors[0]->size());
  for (int64_t block : launch.blocks) {
    if (absl::Status status = Block(code, launch, block, found).execute(); !status.ok()) return status;
  }
  return found;
}

}  // namespace tessera::compiler::ptx
