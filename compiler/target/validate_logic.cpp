#include "compiler/target/validate_logic.h"

#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kMaxResources = int64_t{1} << 40;
constexpr int kMaxPortBits = 4096, kMaxOperatorCycles = 4096;

void checkResources(const std::string& at, const v1::ProgrammableLogic::Resources& resources, Problems& problems) {
  problems.checkRange(at + "dsp", resources.dsp(), 0, kMaxResources);
  problems.checkRange(at + "bram", resources.bram(), 0, kMaxResources);
  problems.checkRange(at + "uram", resources.uram(), 0, kMaxResources);
  problems.checkRange(at + "lut", resources.lut(), 0, kMaxResources);
  problems.checkRange(at + "ff", resources.ff(), 0, kMaxResources);
}

void checkOperators(const v1::ProgrammableLogic& logic, Problems& problems) {
  if (!problems.checkCount("logic.operators", logic.operators_size())) return;
  std::set<std::pair<std::string, v1::DataType>> listed;
  for (int i = 0; i < logic.operators_size(); ++i) {
    const v1::ProgrammableLogic::Operator& each = logic.operators(i);
    const std::string at = absl::StrCat("logic.operators[", i, "].");
    problems.checkToken(at + "operation", each.operation());
    if (!v1::DataType_IsValid(each.dtype())) {
      problems.add(at + "dtype", "is not a known element type");
    } else if (!listed.emplace(each.operation(), each.dtype()).second) {
      problems.add(at + "operation", absl::StrCat("'", absl::CHexEscape(each.operation()),
                                                  "' is listed before for the same element type"));
    }
    checkResources(at + "cost.", each.cost(), problems);
    problems.checkRange(at + "latency_cycles", each.latency_cycles(), 0, kMaxOperatorCycles);
  }
}

}  // namespace

void validateLogic(const v1::Target& target, Problems& problems) {
  const bool is_logic = target.family() == v1::Target::HLS;
  if (target.has_logic() && !is_logic) return problems.add("logic", "is set, but the family is not HLS");
  if (!is_logic) return;
  if (!target.has_logic()) return problems.add("logic", "is missing; family HLS states resources and costs there");
  const v1::ProgrammableLogic& logic = target.logic();
  checkResources("logic.device.", logic.device(), problems);
  checkResources("logic.shell.", logic.shell(), problems);
  checkResources("logic.port.", logic.port(), problems);
  checkResources("logic.process.", logic.process(), problems);
  problems.checkRange("logic.device.lut", logic.device().lut(), 1, kMaxResources);
  const auto fits = [&](const char* name, int64_t shell, int64_t device) {
    if (shell > device)
      problems.add(absl::StrCat("logic.shell.", name), absl::StrCat("is ", shell, ", more than the device's ", device));
  };
  fits("dsp", logic.shell().dsp(), logic.device().dsp());
  fits("bram", logic.shell().bram(), logic.device().bram());
  fits("uram", logic.shell().uram(), logic.device().uram());
  fits("lut", logic.shell().lut(), logic.device().lut());
  fits("ff", logic.shell().ff(), logic.device().ff());
  problems.checkPositive("logic.routable_share", logic.routable_share());
  if (logic.routable_share() > 1)
    problems.add("logic.routable_share", absl::StrCat("is ", logic.routable_share(), ", a share is at most 1"));
  problems.checkPowerOfTwo("logic.port_bits", logic.port_bits());
  problems.checkRange("logic.port_bits", logic.port_bits(), 64, kMaxPortBits);
  problems.checkNonNegative("logic.process_cycles", logic.process_cycles());
  problems.checkNonNegative("logic.burst_cycles", logic.burst_cycles());
  checkOperators(logic, problems);
}

}  // namespace tessera::compiler
