#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/backends/ptx/machine_block.h"
#include "compiler/backends/spatial/element.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::ptx {

// Runs each group until it ends or waits at a barrier. A barrier is complete when every group waits or has ended: then
// all of them resume. A round in which no group can run is the end of the block.
absl::Status Block::execute() {
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
        if (!step()) return absl::InvalidArgumentError(absl::StrCat("line ", i_->line, ", ", i_->op[0], ": ", fault_));
      }
    }
    if (!any) return absl::OkStatus();
  }
}

// The memory serves one line of all banks at a time: accesses of a wide type are split into parts of that size, in the
// order of threads, as the hardware does.
void Block::count(SharedTraffic& traffic, const std::vector<int64_t>& addresses, int64_t bytes) {
  const size_t at_once =
      launch_.banks.count == 0
          ? addresses.size()
          : static_cast<size_t>(std::max<int64_t>(1, std::min<int64_t>(kLanes, launch_.banks.line() / bytes)));
  for (size_t begin = 0; begin < addresses.size(); begin += at_once) {
    std::vector<int64_t> part(addresses.begin() + static_cast<int64_t>(begin),
                              addresses.begin() + static_cast<int64_t>(std::min(addresses.size(), begin + at_once)));
    std::erase(part, kNoAccess);
    if (part.empty()) continue;
    ++traffic.accesses;
    traffic.cycles += cyclesOf(part, bytes, launch_.banks);
  }
}

bool Block::step() {
  const std::string& op = i_->op[0];
  if (op == "ret") {
    if (!group_->products.empty() || !group_->going.empty()) return fail("products are not waited for");
    return group_->ended = true;
  }
  // Groups have no divergent branches: a kernel that needs them uses predicates.
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
  // Registers hold raw bits; each instruction interprets them by its type.
  if (op == "add" && has("f32")) {
    return all([&](int t) {
      return uint64_t{std::bit_cast<uint32_t>(std::bit_cast<float>(static_cast<uint32_t>(value(1, t))) +
                                              std::bit_cast<float>(static_cast<uint32_t>(value(2, t))))};
    });
  }
  if (op == "add" && has("f64")) {
    return all([&](int t) {
      return std::bit_cast<uint64_t>(std::bit_cast<double>(value(1, t)) + std::bit_cast<double>(value(2, t)));
    });
  }
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
    if (has("f32") || has("f64")) {
      if (relation != "lt") return fail("is not known of floating-point numbers");
      return all([&](int t) -> uint64_t {
        if (has("f64")) return std::bit_cast<double>(value(1, t)) < std::bit_cast<double>(value(2, t));
        return std::bit_cast<float>(static_cast<uint32_t>(value(1, t))) <
               std::bit_cast<float>(static_cast<uint32_t>(value(2, t)));
      });
    }
    return all([&](int t) -> uint64_t {
      const int64_t left = number(1, t), right = number(2, t);
      return relation == "lt" ? left < right : relation == "ge" ? left >= right : left == right;
    });
  }
  if (op == "cvt" && i_->op.size() == 3 && i_->op[1] == "f32" && i_->op[2] == "f16") {
    return all([&](int t) {
      const uint64_t from = value(1, t);
      double number = 0;
      simulator::decode(v1::DATA_TYPE_F16, reinterpret_cast<const uint8_t*>(&from), 1, &number);
      return uint64_t{std::bit_cast<uint32_t>(static_cast<float>(number))};
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
    // A tensor's address is its number in the upper bits and a byte in the lower ones, so that no access can move from
    // one tensor to another.
    return all([&](int) { return static_cast<uint64_t>(at - code_.parameters.begin() + 1) << kTensorShift; });
  }
  if (op == "ld" || op == "st") return access();
  if (op == "cp") return copy();
  if (op == "ldmatrix") return matrices();
  if (op == "mma") return multiply();
  if (op == "wgmma") return startAsyncProduct();
  if (op == "wmma") return opaque();
  if (op == "fence" && has("proxy") && has("async")) return publish();
  return fail("is not known");
}

bool Block::move() {
  const Operand& destination = i_->operands[0];
  if (i_->operands[1].kind == Operand::kList) {
    const std::vector<int>& words = i_->operands[1].list;
    // Packs two registers into one of twice the width.
    if (has("b32")) return all([&](int t) { return (reg(words[0], t) & 0xFFFF) | (reg(words[1], t) & 0xFFFF) << 16; });
    return all([&](int t) { return (reg(words[0], t) & UINT32_MAX) | reg(words[1], t) << 32; });
  }
  if (destination.kind != Operand::kList) return all([&](int t) { return value(1, t); });
  for (int t = 0; t < kLanes; ++t) {
    reg(destination.list[0], t) = value(1, t) & 0xFFFF;
    reg(destination.list[1], t) = value(1, t) >> 16 & 0xFFFF;
  }
  return true;
}

bool Block::access() {
  const bool load = i_->op[0] == "ld", in_shared = has("shared");
  const std::string& type = i_->op.back();
  int bits = 0;
  if (!absl::SimpleAtoi(type.substr(1), &bits)) return fail("its type is not known");
  const Operand& data = i_->operands[load ? 0 : 1];
  const std::vector<int> registers = data.kind == Operand::kList ? data.list : std::vector<int>{data.reg};
  const uint64_t each = static_cast<uint64_t>(bits / 8), bytes = each * registers.size();
  std::vector<int64_t> addresses(kLanes, kNoAccess);
  for (int t = 0; t < kLanes; ++t) {
    if (!active(t)) continue;
    const uint64_t at = address(load ? 1 : 0, t);
    uint8_t* memory = in_shared ? shared(at, bytes) : global(at, bytes);
    if (!memory) return fail(absl::StrCat(bytes, " bytes at ", at, " of thread ", t, " are not there, or not aligned"));
    if (in_shared) addresses[static_cast<size_t>(t)] = static_cast<int64_t>(at);
    for (size_t r = 0; r < registers.size(); ++r) {
      uint64_t& held = reg(registers[r], t);
      if (load) {
        held = 0;
        std::memcpy(&held, memory + r * each, each);
      } else {
        std::memcpy(memory + r * each, &held, each);
      }
    }
    if (!load && in_shared) wrote(at, bytes);
    // Tensor 1 is the result: records which of its bytes were stored, so that a missing result is noticed.
    if (!load && !in_shared && at >> kTensorShift == 1) {
      const auto begin = run_.written.begin() + static_cast<int64_t>(at & ((uint64_t{1} << kTensorShift) - 1));
      std::fill(begin, begin + static_cast<int64_t>(bytes), true);
    }
  }
  if (in_shared) count(load ? run_.fetches : run_.stores, addresses, static_cast<int64_t>(bytes));
  return true;
}

bool Block::copy() {
  if (has("commit_group")) {
    group_->groups.push_back(std::move(group_->open));
    group_->open.clear();
    return true;
  }
  if (has("wait_group")) {
    // Copies take effect only now, as late as the manual permits: a kernel that reads earlier sees the old bytes.
    while (group_->groups.size() > value(0, 0)) {
      for (const Group::Copy& copy : group_->groups.front()) {
        uint8_t* memory = shared_.data() + copy.to;
        // Bytes beyond the source size are zeros.
        std::memset(memory, 0, copy.bytes);
        if (copy.read > 0) std::memcpy(memory, global(copy.from, copy.bytes), copy.read);
        wrote(copy.to, copy.bytes);
      }
      group_->groups.pop_front();
    }
    return true;
  }
  std::vector<int64_t> addresses(kLanes, kNoAccess);
  uint64_t bytes = 1;
  for (int t = 0; t < kLanes; ++t) {
    if (!active(t)) continue;
    const Group::Copy copy{address(0, t), address(1, t), value(2, t), value(3, t)};
    bytes = copy.bytes;
    if (!shared(copy.to, bytes) || (copy.read > 0 && !global(copy.from, bytes)))
      return fail("an address is not there, or not aligned");
    addresses[static_cast<size_t>(t)] = static_cast<int64_t>(copy.to);
    group_->open.push_back(copy);
  }
  count(run_.stores, addresses, static_cast<int64_t>(bytes));
  return true;
}

absl::StatusOr<Run> run(const std::string& text, const Launch& launch) {
  const Code code = parse(text);
  Run found;
  found.written.resize(launch.tensors.empty() ? 0 : launch.tensors[0]->size());
  for (int64_t block : launch.blocks) {
    TESSERA_RETURN_IF_ERROR(Block(code, launch, block, found).execute());
  }
  return found;
}

}  // namespace tessera::compiler::ptx
