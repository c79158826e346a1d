#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/simulator/instruction.h"
#include "compiler/simulator/interpreter.h"
#include "compiler/simulator/kernel.h"
#include "compiler/simulator/nest_execution.h"
#include "compiler/simulator/run_cost.h"
#include "compiler/simulator/tile_tree.h"
#include "compiler/simulator/vector_plan.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

/// How one nest runs.
struct NestCode {
  std::optional<ProductNest> product;  ///< set for calls, as is `program`
  std::optional<Program> program;
  std::optional<VectorPlan> plan;  ///< neither: a fill without code
};

class Kernel : public LoadedKernel {
 public:
  Kernel(CheckedKernel checked, const v1::SpatialKernel& kernel, v1::Target target)
      : checked_(std::move(checked)), operands_(static_cast<size_t>(kernel.operands())), target_(std::move(target)) {}

  absl::Status read(const v1::Schedule& schedule) {
    if (schedule.phases_size() != static_cast<int>(checked_.nests.size())) {
      return scheduleFault("", "one phase for each nest", absl::StrCat(schedule.phases_size(), " phases"),
                           absl::StrCat(checked_.nests.size()));
    }
    if (schedule.vector_bits() != 0 || schedule.fused_size() > 0)
      return scheduleFault("", "decisions of CPU code", "vector_bits or fused", "neither, for a described chip");
    const std::vector<int> fills = fillsOf(checked_);
    std::vector<int> started(checked_.nests.size(), 0);  // calls that start from a fill
    for (size_t n = 0; n < checked_.nests.size(); ++n) {
      TESSERA_ASSIGN_OR_RETURN(NestCode code, codeOf(schedule.phases(static_cast<int>(n)), n));
      if (code.program) {
        const bool initial =
            fills[n] >= 0 && leafKernel(schedule.phases(fills[n])).variant() == std::string(words::kInitial);
        if (!initial) {
          return scheduleFault(absl::StrCat(n), "a call whose output holds other values than 0 before",
                               absl::StrCat("nest ", n), "a fill with variant initial before it, or a vector unit");
        }
        ++started[static_cast<size_t>(fills[n])];
      }
      codes_.push_back(std::move(code));
    }
    for (size_t n = 0; n < codes_.size(); ++n) {
      if (codes_[n].program || codes_[n].plan || started[n] == 1) continue;
      return scheduleFault(absl::StrCat(n), "a nest without code", std::string(words::kInitial),
                           "a fill from whose value a later call starts");
    }
    return absl::OkStatus();
  }

  absl::Status run(std::span<uint8_t* const> operands) override {
    if (operands.size() != operands_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the kernel has ", operands_, " operands, ", operands.size(), " are given"));
    }
    TESSERA_RETURN_IF_ERROR(allocate());
    std::vector<uint8_t*> buffers(operands.begin(), operands.end());
    for (std::vector<uint8_t>& temporary : temporaries_) buffers.push_back(temporary.data());
    for (size_t n = 0; n < codes_.size(); ++n) {
      if (codes_[n].program) {
        TESSERA_RETURN_IF_ERROR(call(n, buffers));
      } else if (codes_[n].plan) {
        TESSERA_RETURN_IF_ERROR(runNest(checked_, checked_.nests[n], buffers));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<KernelCost> cost() override {
    if (cost_) return *cost_;
    RunCost total(target_);
    int64_t bytes = 0;
    for (size_t b = 0; b < checked_.types.size(); ++b)
      bytes = std::min(INT64_MAX / 2, bytes) + std::min(INT64_MAX / 2, checked_.bytesOf(static_cast<int>(b)));
    total.occupy(bytes);
    for (size_t n = 0; n < codes_.size(); ++n) {
      const SpatialNest& nest = checked_.nests[n];
      if (codes_[n].program) {
        TESSERA_ASSIGN_OR_RETURN(const Timeline timeline, timelineOf(*codes_[n].program, /*once=*/true));
        total.add(nest.name, *codes_[n].program, timeline);
      } else if (codes_[n].plan) {
        TESSERA_ASSIGN_OR_RETURN(const VectorCost cost, costOf(*codes_[n].plan, nest, target_));
        total.add(nest.name, codes_[n].plan->unit, cost);
      } else {
        total.addNothing(nest.name);
      }
    }
    cost_ = total.take();
    return *cost_;
  }

  std::string text() const override {
    std::string text;
    for (size_t n = 0; n < codes_.size(); ++n) {
      const SpatialNest& nest = checked_.nests[n];
      absl::StrAppend(&text, "nest ", n, " ", nest.name, "\n");
      if (codes_[n].program) {
        absl::StrAppend(&text, print(*codes_[n].program));
      } else if (codes_[n].plan) {
        absl::StrAppend(&text, "on ", codes_[n].plan->unit, ", tiles of",
                        absl::StrJoin(nest.loops, "",
                                      [&](std::string* out, const loopnest::Loop& loop) {
                                        absl::StrAppend(
                                            out, " ", loop.name, ":",
                                            codes_[n].plan->tile[static_cast<size_t>(&loop - nest.loops.data())]);
                                      }),
                        "\n");
      } else {
        absl::StrAppend(&text, "no code\n");
      }
    }
    return text;
  }

 private:
  absl::StatusOr<NestCode> codeOf(const v1::Tile& tree, size_t n) const {
    const SpatialNest& nest = checked_.nests[n];
    const auto number = static_cast<int>(n);
    const std::string& variant = leafKernel(tree).variant();
    NestCode code;
    if (variant == words::kInitial) {
      TESSERA_RETURN_IF_ERROR(sameTree(tree, initialTree(number), absl::StrCat(n)));
    } else if (variant == words::kVector) {
      TESSERA_ASSIGN_OR_RETURN(code.plan, vectorPlanOf(tree, nest, number, target_));
      if (const auto cost = costOf(*code.plan, nest, target_); !cost.ok())
        return unusable(absl::StrCat(n), cost.status());
    } else if (variant == words::kCall) {
      absl::StatusOr<ProductNest> product = productOf(nest, checked_);
      if (!product.ok())
        return scheduleFault(absl::StrCat(n), "no instruction computes the nest",
                             std::string(product.status().message()), std::string(words::kVector));
      TESSERA_ASSIGN_OR_RETURN(code.program, programOf(tree, *product, number, target_));
      const auto instruction = instructionOf(code.program->choice.intrinsic, code.program->instruction);
      if (!instruction.ok()) return unusable(absl::StrCat(n), instruction.status());
      code.product = *std::move(product);
    } else {
      return scheduleFault(absl::StrCat(n), "a leaf that no described chip has", "'" + variant + "'",
                           absl::StrCat(std::string(words::kCall), ", ", std::string(words::kVector), ", ",
                                        std::string(words::kInitial)));
    }
    return code;
  }

  absl::Status allocate() {
    if (!temporaries_.empty()) return absl::OkStatus();
    int64_t bytes = 0;
    for (size_t b = operands_; b < checked_.types.size(); ++b)
      bytes = std::min(kMaxBytes, bytes) + std::min(kMaxBytes, checked_.bytesOf(static_cast<int>(b)));
    if (bytes > kMaxBytes) {
      return absl::ResourceExhaustedError(absl::StrCat("temporary buffers of more than ", kMaxBytes, " bytes"));
    }
    for (size_t b = operands_; b < checked_.types.size(); ++b)
      temporaries_.emplace_back(static_cast<size_t>(checked_.bytesOf(static_cast<int>(b))), 0);
    return absl::OkStatus();
  }

  absl::Status call(size_t n, const std::vector<uint8_t*>& buffers) const {
    const SpatialNest& nest = checked_.nests[n];
    const NestCode& code = codes_[n];
    std::vector<int> accesses = {0};
    accesses.insert(accesses.end(), code.product->factors.begin(), code.product->factors.end());
    TensorBytes tensors;
    for (const int access : accesses) {
      const int buffer = nest.accesses[static_cast<size_t>(access)].buffer;
      const uint8_t* bytes = buffers[static_cast<size_t>(buffer)];
      tensors.emplace_back(bytes, bytes + checked_.bytesOf(buffer));
    }
    const auto done = execute(*code.program, tensors);
    if (!done.ok()) {
      const bool too_large = done.status().code() == absl::StatusCode::kResourceExhausted;
      return absl::Status(too_large ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                          absl::StrCat("nest ", n, " (", nest.name, "): ", done.status().message()));
    }
    std::ranges::copy(tensors[0], buffers[static_cast<size_t>(nest.accesses[0].buffer)]);
    return absl::OkStatus();
  }

  const CheckedKernel checked_;
  const size_t operands_;
  const v1::Target target_;
  std::vector<NestCode> codes_;  // per nest
  std::vector<std::vector<uint8_t>> temporaries_;
  std::optional<KernelCost> cost_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedKernel>> LoadedKernel::load(const v1::SpatialKernel& kernel,
                                                                 const v1::Target& target) {
  TESSERA_ASSIGN_OR_RETURN(CheckedKernel checked, checkKernel(kernel));
  auto loaded = std::make_unique<Kernel>(std::move(checked), kernel, target);
  TESSERA_RETURN_IF_ERROR(loaded->read(kernel.schedule()));
  return loaded;
}

}  // namespace tessera::compiler::simulator
