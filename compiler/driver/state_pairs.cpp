#include "compiler/driver/state_pairs.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/messages/failure.h"
#include "proto/messages/tensor_text.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using Specs = std::vector<v1::TensorSpec>;

/// A naming pattern of exporters: input BEFORE * AFTER belongs to output NEW_BEFORE * NEW_AFTER.
struct NamePattern {
  std::string_view before, after, new_before, new_after;
  bool generic = false;  // also fits tensors that are no state: * must contain a word for one
};
constexpr NamePattern kPatterns[] = {
    {"past_key_values", "", "present", ""},  // optimum: past_key_values.0.key, present.0.key
    {"past", "", "present", ""},             // ONNX Runtime: past_key_self_0, present_key_self_0; past_0, present_0
    {"", "", "new_", ""},                    // icefall: cached_key_0, new_cached_key_0
    {"", "", "", "_next"},                   // NeMo: cache_last_channel, cache_last_channel_next
    {"", "", "next_", ""},
    {"prev_", "", "next_", ""},
    {"initial_", "", "final_", ""},
    {"", "0", "", "n"},  // torch.nn.LSTM: h0, hn
    {"", "", "", "n"},   // silero VAD: h, hn
    {"", "", "", "N"},   // silero VAD 5: state, stateN
    {"", "_in", "", "_out", true},
    {"in_", "", "out_", "", true},
    {"input_", "", "output_", "", true},
    {"", "_input", "", "_output", true},
};

bool namesState(std::string_view stem) {
  for (const std::string_view word : {"state", "hidden", "cell", "cache", "memory"})
    if (stem.find(word) != std::string_view::npos) return true;
  return stem == "h" || stem == "c";
}

std::optional<std::string> outputNamed(const NamePattern& pattern, std::string_view input) {
  if (input.size() < pattern.before.size() + pattern.after.size() || !input.starts_with(pattern.before) ||
      !input.ends_with(pattern.after))
    return std::nullopt;
  input.remove_prefix(pattern.before.size());
  input.remove_suffix(pattern.after.size());
  if (pattern.generic && !namesState(input)) return std::nullopt;
  return std::string(pattern.new_before).append(input).append(pattern.new_after);
}

const v1::TensorSpec* find(const Specs& specs, const std::string& name) {
  const auto found = std::ranges::find_if(specs, [&](const v1::TensorSpec& spec) { return spec.name() == name; });
  return found == specs.end() ? nullptr : &*found;
}

std::string namesText(const Specs& specs) {
  constexpr size_t kListed = 12;
  std::vector<std::string> names;
  for (const v1::TensorSpec& spec : specs)
    if (names.size() < kListed) names.push_back(spec.name());
  const size_t rest = specs.size() - names.size();
  return absl::StrCat(absl::StrJoin(names, ", "), rest > 0 ? absl::StrCat(" and ", rest, " more") : "");
}

absl::Status invalid(const std::string& message, const std::string& attribute, const std::string& found,
                     const std::string& accepted, const std::string& fix) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(message);
  failure.set_attribute(attribute);
  failure.set_found(found);
  failure.set_accepted(accepted);
  failure.set_fix(fix);
  return failureStatus(failure);
}

bool isBounded(const v1::TensorSpec& spec, int dimension) {
  return std::ranges::count(spec.bounded_dims(), dimension) > 0;
}

/// Returns why the two tensors are no state, empty if they are; sets the state's growing dimension.
std::string whyNot(const v1::TensorSpec& input, const v1::TensorSpec& output, v1::State& state) {
  if (input.dtype() != output.dtype()) return "their element types differ";
  if (input.shape_size() != output.shape_size()) return "their numbers of dimensions differ";
  for (int d = 0; d < input.shape_size(); ++d) {
    const bool bounded = isBounded(input, d);
    if (bounded && isBounded(output, d) && output.shape(d) > input.shape(d)) {
      if (state.has_growing_dim()) return absl::StrCat("dimensions ", state.growing_dim(), " and ", d, " both grow");
      state.set_growing_dim(d);
      continue;
    }
    if (input.shape(d) != output.shape(d)) {
      return absl::StrCat("they differ along dimension ", d,
                          bounded ? "" : ", which is not a range: a state grows along a range only");
    }
    if (bounded != isBounded(output, d))
      return absl::StrCat("only one of them has an extent that a run decides along dimension ", d);
  }
  return "";
}

absl::StatusOr<v1::State> pairOf(const v1::TensorSpec& input, const v1::TensorSpec& output) {
  v1::State state;
  state.set_input(input.name());
  state.set_output(output.name());
  const std::string problem = whyNot(input, output, state);
  if (problem.empty()) return state;
  return invalid(
      absl::StrCat("input '", input.name(), "' and output '", output.name(), "' cannot be one state: ", problem),
      input.name(), absl::StrCat(tensorText(input), " and ", tensorText(output)),
      "one element type and shape, or more rows in the output along a dimension that is a range",
      "for a cache, bind its length as a range that includes 0: --dim past_sequence_length=..2047");
}

}  // namespace

absl::StatusOr<std::vector<v1::State>> statesOf(const v1::StateOptions& options, const Specs& inputs,
                                                const Specs& outputs) {
  std::vector<v1::State> states;
  std::set<std::string> used_inputs, used_outputs;
  for (const v1::StatePair& pair : options.pairs()) {
    const v1::TensorSpec *input = find(inputs, pair.input()), *output = find(outputs, pair.output());
    if (input == nullptr || output == nullptr) {
      const bool is_input = input == nullptr;
      const std::string kind = is_input ? "input" : "output", name = is_input ? pair.input() : pair.output();
      return invalid(
          absl::StrCat("state ", pair.input(), "=", pair.output(), ": the model has no ", kind, " '", name, "'"), name,
          name, absl::StrCat("an ", kind, ": ", namesText(is_input ? inputs : outputs)),
          "write the names of the model's input and output: --state INPUT=OUTPUT");
    }
    if (!used_inputs.insert(input->name()).second || !used_outputs.insert(output->name()).second) {
      return invalid(absl::StrCat("state ", pair.input(), "=", pair.output(), ": one of the two is in another state"),
                     pair.input(), "a tensor in two states", "each input and output once", "leave one --state out");
    }
    TESSERA_ASSIGN_OR_RETURN(v1::State state, pairOf(*input, *output));
    states.push_back(std::move(state));
  }
  if (!options.automatic()) return states;
  const size_t stated = states.size();
  absl::Status closest;  // why a pair with fitting names is none
  for (const v1::TensorSpec& input : inputs) {
    if (used_inputs.contains(input.name())) continue;
    for (const NamePattern& pattern : kPatterns) {
      const std::optional<std::string> name = outputNamed(pattern, input.name());
      const v1::TensorSpec* output = name ? find(outputs, *name) : nullptr;
      if (output == nullptr || used_outputs.contains(*name)) continue;
      absl::StatusOr<v1::State> state = pairOf(input, *output);
      if (!state.ok()) {
        if (closest.ok()) closest = state.status();
        continue;
      }
      used_inputs.insert(input.name());
      used_outputs.insert(*name);
      states.push_back(*std::move(state));
      break;
    }
  }
  if (states.size() > stated) return states;
  if (!closest.ok()) return closest;
  return invalid("no input and output have names that exporters give to state", "state",
                 absl::StrCat("inputs ", namesText(inputs), "; outputs ", namesText(outputs)),
                 "pairs such as past_key_values.0.key and present.0.key, h0 and hn, state_in and state_out",
                 "state the pairs: --state INPUT=OUTPUT");
}

}  // namespace tessera::compiler
