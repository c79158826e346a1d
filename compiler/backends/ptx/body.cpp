#include "compiler/backends/ptx/body.h"

#include <bit>
#include <utility>

namespace tessera::compiler::ptx {
namespace {

bool isPower(int64_t number) { return std::has_single_bit(static_cast<uint64_t>(number)); }

}  // namespace

int log2of(int64_t power) { return std::countr_zero(static_cast<uint64_t>(power)); }

std::string Body::zero() {
  const std::string to = fresh("r");
  line("mov.b32 ", to, ", 0;");
  return to;
}

std::string Body::divided(const std::string& value, int64_t divisor) {
  if (divisor == 1) return value;
  if (isPower(divisor)) return made("shr.u32", value, log2of(divisor));
  // Multiplication by a rounded-up reciprocal; exact for values below 2^31.
  const int bits = 64 - std::countl_zero(static_cast<uint64_t>(divisor - 1));
  const uint64_t factor = (uint64_t{1} << (31 + bits)) / static_cast<uint64_t>(divisor) + 1;
  return made("shr.u32", made("mul.hi.u32", value, factor), bits - 1);
}

std::string Body::rest(const std::string& value, const std::string& quotient, int64_t divisor) {
  if (isPower(divisor)) return made("and.b32", value, divisor - 1);
  return made("sub.s32", value, made("mul.lo.s32", quotient, divisor));
}

std::string Body::modulo(const std::string& value, int64_t divisor) {
  if (divisor == 1) return zero();
  return rest(value, isPower(divisor) ? value : divided(value, divisor), divisor);
}

std::string Body::addressed(std::string sum, const std::string& index, const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    std::string value = divided(index, part.weight);
    if (part.extent > 0) value = modulo(value, part.extent);
    if (sum.empty()) {
      sum = part.stride == 1 ? value : made("mul.lo.s32", value, part.stride);
    } else if (part.stride == 1) {
      sum = made("add.s32", sum, value);
    } else {
      const std::string to = fresh("r");
      line("mad.lo.s32 ", to, ", ", value, ", ", part.stride, ", ", sum, ";");
      sum = to;
    }
  }
  return sum;
}

std::string Body::byThread(const std::string& lane, const std::vector<int64_t>& values) {
  std::string sum;
  for (size_t bit = 1, at = 0; bit < values.size(); bit *= 2, ++at) {
    if (values[bit] == 0) continue;
    // Consecutive bits with doubling values are handled together.
    size_t last = bit;
    while (last * 2 < values.size() && values[last * 2] == 2 * values[last]) last *= 2;
    const std::string digits = made("and.b32", at == 0 ? lane : made("shr.u32", lane, at), (last * 2 / bit) - 1);
    const std::string part = values[bit] == 1 ? digits : made("mul.lo.s32", digits, values[bit]);
    sum = sum.empty() ? part : made("add.s32", sum, part);
    while (bit < last) bit *= 2, ++at;
  }
  return sum.empty() ? zero() : sum;
}

std::string Body::declared() const {
  std::string lines;
  for (const auto& [prefix, type] :
       {std::pair("p", "pred"), {"h", "b16"}, {"r", "b32"}, {"f", "f32"}, {"w", "b64"}, {"d", "f64"}})
    if (const auto count = counts_.find(prefix); count != counts_.end() && count->second > 0)
      absl::StrAppend(&lines, "  .reg .", type, " %", prefix, "<", count->second, ">;\n");
  return lines;
}

}  // namespace tessera::compiler::ptx
