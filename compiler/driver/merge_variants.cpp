#include "compiler/driver/merge_variants.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/runtime/module_abi.h"
#include "proto/messages/deterministic_bytes.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

bool sameShapes(const v1::Plan& a, const v1::Plan& b) {
  for (int i = 0; i < a.inputs_size(); ++i) {
    if (!std::equal(a.inputs(i).shape().begin(), a.inputs(i).shape().end(), b.inputs(i).shape().begin(),
                    b.inputs(i).shape().end())) {
      return false;
    }
  }
  return true;
}

using Specs = google::protobuf::RepeatedPtrField<v1::TensorSpec>;

bool sameTensors(const Specs& a, const Specs& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const v1::TensorSpec& x, const v1::TensorSpec& y) {
    return x.name() == y.name() && x.dtype() == y.dtype();
  });
}

using Values = google::protobuf::RepeatedPtrField<v1::TensorValue>;

bool sameValues(const Values& a, const Values& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const v1::TensorValue& x, const v1::TensorValue& y) {
    return x.spec().name() == y.spec().name() && x.data() == y.data();
  });
}

std::string valuesText(const v1::Plan& plan) {
  if (plan.fixed_inputs().empty()) return "any";
  return absl::StrJoin(plan.fixed_inputs(), ", ", [](std::string* out, const v1::TensorValue& value) {
    absl::StrAppend(out, "one value of '", value.spec().name(), "'");
  });
}

absl::Status invalid(const std::string& message, const std::string& found, const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(message);
  failure.set_attribute("specializations");
  failure.set_found(found);
  failure.set_accepted(accepted);
  return failureStatus(failure);
}

}  // namespace

int64_t WeightSection::place(Weight weight) {
  const size_t hash = std::hash<std::string_view>()(weight.bytes);
  // Equal hashes are only a hint; the bytes decide.
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto known = begin; known != end; ++known) {
    if (weights_[known->second].weight.bytes == weight.bytes) return weights_[known->second].offset;
  }
  const int64_t offset = bytes_;
  bytes_ += (static_cast<int64_t>(weight.bytes.size()) + TESSERA_BUFFER_ALIGNMENT - 1) / TESSERA_BUFFER_ALIGNMENT *
            TESSERA_BUFFER_ALIGNMENT;
  by_hash_.emplace(hash, weights_.size());
  weights_.push_back({offset, std::move(weight)});
  return offset;
}

absl::Status VariantMerger::check(const v1::Plan& plan, const std::string& bindings) const {
  // All variants must look alike to a caller: only shapes may differ.
  if (!sameTensors(plan_.inputs(), plan.inputs()) || !sameTensors(plan_.outputs(), plan.outputs())) {
    return invalid(absl::StrCat("the inputs or outputs of the variant for ", bindings,
                                " differ from those of the variant for ", bindings_.front()),
                   "another number, name or element type", "the same in each variant");
  }
  // Happens, for instance, if a branch of one variant only fits its sizes.
  if (!sameValues(plan_.fixed_inputs(), plan.fixed_inputs()) ||
      !sameValues(plan_.default_inputs(), plan.default_inputs())) {
    return invalid(absl::StrCat("the variant for ", bindings, " needs other input values than the variant for ",
                                bindings_.front()),
                   absl::StrCat(valuesText(plan), " and ", valuesText(plan_)),
                   "the same in each variant: compile variants that differ separately");
  }
  // Input shapes select the variant in a run, so two variants must not share them.
  for (size_t i = 0; i < bindings_.size(); ++i) {
    if (sameShapes(i == 0 ? plan_ : plan_.variants(static_cast<int>(i) - 1), plan)) {
      return invalid("two variants have the same input shapes", absl::StrCat(bindings_[i], " and ", bindings),
                     "different shapes, because they select the variant that runs");
    }
  }
  return absl::OkStatus();
}

absl::Status VariantMerger::adopt(v1::Plan& plan, std::vector<PlannedGraph::PlacedWeight> weights) {
  // Weights move to the shared section, so buffers that point to them move, too.
  std::vector<int64_t> begins, moved;  // of each weight: offset in the plan, offset in the section
  for (PlannedGraph::PlacedWeight& placed : weights) {
    begins.push_back(placed.offset);
    moved.push_back(section_.place(std::move(placed.weight)));
  }
  for (v1::Buffer& buffer : *plan.mutable_buffers()) {
    if (buffer.kind() != v1::Buffer::WEIGHT) continue;
    // A buffer may begin inside a weight.
    const auto next = std::upper_bound(begins.begin(), begins.end(), buffer.offset());
    if (next == begins.begin()) return failureStatus(v1::Failure::INTERNAL, "a buffer lies before all weights");
    const auto index = static_cast<size_t>(next - begins.begin()) - 1;
    buffer.set_offset(moved[index] + buffer.offset() - begins[index]);
  }
  std::vector<int> position;  // position in the merged list, by workload
  for (v1::Workload& workload : *plan.mutable_workloads()) {
    // Equal workloads of different variants become one.
    auto [known, fresh] = workload_of_.try_emplace(workload.hash(), plan_.workloads_size());
    position.push_back(known->second);
    if (fresh) *plan_.add_workloads() = std::move(workload);
  }
  plan.clear_workloads();
  for (v1::Step& step : *plan.mutable_steps()) step.set_workload(position[static_cast<size_t>(step.workload())]);
  plan.clear_weights_bytes();
  return absl::OkStatus();
}

absl::StatusOr<int> VariantMerger::addPrepared(PlannedGraph::PreparedWeight prepared) {
  v1::Plan& plan = prepared.plan;
  TESSERA_RETURN_IF_ERROR(adopt(plan, std::move(prepared.weights)));
  v1::Plan& all = *plan_.mutable_preparation();
  // Equal preparations, by their bytes after the move, become one as well.
  const auto [known, fresh] = prepared_of_.try_emplace(deterministicBytes(plan), all.outputs_size());
  if (!fresh) return known->second;
  const int first = all.buffers_size();
  for (v1::Buffer& buffer : *plan.mutable_buffers()) {
    if (buffer.kind() == v1::Buffer::OUTPUT) buffer.set_index(all.outputs_size());
    *all.add_buffers() = std::move(buffer);
  }
  // Operands number buffers, which now follow those of earlier preparations.
  for (v1::Step& step : *plan.mutable_steps()) {
    for (int32_t& operand : *step.mutable_operands()) operand += first;
    *all.add_steps() = std::move(step);
  }
  *all.add_outputs() = std::move(*plan.mutable_outputs(0));
  // Preparations run one after the other and share an arena.
  all.set_arena_bytes(std::max(all.arena_bytes(), plan.arena_bytes()));
  return known->second;
}

absl::Status VariantMerger::add(PlannedGraph planned, const std::string& bindings) {
  v1::Plan& plan = planned.plan;
  if (!bindings_.empty()) {
    TESSERA_RETURN_IF_ERROR(check(plan, bindings));
  }
  TESSERA_RETURN_IF_ERROR(adopt(plan, std::move(planned.weights)));
  std::vector<int> position;  // position in the merged plan, by prepared weight
  for (PlannedGraph::PreparedWeight& prepared : planned.prepared) {
    TESSERA_ASSIGN_OR_RETURN(int at, addPrepared(std::move(prepared)));
    position.push_back(at);
  }
  for (v1::Buffer& buffer : *plan.mutable_buffers())
    if (buffer.kind() == v1::Buffer::PREPARED) buffer.set_index(position[static_cast<size_t>(buffer.index())]);

  // The first variant is the plan itself; later ones are its variants.
  if (bindings_.empty()) {
    plan.mutable_workloads()->Swap(plan_.mutable_workloads());
    if (plan_.has_preparation()) plan.mutable_preparation()->Swap(plan_.mutable_preparation());
    plan_.Swap(&plan);
  } else {
    plan.clear_target();
    *plan_.add_variants() = std::move(plan);
  }
  plan_.set_weights_bytes(section_.bytes());
  bindings_.push_back(bindings);
  return absl::OkStatus();
}

}  // namespace tessera::compiler
