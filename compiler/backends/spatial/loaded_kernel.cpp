#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/spatial/epilogue.h"
#include "compiler/backends/spatial/instruction.h"
#include "compiler/backends/spatial/interpreter.h"
#include "compiler/backends/spatial/kernel.h"
#include "compiler/backends/spatial/nest_execution.h"
#include "compiler/backends/spatial/run_cost.h"
#include "compiler/backends/spatial/tile_tree.h"
#include "compiler/backends/spatial/vector_plan.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

/// How one phase runs.
struct PhaseCode {
  size_t nest = 0;
  std::optional<size_t> follower;      ///< the nest of the program's epilogue
  std::optional<ProductNest> product;  ///< set for calls, as is `program`
  std::optional<Program> program;
  std::optional<VectorPlan> plan;                   ///< neither: a fill without code
  std::map<std::vector<bool>, Timeline> timelines;  ///< by the tensors that a cache holds before

  size_t last() const { return follower.value_or(nest); }
};

class Kernel : public LoadedKernel {
 public:
  Kernel(CheckedKernel checked, const v1::SpatialKernel& kernel, v1::Target target)
      : checked_(std::move(checked)), operands_(static_cast<size_t>(kernel.operands())), target_(std::move(target)) {}

  absl::Status read(const v1::Schedule& schedule) {
    if (schedule.vector_bits() != 0 || schedule.fused_size() > 0)
      return scheduleFault("", "decisions of CPU code", "vector_bits or fused", "neither, for a described chip");
    const size_t nests = checked_.nests.size();
    std::vector<int> phase_of(nests, -1);
    for (int p = 0; p < schedule.phases_size(); ++p) {
      TESSERA_RETURN_IF_ERROR(take(schedule.phases(p), p, phase_of));
      if (p > 0 && phases_[static_cast<size_t>(p) - 1].last() >= phases_.back().last()) {
        return scheduleFault(absl::StrCat(p), "phases out of order", absl::StrCat("nest ", phases_.back().last()),
                             "phases in the order of their last nests");
      }
    }
    if (const auto left_out = std::ranges::find(phase_of, -1); left_out != phase_of.end()) {
      return scheduleFault("", "one leaf for each nest", absl::StrCat(schedule.phases_size(), " phases"),
                           absl::StrCat("a leaf for nest ", left_out - phase_of.begin(), ", too"));
    }
    const std::vector<int> fills = fillsOf(checked_);
    std::vector<int> started(nests, 0);  // calls that start from a fill
    for (int p = 0; p < schedule.phases_size(); ++p) {
      PhaseCode& code = phases_[static_cast<size_t>(p)];
      TESSERA_RETURN_IF_ERROR(readCode(schedule.phases(p), absl::StrCat(p), code));
      if (!code.program) continue;
      const int fill = fills[code.nest];
      const bool initial = fill >= 0 && leafKernel(schedule.phases(phase_of[static_cast<size_t>(fill)])).variant() ==
                                            std::string(words::kInitial);
      if (!initial) {
        return scheduleFault(absl::StrCat(p), "a call whose output holds other values than 0 before",
                             absl::StrCat("nest ", code.nest),
                             "a fill with variant initial before it, or a vector unit");
      }
      ++started[static_cast<size_t>(fill)];
    }
    for (size_t p = 0; p < phases_.size(); ++p) {
      if (phases_[p].program || phases_[p].plan || started[phases_[p].nest] == 1) continue;
      return scheduleFault(absl::StrCat(p), "a nest without code", std::string(words::kInitial),
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
    for (const PhaseCode& code : phases_) {
      if (code.program) {
        TESSERA_RETURN_IF_ERROR(call(code, buffers));
      } else if (code.plan) {
        TESSERA_RETURN_IF_ERROR(runNest(checked_, checked_.nests[code.nest], buffers));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<KernelCost> cost() override {
    SharedCache cache(target_);
    std::vector<int64_t> tensors;
    for (size_t operand = 0; operand < operands_; ++operand) tensors.push_back(cache.newTensor());
    return cost(cache, tensors);
  }

  absl::StatusOr<KernelCost> cost(SharedCache& cache, std::span<const int64_t> tensors) override {
    RunCost total(target_);
    int64_t bytes = 0;
    for (size_t b = 0; b < checked_.types.size(); ++b)
      bytes = std::min(INT64_MAX / 2, bytes) + std::min(INT64_MAX / 2, checked_.bytesOf(static_cast<int>(b)));
    total.occupy(bytes);
    std::vector<int64_t> known(tensors.begin(), tensors.end());
    while (known.size() < checked_.types.size()) known.push_back(cache.newTensor());
    for (PhaseCode& code : phases_) {
      const SpatialNest& nest = checked_.nests[code.nest];
      if (!code.program && !code.plan) {
        total.addNothing(nest.name);
        continue;
      }
      std::vector<SharedCache::Use> uses;
      for (const SpatialAccess* access : accessesOf(code))
        uses.push_back({known[static_cast<size_t>(access->buffer)], checked_.bytesOf(access->buffer)});
      const WarmTensors warm = cache.use(uses);
      total.keep(warm.level, cache.usedBytes());
      if (code.plan) {
        TESSERA_ASSIGN_OR_RETURN(const VectorCost cost, costOf(*code.plan, nest, target_, warm));
        total.add(nest.name, code.plan->unit, cost);
        continue;
      }
      auto found = code.timelines.find(warm.tensors);
      if (found == code.timelines.end()) {
        WarmTensors aligned = warm;
        // The results of the product have no tensor.
        if (code.follower) aligned.tensors.insert(aligned.tensors.begin(), false);
        TESSERA_ASSIGN_OR_RETURN(Timeline timeline, timelineOf(*code.program, /*once=*/true, aligned));
        found = code.timelines.emplace(warm.tensors, std::move(timeline)).first;
      }
      total.add(nest.name, *code.program, found->second);
      if (code.follower) total.addNothing(checked_.nests[*code.follower].name);
    }
    return total.take();
  }

  std::string text() const override {
    std::string text;
    for (const PhaseCode& code : phases_) {
      const SpatialNest& nest = checked_.nests[code.nest];
      absl::StrAppend(&text, "nest ", code.nest, " ", nest.name, "\n");
      if (code.program) {
        absl::StrAppend(&text, print(*code.program));
      } else if (code.plan) {
        std::vector<std::string> loops;
        for (size_t l = 0; l < nest.loops.size(); ++l)
          loops.push_back(absl::StrCat(nest.loops[l].name, ":", code.plan->tile[l]));
        absl::StrAppend(&text, "on ", code.plan->unit, ", tiles of ", absl::StrJoin(loops, " "), "\n");
      } else {
        absl::StrAppend(&text, "no code\n");
      }
    }
    return text;
  }

 private:
  /// Adds the nests of a tree's leaves as one phase; a nest has one leaf.
  absl::Status take(const v1::Tile& tree, int phase, std::vector<int>& phase_of) {
    const std::string path = absl::StrCat(phase);
    const auto claim = [&](int nest, const std::string& at) -> absl::StatusOr<size_t> {
      if (nest < 0 || nest >= static_cast<int>(phase_of.size()) || phase_of[static_cast<size_t>(nest)] >= 0)
        return scheduleFault(at, "no nest of its own", absl::StrCat("nest ", nest), "each nest at one leaf");
      phase_of[static_cast<size_t>(nest)] = phase;
      return static_cast<size_t>(nest);
    };
    PhaseCode& code = phases_.emplace_back();
    TESSERA_ASSIGN_OR_RETURN(code.nest, claim(leafKernel(tree).nest(), path));
    if (const FollowerLeaf leaf = followerLeaf(tree, path); leaf.tile != nullptr) {
      TESSERA_ASSIGN_OR_RETURN(code.follower, claim(leaf.tile->kernel().nest(), leaf.path));
    }
    return absl::OkStatus();
  }

  absl::Status readCode(const v1::Tile& tree, const std::string& path, PhaseCode& code) const {
    const SpatialNest& nest = checked_.nests[code.nest];
    const auto number = static_cast<int>(code.nest);
    const std::string& variant = leafKernel(tree).variant();
    if (variant == words::kInitial) return sameTree(tree, initialTree(number), path);
    if (variant == words::kVector) {
      TESSERA_ASSIGN_OR_RETURN(code.plan, vectorPlanOf(tree, nest, number, path, target_));
      const auto cost = costOf(*code.plan, nest, target_);
      return cost.ok() ? absl::OkStatus() : unusable(path, cost.status());
    }
    if (variant != words::kCall) {
      return scheduleFault(path, "a leaf that no described chip has", "'" + variant + "'",
                           absl::StrCat(std::string(words::kCall), ", ", std::string(words::kVector), ", ",
                                        std::string(words::kInitial)));
    }
    absl::StatusOr<ProductNest> product = productOf(nest, checked_);
    if (!product.ok()) {
      return scheduleFault(path, "no instruction computes the nest", std::string(product.status().message()),
                           std::string(words::kVector));
    }
    std::optional<Epilogue> epilogue;
    const int follower = code.follower ? static_cast<int>(*code.follower) : -1;
    if (code.follower) {
      const FollowerLeaf leaf = followerLeaf(tree, path);
      absl::StatusOr<Epilogue> found =
          epilogueOn(checked_, number, follower, leaf.tile->kernel().instruction(), target_);
      if (!found.ok()) {
        return scheduleFault(leaf.path, absl::StrCat("nest ", follower, " cannot follow nest ", number),
                             std::string(found.status().message()), "a phase of its own");
      }
      epilogue = *std::move(found);
    }
    TESSERA_ASSIGN_OR_RETURN(code.program, programOf(tree, *product, number, path, epilogue, follower, target_));
    const auto instruction = instructionOf(code.program->choice.intrinsic, code.program->instruction);
    if (!instruction.ok()) return unusable(path, instruction.status());
    code.product = *std::move(product);
    return absl::OkStatus();
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

  /// The accesses of a phase, in the order of its program's tensors: without the results of a product that a nest
  /// follows.
  std::vector<const SpatialAccess*> accessesOf(const PhaseCode& code) const {
    const SpatialNest& nest = checked_.nests[code.nest];
    std::vector<const SpatialAccess*> found;
    if (!code.program) {
      for (const SpatialAccess& access : nest.accesses) found.push_back(&access);
      return found;
    }
    if (!code.follower) found.push_back(&nest.accesses.front());
    for (const int factor : code.product->factors) found.push_back(&nest.accesses[static_cast<size_t>(factor)]);
    if (!code.follower) return found;
    const SpatialNest& follower = checked_.nests[*code.follower];
    for (size_t a = 0; a < follower.accesses.size(); ++a)
      if (code.program->epilogue->tensors[a] >= 0) found.push_back(&follower.accesses[a]);
    return found;
  }

  absl::Status call(const PhaseCode& code, const std::vector<uint8_t*>& buffers) const {
    const SpatialNest& nest = checked_.nests[code.nest];
    TensorBytes tensors;
    // With a follower, the product's results have no tensor, and the follower's output is stored.
    if (code.follower) tensors.emplace_back();
    for (const SpatialAccess* access : accessesOf(code)) {
      const uint8_t* bytes = buffers[static_cast<size_t>(access->buffer)];
      tensors.emplace_back(bytes, bytes + checked_.bytesOf(access->buffer));
    }
    const auto done = execute(*code.program, tensors);
    if (!done.ok()) {
      const bool too_large = done.status().code() == absl::StatusCode::kResourceExhausted;
      return absl::Status(too_large ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                          absl::StrCat("nest ", code.nest, " (", nest.name, "): ", done.status().message()));
    }
    const size_t stored = code.follower ? 1 + code.product->factors.size() : 0;
    const SpatialAccess& output = checked_.nests[code.last()].accesses[0];
    std::ranges::copy(tensors[stored], buffers[static_cast<size_t>(output.buffer)]);
    return absl::OkStatus();
  }

  const CheckedKernel checked_;
  const size_t operands_;
  const v1::Target target_;
  std::vector<PhaseCode> phases_;
  std::vector<std::vector<uint8_t>> temporaries_;
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
