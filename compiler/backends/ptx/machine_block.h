#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compiler/backends/ptx/code.h"
#include "compiler/backends/ptx/machine.h"
#include "compiler/backends/ptx/matrix_descriptor.h"
#include "tessera/v1/tensor.pb.h"

/// The state of a thread block in the machine.
namespace tessera::compiler::ptx {

constexpr int kLanes = 32;
constexpr int64_t kNoAccess = -1;  // for an inactive thread
constexpr int kTensorShift = 40;   // bits of an address above this give the tensor, counted from 1

/// An asynchronous product: computed when it is waited for.
struct Product {
  const Instruction* instruction;
  uint64_t left, right;  // descriptors
  bool adds;
};

/// A group of threads in lockstep (a warp).
struct Group {
  size_t at = 0;
  bool ended = false, waits = false;
  std::vector<std::vector<uint64_t>> registers;  // per register, per thread
  struct Copy {
    uint64_t to, from, bytes, read;
  };
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
  // its writes to shared memory that are not yet visible to asynchronous products: address, bytes
  std::vector<std::pair<uint64_t, uint64_t>> unpublished;
  bool fenced = false;  // whether its registers are fenced for asynchronous products
  std::vector<Product> products;
  std::deque<std::vector<Product>> going;
};

class Block {
 public:
  Block(const Code& code, const Launch& launch, int64_t number, Run& run)
      : code_(code),
        launch_(launch),
        number_(number),
        run_(run),
        shared_(static_cast<size_t>(launch.shared_bytes), 0xFF),
        unpublished_(static_cast<size_t>(launch.shared_bytes), false) {
    groups_.resize(static_cast<size_t>(launch.threads / kLanes));
    for (Group& group : groups_) group.registers.assign(code.registers.size(), std::vector<uint64_t>(kLanes, 0));
  }

  absl::Status execute();

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
    return 0;  // shared memory begins at 0
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

  /// Bytes of a tensor or of shared memory; null if out of bounds or misaligned.
  uint8_t* global(uint64_t address, uint64_t bytes) {
    const uint64_t tensor = address >> kTensorShift, offset = address & ((uint64_t{1} << kTensorShift) - 1);
    if (tensor < 1 || tensor > launch_.tensors.size() || offset % bytes != 0) return nullptr;
    std::vector<uint8_t>& data = *launch_.tensors[tensor - 1];
    return offset + bytes <= data.size() ? data.data() + offset : nullptr;
  }
  uint8_t* shared(uint64_t address, uint64_t bytes) {
    return address % bytes == 0 && address + bytes <= shared_.size() ? shared_.data() + address : nullptr;
  }

  /// Counts accesses of `bytes` per thread; a line's worth of threads access at once.
  void count(SharedTraffic& traffic, const std::vector<int64_t>& addresses, int64_t bytes);
  bool step();
  bool move();
  bool access();
  void wrote(uint64_t at, uint64_t bytes) {
    group_->unpublished.emplace_back(at, bytes);
    std::fill_n(unpublished_.begin() + static_cast<int64_t>(at), bytes, true);
  }
  bool publish();
  bool copy();
  /// ldmatrix: thread t gets bytes 4 (t % 4) to 4 (t % 4) + 3 of row t / 4 of each matrix; transposed, the 16-bit
  /// elements of column t / 4 in rows 2 (t % 4) and 2 (t % 4) + 1.
  bool matrices();
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

  /// Elements in the registers of all threads, in order of thread and position.
  template <typename Number>
  std::vector<Number> elements(const std::vector<int>& registers, v1::DataType type);
  bool multiply();
  /// Products of opaque fragments (wmma), and the loads and stores of these: rows or columns at a constant distance.
  bool opaque();
  bool moveOpaque(int rows, int columns);
  bool multiplyOpaque(int m, int n, int k);
  /// The manual's fragments: thread t is member t % 4 of quad t / 4. A: quads along rows, 8 of them, the next 8 in the
  /// next register, then the next half of k. B: quads along columns. The result: quads along rows, pairs of columns.
  template <typename Number>
  bool product(int m, int n, int k, v1::DataType to, v1::DataType from);
  /// wgmma: starts an asynchronous product of four groups, given by descriptors; finish() computes it.
  bool startAsyncProduct();
  bool finish(const Product& product);
  /// Reads an operand of the product: `count` elements of the parallel index, starting at `first`, by the summed index.
  template <typename Number>
  bool read(const MatrixDescriptor& matrix, int64_t first, int64_t count, int k, v1::DataType from, bool turned,
            std::vector<Number>& numbers);
  /// This group computes 16 of 64 rows; thread t holds rows t / 4 and t / 4 + 8 of columns 8 c + 2 (t % 4) and the next
  /// one.
  template <typename Number>
  bool finishAs(const MatrixDescriptor& left, const MatrixDescriptor& right, int n, int k, v1::DataType to,
                v1::DataType from, bool adds);

  const Code& code_;
  const Launch& launch_;
  const int64_t number_;
  Run& run_;
  std::vector<uint8_t> shared_;
  std::vector<bool> unpublished_;  // bytes that asynchronous products do not see yet
  std::vector<Group> groups_;
  Group* group_ = nullptr;
  int64_t index_ = 0;
  const Instruction* i_ = nullptr;
  std::string fault_;
};

}  // namespace tessera::compiler::ptx
