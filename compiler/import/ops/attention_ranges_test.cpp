// Attention with a range as batch, tokens, or past, compared with the same model at the exact size, for any contents of
// the padding.
#include "compiler/import/testing/ranged_case.h"
#include "gmock/gmock.h"

namespace tessera::compiler {
namespace {

using Case = RangedCase;

void importMicrosoft(ModelBuilder& b) {
  auto& opset = *b.model.add_opset_import();
  opset.set_domain("com.microsoft");
  opset.set_version(1);
}

/// The number of elements of `x` along `dim`, as a list of one.
void sizeOf(ModelBuilder& b, const std::string& x, int64_t dim, const std::string& result) {
  b.initializer(result + "_dim", {dim});
  b.node("Shape", {x}, {result + "_all"});
  b.node("Gather", {result + "_all", result + "_dim"}, {result});
}

/// Zeros and ones of `rows` x `columns`, both lists of one, whose end depends on the range.
void zerosOf(ModelBuilder& b, const std::vector<std::string>& sizes, const std::string& result) {
  setAttribute(b.node("Concat", sizes, {result + "_shape"}), "axis", int64_t{0});
  b.node("ConstantOfShape", {result + "_shape"}, {result});
}

Case multiHead(bool causal, bool biased, const std::vector<int64_t>& past) {
  return {"MultiHeadAttention",
          {{"q", {2, -1, 4}}, {"k", {2, -1, 4}}, {"v", {2, -1, 4}}, {"pk", past}, {"pv", past}},
          {"y", "present_k", "present_v"},
          [=](ModelBuilder& b) {
            importMicrosoft(b);
            if (biased) {
              b.initializer("one", {1});
              sizeOf(b, "q", 1, "tokens");
              sizeOf(b, "pk", 2, "past");
              b.node("Add", {"tokens", "past"}, {"total"});
              zerosOf(b, {"one", "one", "tokens", "total"}, "bias");
            }
            auto& node = b.node("MultiHeadAttention", {"q", "k", "v", "", "", biased ? "bias" : "", "pk", "pv"},
                                {"y", "present_k", "present_v"});
            node.set_domain("com.microsoft");
            setAttribute(node, "num_heads", int64_t{2});
            setAttribute(node, "unidirectional", int64_t{causal});
          }};
}

/// Tokens of a range, or one token, after a past of a range.
Case groupedQueries(int64_t tokens, int64_t rotary) {
  return {"GroupQueryAttention",
          {{"q", {1, tokens, 8}},
           {"k", {1, tokens, 4}},
           {"v", {1, tokens, 4}},
           {"pk", {1, 1, -1, 4}},
           {"pv", {1, 1, -1, 4}}},
          {"y", "present_k", "present_v"},
          [=](ModelBuilder& b) {
            importMicrosoft(b);
            sizeOf(b, "q", 1, "tokens");
            sizeOf(b, "pk", 2, "past");
            b.initializer("one", {1});
            b.node("Add", {"tokens", "past"}, {"total"});
            b.node("Sub", {"total", "one"}, {"lengths"});
            for (const std::string name : {"total", "lengths"})
              setAttribute(b.node("Cast", {name}, {name + "32"}), "to", int64_t{onnx::TensorProto::INT32});
            b.initializer("cos", {2 * kMost, 2}, weights(4 * kMost));
            b.initializer("sin", {2 * kMost, 2}, weights(4 * kMost));
            std::vector<std::string> inputs = {"q", "k", "v", "pk", "pv", "lengths32", "total32"};
            if (rotary) inputs.insert(inputs.end(), {"cos", "sin"});
            auto& node = b.node("GroupQueryAttention", inputs, {"y", "present_k", "present_v"});
            node.set_domain("com.microsoft");
            setAttribute(node, "num_heads", int64_t{2});
            setAttribute(node, "kv_num_heads", int64_t{1});
            setAttribute(node, "do_rotary", rotary);
          }};
}

Case packed(bool masked) {
  return {"Attention of Microsoft",
          {{"x", {-1, 3, 4}}, {"past", {2, -1, 2, -1, 2}}},
          {"y", "present"},
          [=](ModelBuilder& b) {
            importMicrosoft(b);
            b.initializer("w", {4, 12}, weights(48));
            b.initializer("b", {12}, weights(12));
            if (masked) {
              sizeOf(b, "x", 0, "batch");
              sizeOf(b, "past", 3, "before");
              b.initializer("three", {3});
              b.node("Add", {"before", "three"}, {"total"});
              zerosOf(b, {"batch", "total"}, "zeros");
              b.initializer("mark", {}, {1.0F});
              b.node("Add", {"zeros", "mark"}, {"ones"});
              setAttribute(b.node("Cast", {"ones"}, {"mask"}), "to", int64_t{onnx::TensorProto::INT32});
            }
            auto& node = b.node("Attention", {"x", "w", "b", masked ? "mask" : "", "past"}, {"y", "present"});
            node.set_domain("com.microsoft");
            setAttribute(node, "num_heads", int64_t{2});
            setAttribute(node, "unidirectional", int64_t{1});
          }};
}

Case standard(bool causal, int64_t rank) {
  const std::vector<int64_t> rows = rank == 3 ? std::vector<int64_t>{-1, -1, 4} : std::vector<int64_t>{-1, 2, -1, 2};
  return {"Attention",
          {{"q", rows}, {"k", rows}, {"v", rows}, {"pk", {-1, 2, -1, 2}}, {"pv", {-1, 2, -1, 2}}},
          {"y", "present_k", "present_v", "scores"},
          [=](ModelBuilder& b) {
            auto& node =
                b.node("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y", "present_k", "present_v", "scores"});
            setAttribute(node, "is_causal", int64_t{causal});
            setAttribute(node, "qk_matmul_output_mode", int64_t{3});
            if (rank != 3) return;
            setAttribute(node, "q_num_heads", int64_t{2});
            setAttribute(node, "kv_num_heads", int64_t{2});
          },
          23};
}

TEST(AttentionRanges, GiveWhatTheyGiveAtTheVerySize) {
  std::vector<Case> all;
  for (const bool causal : {false, true}) {
    for (const int64_t rank : {3, 4}) all.push_back(standard(causal, rank));
    for (const bool biased : {false, true}) all.push_back(multiHead(causal, biased, {2, 2, -1, 2}));
    all.push_back(multiHead(causal, false, {2, 2, 3, 2}));
    all.push_back(packed(causal));
  }
  for (const int64_t tokens : {-1, 1, 2})
    for (const int64_t rotary : {0, 1}) all.push_back(groupedQueries(tokens, rotary));
  // Keys of an encoder, a range.
  all.push_back(
      {"cross attention", {{"q", {2, 3, 4}}, {"k", {2, 2, -1, 2}}, {"v", {2, 2, -1, 2}}}, {"y"}, [](ModelBuilder& b) {
         importMicrosoft(b);
         auto& node = b.node("MultiHeadAttention", {"q", "k", "v"}, {"y"});
         node.set_domain("com.microsoft");
         setAttribute(node, "num_heads", int64_t{2});
       }});
  all.push_back({"RotaryEmbedding", {{"x", {-1, -1, 4}}, {"at", {-1, -1}, true}}, {"y"}, [](ModelBuilder& b) {
                   importMicrosoft(b);
                   b.initializer("cos", {4, 2}, weights(8));
                   b.initializer("sin", {4, 2}, weights(8));
                   b.node("RotaryEmbedding", {"x", "at", "cos", "sin"}, {"y"}).set_domain("com.microsoft");
                 }});
  for (const Case& test : all) expectEqualToExactSize(test);
}

TEST(AttentionRanges, RefuseWhatMayDiffer) {
  const auto attention = [](ModelBuilder& b) {
    importMicrosoft(b);
    auto& node = b.node("MultiHeadAttention", {"q", "k", "v"}, {"y"});
    node.set_domain("com.microsoft");
    setAttribute(node, "num_heads", int64_t{2});
  };
  expectRefused({"keys and values", {{"q", {2, 3, 4}}, {"k", {2, -1, 4}}, {"v", {2, kMost, 4}}}, {"y"}, attention});
  expectRefused({"batches", {{"q", {-1, 3, 4}}, {"k", {kMost, 3, 4}}, {"v", {kMost, 3, 4}}}, {"y"}, attention});
  expectRefused({"elements of a head", {{"q", {2, 3, -1}}, {"k", {2, 3, -1}}, {"v", {2, 3, 4}}}, {"y"}, attention});
}

}  // namespace
}  // namespace tessera::compiler
