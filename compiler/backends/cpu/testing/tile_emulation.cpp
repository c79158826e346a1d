#include "compiler/backends/cpu/testing/tile_emulation.h"

#include <signal.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>

#include "compiler/runtime/faults.h"
#include "compiler/target/cpu_features.h"
#include "compiler/target/instruction_sets.h"

#if defined(__x86_64__)
#include <ucontext.h>
#endif

namespace tessera::compiler::codegen::testing {

bool addTileInstructions(v1::BuildUnit& unit, bool alone) {
  if (hostArchitecture() != "x86_64" || hostFeature("amx-tile") == FeatureState::kDenied) return false;
  if (alone) unit.clear_intrinsics();
  for (const char* name : {"amx-int8", "amx-bf16"})
    for (const v1::Intrinsic& each : findInstructionSet(name)->intrinsics()) *unit.add_intrinsics() = each;
  for (const char* feature : {"amx-tile", "amx-int8", "amx-bf16"}) unit.mutable_code()->add_features(feature);
  return true;
}

namespace {

struct sigaction before;
struct AtomicCounts {
  std::atomic<int64_t> configurations, releases, zeros, loads, stores, products;
} counted;

constexpr int kTiles = 8, kMaxRows = 16, kMaxBytes = 64;

/// A thread's tiles.
struct State {
  bool configured = false;
  int rows[kTiles] = {}, bytes[kTiles] = {};
  uint8_t data[kTiles][kMaxRows][kMaxBytes] = {};
};
[[gnu::tls_model("initial-exec")]] thread_local State state;

#if defined(__x86_64__)

uint64_t registerOf(const ucontext_t& context, int number) {
  static constexpr int kPlaces[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return static_cast<uint64_t>(context.uc_mcontext.gregs[kPlaces[number]]);
}

/// One VEX-encoded instruction of map 0F38 with a 128-bit length.
struct Instruction {
  enum Prefix { kNone, k66, kF3, kF2 };
  uint8_t opcode = 0;
  Prefix prefix = kNone;
  int mode = 0, reg = 0, rm = 0, vvvv = 0;
  size_t length = 0;
  bool has_sib = false;
  uint8_t* address = nullptr;  ///< of the memory operand: base and displacement
  int64_t stride = 0;          ///< its scaled index
};

std::optional<Instruction> decode(const ucontext_t& context) {
  const auto* code = reinterpret_cast<const uint8_t*>(context.uc_mcontext.gregs[REG_RIP]);
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0) return std::nullopt;  // W0, L0
  Instruction decoded;
  const int x = code[1] & 0x40 ? 0 : 8, b = code[1] & 0x20 ? 0 : 8;
  if (!(code[1] & 0x80)) return std::nullopt;  // there are eight tiles
  decoded.vvvv = ~(code[2] >> 3) & 15;
  decoded.prefix = static_cast<Instruction::Prefix>(code[2] & 3);
  decoded.opcode = code[3];
  decoded.mode = code[4] >> 6;
  decoded.reg = code[4] >> 3 & 7;
  decoded.rm = code[4] & 7;
  const uint8_t* at = code + 5;
  if (decoded.mode == 3) {
    if (b != 0) return std::nullopt;
    decoded.length = static_cast<size_t>(at - code);
    return decoded;
  }
  uint64_t address = 0;
  bool wide = decoded.mode == 2, from_here = false;
  if (decoded.rm == 4) {
    decoded.has_sib = true;
    const int scale = *at >> 6, index = (*at >> 3 & 7) | x, base = (*at & 7) | b;
    ++at;
    if (index != 4) decoded.stride = static_cast<int64_t>(registerOf(context, index) << scale);
    if ((base & 7) == 5 && decoded.mode == 0) {
      wide = true;
    } else {
      address = registerOf(context, base);
    }
  } else if (decoded.rm == 5 && decoded.mode == 0) {
    wide = from_here = true;
  } else {
    address = registerOf(context, decoded.rm | b);
  }
  if (wide) {
    int32_t displacement;
    std::memcpy(&displacement, at, sizeof(displacement));
    at += sizeof(displacement);
    address += static_cast<int64_t>(displacement);
  } else if (decoded.mode == 1) {
    address += static_cast<int64_t>(static_cast<int8_t>(*at++));
  }
  decoded.length = static_cast<size_t>(at - code);
  if (from_here) address += reinterpret_cast<uint64_t>(at);
  decoded.address = reinterpret_cast<uint8_t*>(address);
  return decoded;
}

bool configure(const uint8_t* bytes) {
  if (bytes[0] == 0) {
    state.configured = false;
    return true;
  }
  if (bytes[0] != 1 || bytes[1] != 0) return false;
  for (int i = 2; i < 16; ++i)
    if (bytes[i] != 0) return false;
  for (int tile = 0; tile < 16; ++tile) {
    uint16_t row_bytes;
    std::memcpy(&row_bytes, bytes + 16 + 2 * tile, sizeof(row_bytes));
    const int rows = bytes[48 + tile];
    if (tile >= kTiles ? rows != 0 || row_bytes != 0
                       : rows > kMaxRows || row_bytes > kMaxBytes || (rows == 0) != (row_bytes == 0))
      return false;
    if (tile >= kTiles) continue;
    state.rows[tile] = rows;
    state.bytes[tile] = row_bytes;
  }
  std::memset(state.data, 0, sizeof(state.data));
  state.configured = true;
  ++counted.configurations;
  return true;
}

bool isShaped(int tile) { return state.configured && tile < kTiles && state.rows[tile] > 0; }

template <typename T>
T element(int tile, int row, int index) {
  T value;
  std::memcpy(&value, &state.data[tile][row][index * sizeof(T)], sizeof(T));
  return value;
}

/// bf16 as the instruction reads it: subnormals are zero.
float halfAt(int tile, int row, int index) {
  const uint32_t bits = static_cast<uint32_t>(element<uint16_t>(tile, row, index)) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}
float flushed(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value; }

int32_t dotOf(const Instruction& at, int a, int b, int row, int column, int group) {
  const bool first_signed = at.prefix == Instruction::kF2 || at.prefix == Instruction::kF3;
  const bool second_signed = at.prefix == Instruction::kF2 || at.prefix == Instruction::k66;
  uint32_t sum = 0;
  for (int i = 0; i < 4; ++i) {
    const uint8_t x = element<uint8_t>(a, row, 4 * group + i), y = element<uint8_t>(b, group, 4 * column + i);
    const int32_t left = first_signed ? static_cast<int8_t>(x) : x, right = second_signed ? static_cast<int8_t>(y) : y;
    sum += static_cast<uint32_t>(left * right);
  }
  return static_cast<int32_t>(sum);
}

bool multiply(const Instruction& at, bool floating) {
  const int c = at.reg, a = at.rm, b = at.vvvv;
  if (!isShaped(a) || !isShaped(b) || !isShaped(c) || a == b || a == c || b == c) return false;
  if (state.bytes[a] % 4 != 0 || state.bytes[b] % 4 != 0 || state.bytes[c] % 4 != 0 ||
      state.bytes[a] / 4 != state.rows[b] || state.rows[c] != state.rows[a] || state.bytes[c] != state.bytes[b])
    return false;
  for (int row = 0; row < state.rows[c]; ++row)
    for (int column = 0; column < state.bytes[c] / 4; ++column) {
      uint8_t* place = &state.data[c][row][4 * column];
      if (floating) {
        float even = 0, odd = 0;
        for (int group = 0; group < state.rows[b]; ++group) {
          even = flushed(std::fma(halfAt(a, row, 2 * group), halfAt(b, group, 2 * column), even));
          odd = flushed(std::fma(halfAt(a, row, 2 * group + 1), halfAt(b, group, 2 * column + 1), odd));
        }
        const float sum = flushed(flushed(element<float>(c, row, column)) + flushed(even + odd));
        std::memcpy(place, &sum, sizeof(sum));
        continue;
      }
      auto sum = element<uint32_t>(c, row, column);
      for (int group = 0; group < state.rows[b]; ++group)
        sum += static_cast<uint32_t>(dotOf(at, a, b, row, column, group));
      std::memcpy(place, &sum, sizeof(sum));
    }
  ++counted.products;
  return true;
}

bool move(const Instruction& at) {
  if (!isShaped(at.reg) || !at.has_sib || at.vvvv != 0) return false;
  if (at.prefix == Instruction::kNone) return false;
  const bool store = at.prefix == Instruction::kF3;
  if (!store) std::memset(state.data[at.reg], 0, sizeof(state.data[at.reg]));
  for (int row = 0; row < state.rows[at.reg]; ++row) {
    uint8_t* memory = at.address + row * at.stride;
    const auto bytes = static_cast<size_t>(state.bytes[at.reg]);
    if (store) {
      std::memcpy(memory, state.data[at.reg][row], bytes);
    } else {
      std::memcpy(state.data[at.reg][row], memory, bytes);
    }
  }
  ++(store ? counted.stores : counted.loads);
  return true;
}

bool run(const Instruction& at) {
  switch (at.opcode) {
    case 0x49:
      if (at.vvvv != 0) return false;
      if (at.prefix == Instruction::kF2 && at.mode == 3 && at.rm == 0) {
        if (!isShaped(at.reg)) return false;
        std::memset(state.data[at.reg], 0, sizeof(state.data[at.reg]));
        ++counted.zeros;
        return true;
      }
      if (at.prefix != Instruction::kNone || at.reg != 0) return false;
      if (at.mode != 3) return configure(at.address);
      if (at.rm != 0) return false;
      state.configured = false;
      ++counted.releases;
      return true;
    case 0x4b:
      return at.mode != 3 && move(at);
    case 0x5c:
      return at.mode == 3 && at.prefix == Instruction::kF3 && multiply(at, true);
    case 0x5e:
      return at.mode == 3 && multiply(at, false);
    default:
      return false;
  }
}

bool emulate(void* opaque) {
  auto& context = *static_cast<ucontext_t*>(opaque);
  const auto decoded = decode(context);
  if (!decoded || !run(*decoded)) return false;
  context.uc_mcontext.gregs[REG_RIP] += static_cast<greg_t>(decoded->length);
  return true;
}

#else

bool emulate(void*) { return false; }

#endif

void onIllegal(int signal, siginfo_t* info, void* context) {
  if (emulate(context)) return;
  before.sa_sigaction(signal, info, context);
}

}  // namespace

TileEmulation::TileEmulation() {
  // installs its handler before this one, which forwards all signals that are not tile instructions
  (void)catchFault([] {});
  for (auto* each :
       {&counted.configurations, &counted.releases, &counted.zeros, &counted.loads, &counted.stores, &counted.products})
    *each = 0;
  struct sigaction action = {};
  action.sa_sigaction = onIllegal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGILL, &action, &before);
}

TileEmulation::~TileEmulation() { sigaction(SIGILL, &before, nullptr); }

TileEmulation::Counts TileEmulation::counts() const {
  return {counted.configurations, counted.releases, counted.zeros, counted.loads, counted.stores, counted.products};
}

bool TileEmulation::isNative() { return hostFeature("amx-tile") == FeatureState::kPresent; }
bool TileEmulation::hasShapes() { return state.configured; }

}  // namespace tessera::compiler::codegen::testing
