#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// Units and memory levels of a chip as a hierarchy: how many of each there are, which units share an instance of a
/// level, and what an instance transfers. Made from a valid description of either form: units in units and levels that
/// belong to units, or levels that a number of cores share. The core is the first unit.
class Hierarchy {
 public:
  struct Unit {
    std::string name;
    int parent = -1;        ///< position of the unit that contains it; -1: it is directly on the chip
    int64_t instances = 1;  ///< on the chip
    /// f32 operations of one instance. If the description leaves it to the units inside: the most that units of one
    /// kind inside of it perform together.
    double operations_per_cycle = 0;
    double frequency_ghz = 0;
  };
  /// Figures are those of one instance.
  struct Level {
    std::string name;
    int unit = -1;  ///< position of the unit that has the level, one instance each; -1: `shared_by` cores share one
    int64_t instances = 1;
    int64_t capacity_bytes = 0;  ///< 0: not limited
    double read_bytes_per_cycle = 0, write_bytes_per_cycle = 0;
    double read_pj_per_byte = 0, write_pj_per_byte = 0;
    bool multicast = false;
  };
  /// The part of a level that each unit gets if all units use it equally.
  struct Share {
    int64_t sharers = 1;  ///< units of the kind that share an instance
    int64_t capacity_bytes = 0;
    double read_bytes_per_cycle = 0, write_bytes_per_cycle = 0;
  };

  explicit Hierarchy(const v1::Target& target);

  const std::vector<Unit>& units() const { return units_; }     ///< in the order of the description
  const std::vector<Level>& levels() const { return levels_; }  ///< innermost first
  /// Positions; -1 if there is none of that name.
  int unitNamed(std::string_view name) const;
  int levelNamed(std::string_view name) const;
  /// Null if there is none of that name.
  const Unit* unit(std::string_view name) const;
  const Level* level(std::string_view name) const;

  /// Position of the unit that executes an instruction: the named one, or the first one if the name is empty. -1 if
  /// there is none of that name.
  int unitOf(const v1::Intrinsic& intrinsic) const;

  /// Whether the description names units inside of this one.
  bool containsUnits(int unit) const;
  /// Whether `outer` contains `inner`, directly or not.
  bool isInside(int inner, int outer) const;

  /// Instances of `inner` that exchange data with one instance of `outer`; at least 1.
  int64_t fanOut(int outer, int inner) const;

  /// Of the unit at a position; -1: a unit that is alone on the chip.
  Share shareOf(int level, int unit) const;

 private:
  /// A level as described: bandwidths of an instance, or for each of the cores that share it.
  struct Figures {
    int32_t shared_by = 1;
    double read = 0, write = 0;
  };

  void countUnits(const v1::Target& target);

  std::vector<Unit> units_;
  std::vector<Level> levels_;
  std::vector<Figures> figures_;  ///< per level
};

}  // namespace tessera::compiler
