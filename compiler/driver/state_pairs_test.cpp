#include "compiler/driver/state_pairs.h"

#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "google/protobuf/text_format.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

/// A tensor of f32; a negative extent is a range.
v1::TensorSpec tensor(const std::string& name, const std::vector<int64_t>& shape,
                      v1::DataType dtype = v1::DATA_TYPE_F32) {
  v1::TensorSpec spec;
  spec.set_name(name);
  spec.set_dtype(dtype);
  for (const int64_t extent : shape) {
    if (extent < 0) spec.add_bounded_dims(spec.shape_size());
    spec.add_shape(std::abs(extent));
  }
  return spec;
}

std::string found(const std::string& options, const std::vector<v1::TensorSpec>& inputs,
                  const std::vector<v1::TensorSpec>& outputs) {
  v1::StateOptions parsed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(options, &parsed));
  const auto states = statesOf(parsed, inputs, outputs);
  if (!states.ok()) return failureOf(states.status()).message();
  return absl::StrJoin(*states, " ", [](std::string* out, const v1::State& state) {
    absl::StrAppend(out, state.input(), "=", state.output());
    if (state.has_growing_dim()) absl::StrAppend(out, ":", state.growing_dim());
  });
}

constexpr char kPair[] = "pairs { input: 'a' output: 'b' }";

TEST(StatePairs, AreCheckedAgainstTheModel) {
  EXPECT_EQ(found("", {tensor("h0", {1})}, {tensor("hn", {1})}), "");
  EXPECT_EQ(found(kPair, {tensor("a", {1, 7})}, {tensor("b", {1, 7})}), "a=b");
  EXPECT_EQ(found(kPair, {tensor("a", {1, -7, 2})}, {tensor("b", {1, -9, 2})}), "a=b:1");
  EXPECT_EQ(found(kPair, {tensor("a", {-3, -7})}, {tensor("b", {-3, -8})}), "a=b:1");
  EXPECT_EQ(found(kPair, {tensor("x", {1})}, {tensor("b", {1})}), "state a=b: the model has no input 'a'");
  EXPECT_EQ(found(kPair, {tensor("a", {1})}, {tensor("x", {1})}), "state a=b: the model has no output 'b'");
  EXPECT_EQ(found(std::string(kPair) + kPair, {tensor("a", {1})}, {tensor("b", {1})}),
            "state a=b: one of the two is in another state");
  const std::string misfit = "input 'a' and output 'b' cannot be one state: ";
  EXPECT_EQ(found(kPair, {tensor("a", {1})}, {tensor("b", {1}, v1::DATA_TYPE_F16)}),
            misfit + "their element types differ");
  EXPECT_EQ(found(kPair, {tensor("a", {1})}, {tensor("b", {1, 1})}), misfit + "their numbers of dimensions differ");
  EXPECT_EQ(found(kPair, {tensor("a", {2, 3})}, {tensor("b", {2, 4})}),
            misfit + "they differ along dimension 1, which is not a range: a state grows along a range only");
  EXPECT_EQ(found(kPair, {tensor("a", {-2, -3})}, {tensor("b", {-3, -4})}), misfit + "dimensions 0 and 1 both grow");
  EXPECT_EQ(found(kPair, {tensor("a", {4})}, {tensor("b", {-4})}),
            misfit + "only one of them has an extent that a run decides along dimension 0");
  EXPECT_EQ(found(kPair, {tensor("a", {-5})}, {tensor("b", {-4})}), misfit + "they differ along dimension 0");
}

TEST(StatePairs, AreFoundByTheNamesOfExporters) {
  const auto pairOf = [](const std::string& input, const std::string& output) {
    return found("automatic: true", {tensor("x", {1, 3}), tensor(input, {1, 7})},
                 {tensor("y", {1, 3}), tensor(output, {1, 7})});
  };
  for (const auto& [input, output] :
       std::vector<std::pair<std::string, std::string>>{{"past_key_values.0.key", "present.0.key"},
                                                        {"past_key_values.3.decoder.value", "present.3.decoder.value"},
                                                        {"past_key_self_0", "present_key_self_0"},
                                                        {"past_0", "present_0"},
                                                        {"past", "present"},
                                                        {"cached_len_1", "new_cached_len_1"},
                                                        {"cache_last_channel", "cache_last_channel_next"},
                                                        {"prev_h", "next_h"},
                                                        {"h0", "hn"},
                                                        {"c", "cn"},
                                                        {"state", "stateN"},
                                                        {"state_in", "state_out"},
                                                        {"in_hidden", "out_hidden"},
                                                        {"input_states", "output_states"}})
    EXPECT_EQ(pairOf(input, output), input + "=" + output);
  // Names that fit tensors that are no state as well.
  for (const auto& [input, output] :
       std::vector<std::pair<std::string, std::string>>{{"audio_in", "audio_out"}, {"input_ids", "output_ids"}})
    EXPECT_EQ(pairOf(input, output), "no input and output have names that exporters give to state");
  EXPECT_EQ(pairOf("h0", "h1"), "no input and output have names that exporters give to state");
}

TEST(StatePairs, FoundByNameLeaveOutWhatCannotBeOne) {
  const std::vector<v1::TensorSpec> inputs = {tensor("h", {4}), tensor("c", {5})};
  EXPECT_EQ(found("automatic: true", inputs, {tensor("hn", {4}), tensor("cn", {6})}), "h=hn");
  EXPECT_EQ(
      found("automatic: true", inputs, {tensor("hn", {3})}),
      "input 'h' and output 'hn' cannot be one state: they differ along dimension 0, which is not a range: a state "
      "grows along a range only");
  EXPECT_EQ(found("automatic: true pairs { input: 'c' output: 'hn' }", {tensor("h", {4}), tensor("c", {4})},
                  {tensor("hn", {4}), tensor("cn", {4})}),
            "no input and output have names that exporters give to state");
}

}  // namespace
}  // namespace tessera::compiler
