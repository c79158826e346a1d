#include "compiler/backends/hls/device.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/target/element_text.h"

namespace tessera::compiler::hls {
namespace {

constexpr const char* kFusedMultiplyAdd = "fused-multiply-add";
constexpr const char* kInteger = "integer";

/// Operations on floating-point numbers that change or choose bits alone.
constexpr std::array<std::string_view, 6> kBitOperations = {"negf",   "absf",    "copysign",
                                                            "select", "bitcast", "constant"};

Resources resourcesOf(const v1::ProgrammableLogic::Resources& from) {
  return {.dsp = from.dsp(), .bram = from.bram(), .uram = from.uram(), .lut = from.lut(), .ff = from.ff()};
}

/// The operation that computes a value; null for an element of an access.
const simulator::SpatialOperation* producerOf(const simulator::SpatialNest& nest, int value) {
  const int operation = value - static_cast<int>(nest.accesses.size());
  return operation < 0 ? nullptr : &nest.body[static_cast<size_t>(operation)];
}

/// The type of a value before it was extended.
v1::DataType narrowTypeOf(const simulator::SpatialNest& nest, int value) {
  const simulator::SpatialOperation* producer = producerOf(nest, value);
  const bool extended = producer != nullptr && (producer->name == "extsi" || producer->name == "extui");
  return nest.typeOf(extended ? producer->operands[0] : value);
}

/// int8 for bytes of any sign, likewise for wider types: costs do not depend on the sign.
v1::DataType signedType(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_U8:
      return v1::DATA_TYPE_I8;
    case v1::DATA_TYPE_U16:
      return v1::DATA_TYPE_I16;
    case v1::DATA_TYPE_U32:
      return v1::DATA_TYPE_I32;
    case v1::DATA_TYPE_U64:
      return v1::DATA_TYPE_I64;
    default:
      return type;
  }
}

/// The type of the multiplier that a product needs: the wider one of its factors before extension.
v1::DataType factorType(const simulator::SpatialNest& nest, const simulator::SpatialOperation& product) {
  const v1::DataType left = signedType(narrowTypeOf(nest, product.operands[0]));
  return std::max(left, signedType(narrowTypeOf(nest, product.operands[1])));
}

/// Whether the only reader of the operation's value is a sum.
bool feedsOneSum(const simulator::SpatialNest& nest, int operation) {
  const int value = operation + static_cast<int>(nest.accesses.size());
  int readers = static_cast<int>(std::ranges::count(nest.yields, value));
  bool sum = false;
  for (const simulator::SpatialOperation& each : nest.body) {
    const auto uses = static_cast<int>(std::ranges::count(each.operands, value));
    readers += uses;
    sum |= uses > 0 && each.name == "addi";
  }
  return readers == 1 && sum;
}

}  // namespace

Resources& Resources::operator+=(const Resources& other) {
  dsp += other.dsp;
  bram += other.bram;
  uram += other.uram;
  lut += other.lut;
  ff += other.ff;
  return *this;
}

Resources operator+(Resources left, const Resources& right) { return left += right; }

Resources Resources::operator*(int64_t count) const {
  return {.dsp = dsp * count, .bram = bram * count, .uram = uram * count, .lut = lut * count, .ff = ff * count};
}

Resources Resources::scaled(double share) const {
  const auto part = [&](int64_t amount) { return static_cast<int64_t>(static_cast<double>(amount) * share); };
  return {.dsp = part(dsp), .bram = part(bram), .uram = part(uram), .lut = part(lut), .ff = part(ff)};
}

std::string Resources::exceeding(const Resources& limit) const {
  if (dsp > limit.dsp) return "DSP";
  if (bram > limit.bram) return "BRAM";
  if (uram > limit.uram) return "URAM";
  if (lut > limit.lut) return "LUT";
  return ff > limit.ff ? "FF" : "";
}

std::string print(const Resources& resources) {
  return absl::StrCat("DSP ", resources.dsp, ", BRAM ", resources.bram, ", URAM ", resources.uram, ", LUT ",
                      resources.lut, ", FF ", resources.ff);
}

absl::StatusOr<Device> Device::of(const v1::Target& target) {
  if (!target.has_logic() || target.memory_size() < 2)
    return absl::InvalidArgumentError(absl::StrCat(
        target.name(), " does not describe an FPGA: `logic`, an on-chip and an external memory level are required"));
  Device device;
  device.target_ = &target;
  const v1::ProgrammableLogic& logic = target.logic();
  const Resources all = resourcesOf(logic.device()), shell = resourcesOf(logic.shell());
  const Resources routable = all.scaled(logic.routable_share());
  device.limits_ = {.dsp = all.dsp - shell.dsp,
                    .bram = all.bram - shell.bram,
                    .uram = all.uram - shell.uram,
                    .lut = std::max<int64_t>(0, routable.lut - shell.lut),
                    .ff = std::max<int64_t>(0, routable.ff - shell.ff)};
  return device;
}

Resources Device::port() const { return resourcesOf(target_->logic().port()); }
Resources Device::process() const { return resourcesOf(target_->logic().process()); }

const std::string& Device::externalLevel() const { return target_->memory(target_->memory_size() - 1).name(); }
int64_t Device::banks() const { return std::max(1, target_->memory(target_->memory_size() - 1).banks()); }
double Device::bankBytesPerCycle() const {
  return target_->memory(target_->memory_size() - 1).bandwidth_bytes_per_cycle();
}
double Device::memoryLatency() const { return target_->memory(target_->memory_size() - 1).latency_cycles(); }

const v1::ProgrammableLogic::Operator* Device::find(const std::string& name, v1::DataType type) const {
  const v1::ProgrammableLogic::Operator* any = nullptr;
  for (const v1::ProgrammableLogic::Operator& each : target_->logic().operators()) {
    if (each.operation() != name) continue;
    if (each.dtype() == type) return &each;
    if (each.dtype() == v1::DATA_TYPE_UNSPECIFIED) any = &each;
  }
  return any;
}

absl::StatusOr<OperatorCost> Device::costOf(const simulator::SpatialNest& nest, int operation) const {
  const simulator::SpatialOperation& op = nest.body[static_cast<size_t>(operation)];
  if (op.name == "constant" || op.name == "index") return OperatorCost{};
  const std::string name = op.name.substr(0, op.name.find('.'));
  v1::DataType type = signedType(op.operands.empty() ? op.dtype : nest.typeOf(op.operands.back()));
  const v1::ProgrammableLogic::Operator* found = nullptr;
  if (name == "muli") {
    type = factorType(nest, op);
    if (feedsOneSum(nest, operation)) found = find(kFusedMultiplyAdd, type);
  } else if (name == "addi") {
    for (int operand : op.operands) {
      const int product = operand - static_cast<int>(nest.accesses.size());
      if (product < 0 || nest.body[static_cast<size_t>(product)].name != "muli" || !feedsOneSum(nest, product))
        continue;
      if (find(kFusedMultiplyAdd, factorType(nest, nest.body[static_cast<size_t>(product)]))) return OperatorCost{};
    }
  }
  if (!found) found = find(name, type);
  const bool plain = !isFloatingPoint(type) || std::ranges::count(kBitOperations, name) > 0;
  if (!found && plain && name != "muli") found = find(kInteger, type);
  if (found) return OperatorCost{resourcesOf(found->cost()), found->latency_cycles()};
  return absl::FailedPreconditionError(absl::StrCat("nest ", nest.name, ": the description of ", this->name(),
                                                    " has no cost for ", name, " of type ", elementText(type),
                                                    "; add it to logic.operators"));
}

}  // namespace tessera::compiler::hls
