#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/graph/code_facts.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/plan.pb.h"
#include "tessera/v1/target.pb.h"

/// Back ends schedule, check and build workloads for the chips of some families. The driver asks this interface and no
/// family.
namespace tessera::compiler {

/// Options of Backend::propose().
struct Proposal {
  v1::ChainTiling slices = {};  ///< proposed by the graph level; no loop names: no slices
  bool scalar = false;          ///< plain loops for all nests (CompileOptions.opt_level 1)
};

/// A way of running workloads. Stateless; its functions are deterministic and may be called by several threads. A unit
/// must have the instructions that instructions() returns for its target.
class Backend {
 public:
  virtual ~Backend() = default;

  /// What planning must know of the code. `scalar`: plain loops are wanted.
  virtual CodeFacts facts(const v1::Target& target, bool scalar) const = 0;

  /// The instructions of the chip that code may use.
  virtual google::protobuf::RepeatedPtrField<v1::Intrinsic> instructions(const v1::Target& target) const = 0;

  /// A schedule for the workload of a unit; unit.schedule is not read. Errors: INVALID_INPUT for slices that the
  /// workload cannot follow; UNSUPPORTED_OPERATOR or INVALID_TARGET if the chip cannot run it, naming the
  /// operation.
  virtual absl::StatusOr<v1::Schedule> propose(const v1::BuildUnit& unit, const Proposal& wanted) const = 0;

  /// INVALID_SCHEDULE with the path of the tile, unless unit.schedule fits the workload and the chip.
  virtual absl::Status validate(const v1::BuildUnit& unit) const = 0;

  /// Builds the workload with exactly unit.schedule. Equal units give equal bytes. Errors as validate().
  virtual absl::StatusOr<v1::BuiltObject> build(const v1::BuildUnit& unit) const = 0;

  /// Compares what was built with the interpreted workload, on seeded inputs. INTERNAL naming the step that is wrong.
  virtual absl::StatusOr<std::vector<v1::VerifiedStep>> verify(const v1::BuildUnit& unit,
                                                               const v1::BuiltObject& built) const = 0;
};

/// The back end of a family for which modelsCompileFor() holds (compiler/target/target.h); unspecified: of processors.
/// Null for others.
const Backend* backendOf(v1::Target::Family family);

/// Each back end.
const Backend& processorBackend();
const Backend& spatialBackend();
const Backend& openClBackend();

}  // namespace tessera::compiler
