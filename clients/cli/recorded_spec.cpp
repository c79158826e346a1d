#include "clients/cli/recorded_spec.h"

#include <algorithm>

namespace tessera::client {
namespace {

/// Binds the sizes of one variant in a CompileSpec or a Specialization.
template <typename Message>
void bindSizes(const v1::Plan& variant, Message& message) {
  bool ranged = false;
  for (const v1::DimensionBinding& dimension : variant.dimensions()) {
    *message.add_dimensions() = dimension;
    ranged |= dimension.size() < 0;
  }
  // With ranges the shapes are upper bounds, and the last inputs hold the run's sizes.
  if (ranged) return;
  for (const v1::TensorSpec& input : variant.inputs()) {
    v1::InputShape& shape = *message.add_input_shapes();
    shape.set_name(input.name());
    *shape.mutable_shape() = input.shape();
  }
}

bool has(const v1::GraphReport& report, const char* kind) {
  return std::ranges::any_of(report.decisions(), [&](const v1::Decision& each) { return each.kind() == kind; });
}

}  // namespace

v1::CompileSpec recordedSpec(const v1::Manifest& manifest, const v1::Plan& plan) {
  v1::CompileSpec spec;
  spec.set_name(manifest.name());
  *spec.mutable_target()->mutable_inline_() = plan.target();
  if (plan.variants().empty()) {
    bindSizes(plan, spec);
  } else {
    bindSizes(plan, *spec.add_specializations());
    for (const v1::Plan& variant : plan.variants()) bindSizes(variant, *spec.add_specializations());
  }
  *spec.mutable_fixed_inputs() = plan.fixed_inputs();
  for (const v1::State& state : plan.states()) {
    v1::StatePair& pair = *spec.mutable_state()->add_pairs();
    pair.set_input(state.input());
    pair.set_output(state.output());
  }
  if (has(plan.report(), "precision")) spec.mutable_options()->set_precision(v1::CompileOptions::BF16);
  // Only a compilation without optimization leaves every kernel as plain loops.
  const bool plain = manifest.kernels() > 0 && manifest.scalar_kernels_size() == manifest.kernels();
  if (plain) spec.mutable_options()->set_opt_level(1);
  spec.set_pin_use(v1::WHOLE_PLAN);
  return spec;
}

}  // namespace tessera::client
