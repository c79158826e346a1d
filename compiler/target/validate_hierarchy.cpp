#include "compiler/target/validate_hierarchy.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/target/hierarchy.h"
#include "compiler/target/rates.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kMaxInstances = int64_t{1} << 30;
constexpr int kMaxLanes = 1 << 20;

template <typename Part>
std::string namesOf(const google::protobuf::RepeatedPtrField<Part>& parts) {
  return absl::CHexEscape(absl::StrJoin(parts, ", ", [](std::string* out, const Part& part) { *out += part.name(); }));
}

class HierarchyValidator {
 public:
  HierarchyValidator(const v1::Target& target, Problems& problems)
      : target_(target), chip_(target), problems_(problems) {}

  void run() {
    for (int u = 0; u < target_.units_size() && !problems_.full(); ++u) {
      const v1::ComputeUnit& unit = target_.units(u);
      const std::string at = absl::StrCat("units[", u, "].");
      if (chip_.unitNamed(unit.name()) != u) {
        problems_.add(at + "name",
                      absl::StrCat("'", absl::CHexEscape(unit.name()), "' is the name of an earlier unit as well"));
      }
      parent(at, u);
      throughput(at, u);
      if (!unit.memory().empty() && chip_.levelNamed(unit.memory()) < 0) {
        problems_.add(at + "memory",
                      absl::StrCat("'", absl::CHexEscape(unit.memory()),
                                   "' is no memory of this target; accepted: ", namesOf(target_.memory())));
      }
      rates(at, unit);
    }
    for (int l = 0; l < target_.memory_size() && !problems_.full(); ++l) level(absl::StrCat("memory[", l, "]."), l);
  }

 private:
  bool isUnit(const std::string& field, const std::string& name) {
    if (chip_.unitNamed(name) >= 0) return true;
    problems_.add(field, absl::StrCat("'", absl::CHexEscape(name),
                                      "' is no unit of this target; accepted: ", namesOf(target_.units())));
    return false;
  }

  void parent(const std::string& at, int u) {
    const v1::ComputeUnit& unit = target_.units(u);
    if (unit.parent().empty() || !isUnit(at + "parent", unit.parent())) return;
    int above = u;
    for (int step = 0; above >= 0; ++step) {
      above = chip_.units()[static_cast<size_t>(above)].parent;
      if (above == u) {
        return problems_.add(at + "parent", absl::StrCat("makes ", absl::CHexEscape(unit.name()),
                                                         " a part of itself; the outermost unit has no parent"));
      }
      if (step > target_.units_size()) return;  // a cycle that other units form
    }
    const int64_t instances = chip_.units()[static_cast<size_t>(u)].instances;
    if (instances > kMaxInstances) {
      problems_.add(at + "count",
                    absl::StrCat("makes ", instances, " units on the chip; at most ", kMaxInstances, " are accepted"));
    }
  }

  void throughput(const std::string& at, int u) {
    const v1::ComputeUnit& unit = target_.units(u);
    const bool contains = chip_.containsUnits(u);
    problems_.checkRange(at + "lanes", unit.lanes(), contains ? 0 : 1, kMaxLanes);
    if (!contains || unit.ops_per_cycle() != 0) problems_.checkPositive(at + "ops_per_cycle", unit.ops_per_cycle());
  }

  void rates(const std::string& at, const v1::ComputeUnit& unit) {
    if (!problems_.checkCount(at + "rates", unit.rates_size())) return;
    std::set<std::pair<std::string, v1::DataType>> stated;
    for (int i = 0; i < unit.rates_size() && !problems_.full(); ++i) {
      const v1::ComputeUnit::Rate& rate = unit.rates(i);
      const std::string here = absl::StrCat(at, "rates[", i, "].");
      if (!isRateName(rate.operation())) {
        problems_.add(here + "operation",
                      absl::StrCat("'", absl::CHexEscape(rate.operation()),
                                   "' is neither an operation of a body, such as 'addf' or 'exp', nor a kind; kinds: ",
                                   rateKinds()));
      }
      if (!v1::DataType_IsValid(rate.dtype())) {
        problems_.add(here + "dtype", "is not a known element type");
      } else if (!stated.emplace(rate.operation(), rate.dtype()).second) {
        problems_.add(here + "operation", absl::StrCat("'", absl::CHexEscape(rate.operation()),
                                                       "' has an earlier rate for the same element type"));
      }
      problems_.checkPositive(here + "elements_per_cycle", rate.elements_per_cycle());
      problems_.checkNonNegative(here + "energy_pj", rate.energy_pj());
    }
  }

  void level(const std::string& at, int l) {
    const v1::MemoryLevel& level = target_.memory(l);
    const bool own = !level.unit().empty();
    if (own && !isUnit(at + "unit", level.unit())) return;
    const int64_t cores = chip_.units().empty() ? 1 : chip_.units()[0].instances;
    const Hierarchy::Level& here = chip_.levels()[static_cast<size_t>(l)];
    if (!own) {
      problems_.checkRange(at + "shared_by", level.shared_by(), 1, 1 << 20);
    } else if (const int64_t sharers = std::max<int64_t>(1, cores / here.instances);
               level.shared_by() != 0 && level.shared_by() != sharers) {
      problems_.add(at + "shared_by", absl::StrCat("is ", level.shared_by(), ", but one instance for each ",
                                                   absl::CHexEscape(level.unit()), " is shared by ", sharers,
                                                   " of the first unit; leave it out"));
    }
    // A level around another one cannot have more instances than it.
    if (level.peer_of_inner() || l == 0) return;
    const Hierarchy::Level& inner = chip_.levels()[static_cast<size_t>(l) - 1];
    if ((own || inner.unit >= 0) && here.instances > inner.instances) {
      problems_.add(at + (own ? "unit" : "shared_by"),
                    absl::StrCat("gives ", here.instances, " instances, more than the inner level's ", inner.instances,
                                 "; levels are listed innermost first"));
    }
  }

  const v1::Target& target_;
  const Hierarchy chip_;
  Problems& problems_;
};

}  // namespace

void validateHierarchy(const v1::Target& target, Problems& problems) { HierarchyValidator(target, problems).run(); }

}  // namespace tessera::compiler
