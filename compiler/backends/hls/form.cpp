#include "compiler/backends/hls/form.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "absl/strings/str_cat.h"

namespace tessera::compiler::hls {
namespace {

using simulator::SpatialAccess;
using simulator::SpatialNest;

/// Operations that may be applied in any order, up to rounding.
constexpr std::array<std::string_view, 12> kCombining = {"addf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf",
                                                         "addi", "muli", "maxsi",    "minsi",    "maxui",   "minui"};

/// Whether the computation of `value` uses the content of access `access`.
bool dependsOn(const SpatialNest& nest, int value, int access) {
  const auto accesses = static_cast<int>(nest.accesses.size());
  if (value < accesses) return value == access;
  return std::ranges::any_of(nest.body[static_cast<size_t>(value - accesses)].operands,
                             [&](int operand) { return dependsOn(nest, operand, access); });
}

Combination combinationOf(const SpatialNest& nest, int output) {
  Combination result{.reads_old = nest.reads(output)};
  const auto accesses = static_cast<int>(nest.accesses.size());
  const int operation = nest.yields[static_cast<size_t>(output)] - accesses;
  if (!result.reads_old || operation < 0) return result;
  const simulator::SpatialOperation& op = nest.body[static_cast<size_t>(operation)];
  if (std::ranges::count(kCombining, op.name) == 0) return result;
  // No other operation may see an intermediate content.
  for (size_t other = 0; other < nest.body.size(); ++other)
    if (static_cast<int>(other) != operation && std::ranges::count(nest.body[other].operands, output) > 0)
      return result;
  if (std::ranges::count(nest.yields, output) > 0) return result;
  const int other = op.operands[0] == output ? op.operands[1] : op.operands[0];
  if (std::ranges::count(op.operands, output) != 1) return result;
  for (int each = 0; each < nest.outputs; ++each)
    if (dependsOn(nest, other, each)) return result;
  result.operation = operation;
  result.contribution = other;
  return result;
}

/// Why an output's tiles are no boxes that a transfer writes completely; empty: they are.
std::string unwritable(const SpatialNest& nest, const SpatialAccess& access) {
  std::set<int> loops;
  for (size_t d = 0; d < access.subscripts.size(); ++d) {
    const loopnest::Subscript& subscript = access.subscripts[d];
    if (!subscript.isAffine() || subscript.terms.size() > 1) return "writes at subscripts of several loops";
    if (subscript.terms.empty()) continue;
    if (subscript.terms[0].coefficient != 1) return "writes elements that are not adjacent";
    if (!loops.insert(subscript.terms[0].loop).second) return "writes along a diagonal";
    if (access.strides[d] < 1 && nest.loops[static_cast<size_t>(subscript.terms[0].loop)].extent > 1)
      return "writes at strides below 1";
  }
  return "";
}

std::string unbufferable(const SpatialNest& nest, const std::vector<bool>& reduction) {
  for (const simulator::SpatialOperation& each : nest.body)
    if (each.name == "load") return "reads elements at computed places";
  const std::vector<bool> parallel = simulator::parallelLoopsOf(nest);
  for (size_t loop = 0; loop < reduction.size(); ++loop)
    if (!reduction[loop] && !parallel[loop] && nest.loops[loop].extent > 1) return "its points depend on each other";
  for (int output = 0; output < nest.outputs; ++output) {
    const SpatialAccess& access = nest.accesses[static_cast<size_t>(output)];
    for (size_t loop = 0; loop < reduction.size(); ++loop) {
      const bool moves =
          std::ranges::any_of(access.subscripts, [&](const auto& each) { return each.uses(static_cast<int>(loop)); });
      if (!reduction[loop] && !moves && nest.loops[loop].extent > 1) return "its outputs have different loops";
    }
    if (std::string why = unwritable(nest, access); !why.empty()) return why;
    for (size_t input = static_cast<size_t>(nest.outputs); input < nest.accesses.size(); ++input)
      if (nest.accesses[input].buffer == access.buffer) return "reads the buffer that it writes";
  }
  for (const SpatialAccess& access : nest.accesses)
    if (std::ranges::any_of(access.strides, [](int64_t stride) { return stride < 0; })) return "reads backwards";
  return "";
}

/// The elements that an access touches are exactly those of its range.
bool isDense(const SpatialNest& nest, const SpatialAccess& access, const std::vector<bool>& reduction) {
  int64_t points = 1;
  for (size_t loop = 0; loop < reduction.size(); ++loop)
    if (!reduction[loop]) points *= nest.loops[loop].extent;
  return access.range.high - access.range.low + 1 == points;
}

/// A nest that stores one constant in all elements of a range.
bool isFill(const Form& form) {
  const SpatialNest& nest = *form.nest;
  return form.direct.empty() && nest.accesses.size() == 1 && nest.body.size() == 1 && nest.body[0].name == "constant" &&
         nest.yields[0] == 1 && isDense(nest, nest.accesses[0], form.reduction);
}

}  // namespace

bool Form::reduces() const {
  for (size_t loop = 0; loop < reduction.size(); ++loop)
    if (reduction[loop] && extent(loop) > 1) return true;
  return false;
}

bool Form::combines() const {
  return std::ranges::all_of(outputs, [](const Combination& each) { return each.operation >= 0; });
}

Form formOf(const SpatialNest& nest) {
  Form form{.nest = &nest};
  form.whole.resize(nest.loops.size());
  for (size_t loop = 0; loop < nest.loops.size(); ++loop) {
    const auto moved = [&](const loopnest::Subscript& each) { return each.uses(static_cast<int>(loop)); };
    const bool moves =
        std::ranges::any_of(nest.accesses.begin(), nest.accesses.begin() + nest.outputs,
                            [&](const SpatialAccess& access) { return std::ranges::any_of(access.subscripts, moved); });
    form.reduction.push_back(!moves);
    for (const SpatialAccess& access : nest.accesses)
      for (const loopnest::Subscript& each : access.subscripts)
        if (!each.isAffine() && each.uses(static_cast<int>(loop))) form.whole[loop] = true;
  }
  for (int output = 0; output < nest.outputs; ++output) form.outputs.push_back(combinationOf(nest, output));
  form.direct = unbufferable(nest, form.reduction);
  return form;
}

std::vector<Form> formsOf(const simulator::CheckedKernel& kernel) {
  std::vector<Form> all;
  for (const SpatialNest& nest : kernel.nests) all.push_back(formOf(nest));
  std::vector<bool> dropped(all.size());
  for (size_t fill = 0; fill < all.size(); ++fill) {
    if (!isFill(all[fill])) continue;
    const SpatialAccess& written = all[fill].nest->accesses[0];
    // The next nest that touches the buffer must sum into exactly these elements.
    for (size_t next = fill + 1; next < all.size(); ++next) {
      const SpatialNest& nest = *all[next].nest;
      const auto touches = [&](const SpatialAccess& each) { return each.buffer == written.buffer; };
      const bool loads =
          std::ranges::any_of(nest.body, [&](const auto& each) { return each.name == "load" && touches(each.access); });
      if (std::ranges::none_of(nest.accesses, touches) && !loads) continue;
      const SpatialAccess& sum = nest.accesses[0];
      if (!loads && all[next].direct.empty() && nest.outputs == 1 &&
          std::ranges::count_if(nest.accesses, touches) == 1 && touches(sum) && all[next].outputs[0].reads_old &&
          isDense(nest, sum, all[next].reduction) && sum.range.low == written.range.low &&
          sum.range.high == written.range.high) {
        all[next].outputs[0].initial = all[fill].nest->body[0].constant;
        dropped[fill] = true;
      }
      break;
    }
  }
  std::vector<Form> kept;
  for (size_t n = 0; n < all.size(); ++n)
    if (!dropped[n]) kept.push_back(std::move(all[n]));
  return kept;
}

int64_t Dimension::low(const std::vector<int64_t>& extents) const {
  int64_t low = constant;
  for (size_t loop = 0; loop < coefficients.size(); ++loop)
    if (coefficients[loop] < 0) low += coefficients[loop] * (extents[loop] - 1);
  return low;
}

int64_t Dimension::extent(const std::vector<int64_t>& extents) const {
  int64_t extent = 1;
  for (size_t loop = 0; loop < coefficients.size(); ++loop)
    extent += std::abs(coefficients[loop]) * (extents[loop] - 1);
  return extent;
}

Box boxOf(const Form& form, size_t access, const std::vector<int64_t>& tile) {
  const SpatialAccess& from = form.nest->accesses[access];
  Box box{.offset = from.offset};
  for (size_t d = 0; d < from.subscripts.size(); ++d) {
    const loopnest::Subscript& subscript = from.subscripts[d];
    Dimension dimension{.coefficients = std::vector<int64_t>(form.loops()),
                        .constant = subscript.constant,
                        .stride = from.strides[d],
                        .digits = subscript.isAffine() ? -1 : static_cast<int>(d)};
    for (const loopnest::Term& term : subscript.terms)
      dimension.coefficients[static_cast<size_t>(term.loop)] = term.coefficient;
    if (subscript.terms.empty() && subscript.isAffine()) {
      box.offset += subscript.constant * dimension.stride;
    } else {
      const auto place =
          std::ranges::upper_bound(box.dimensions, dimension.stride, std::ranges::greater(), &Dimension::stride);
      box.dimensions.insert(place, std::move(dimension));
    }
  }
  // A dimension that every tile covers completely continues the one outside of it.
  for (size_t inner = box.dimensions.size(); inner-- > 1;) {
    Dimension& outer = box.dimensions[inner - 1];
    const Dimension& full = box.dimensions[inner];
    bool fixed = outer.digits < 0 && full.digits < 0;
    for (size_t loop = 0; loop < form.loops(); ++loop)
      fixed &= full.coefficients[loop] == 0 || tile[loop] == form.extent(loop);
    const int64_t extent = full.extent(tile), low = full.low(tile);
    if (!fixed || outer.stride != extent * full.stride) continue;
    for (size_t loop = 0; loop < form.loops(); ++loop)
      outer.coefficients[loop] = outer.coefficients[loop] * extent + full.coefficients[loop];
    outer.constant = outer.constant * extent + full.constant - low;
    outer.stride = full.stride;
    box.offset += low * full.stride;
    box.dimensions.erase(box.dimensions.begin() + static_cast<std::ptrdiff_t>(inner));
  }
  return box;
}

}  // namespace tessera::compiler::hls
