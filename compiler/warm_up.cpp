#include "compiler/warm_up.h"

#include "compiler/codegen/codegen.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/host.h"
#include "proto/sha256.h"

namespace tessera::compiler {
namespace {

constexpr char kWorkload[] = R"(
func.func @warm_up(%x: tensor<1xf32>) -> tensor<1xf32> {
  %empty = tensor.empty() : tensor<1xf32>
  %y = linalg.exp ins(%x : tensor<1xf32>) outs(%empty : tensor<1xf32>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}
)";

}  // namespace

absl::Status warmUp() {
  const absl::StatusOr<v1::Target> target = detectHostTarget();
  if (!target.ok()) return target.status();
  v1::BuildUnit unit;
  unit.set_symbol("warm_up");
  unit.set_ir(kWorkload);
  *unit.mutable_code() = target->code();
  *unit.mutable_registers() = target->registers();
  *unit.mutable_memory() = target->memory();
  *unit.mutable_intrinsics() = usableInstructions(*target);
  absl::StatusOr<v1::Schedule> schedule = defaultSchedule(unit);
  if (!schedule.ok()) return schedule.status();
  *unit.mutable_schedule() = *std::move(schedule);
  (void)sha256Hex("");
  return buildObject(unit).status();
}

}  // namespace tessera::compiler
