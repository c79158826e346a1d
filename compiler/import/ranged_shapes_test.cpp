// Padding and shapes that depend on ranges, compared with the same model at the exact size.
#include "compiler/import/testing/ranged_case.h"
#include "gmock/gmock.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler {
namespace {

using Case = RangedCase;

/// Padding that depends on the size, and windows that extend over its end.
void addWindows(std::vector<Case>& all) {
  for (const int64_t kernel : {1, 2, 3, 4}) {
    for (const int64_t stride : {2, 3}) {
      for (const std::string same : {"SAME_UPPER", "SAME_LOWER"}) {
        const std::string name = same + " " + std::to_string(kernel) + " by " + std::to_string(stride);
        all.push_back({"Conv " + name, {{"x", {1, 2, -1, 3}}}, {"y"}, [=](ModelBuilder& b) {
                         b.initializer("w", {2, 2, kernel, 1}, weights(4 * kernel));
                         auto& node = b.node("Conv", {"x", "w"}, {"y"});
                         setAttribute(node, "strides", std::vector<int64_t>{stride, 1});
                         setAttribute(node, "auto_pad", same);
                       }});
        all.push_back({"MaxPool " + name, {{"x", {1, 2, -1, -1}}}, {"y"}, [=](ModelBuilder& b) {
                         auto& node = b.node("MaxPool", {"x"}, {"y"});
                         setAttribute(node, "kernel_shape", std::vector<int64_t>{kernel, kernel});
                         setAttribute(node, "strides", std::vector<int64_t>{stride, 1});
                         setAttribute(node, "auto_pad", same);
                       }});
      }
      for (const int64_t pad : {int64_t{0}, (kernel - 1) / 2}) {
        const std::string name = std::to_string(kernel) + " by " + std::to_string(stride);
        all.push_back({"MaxPool rounded up " + name + ", pads " + std::to_string(pad),
                       {{"x", {1, 2, 8, -1}}},  // one of 8: no window is larger than the padded image
                       {"y"},
                       [=](ModelBuilder& b) {
                         b.initializer("pads", {0, 0, 0, 3, 0, 0, 0, 0});
                         b.node("Pad", {"x", "pads"}, {"wide"});
                         auto& node = b.node("MaxPool", {"wide"}, {"y"});
                         setAttribute(node, "kernel_shape", std::vector<int64_t>{2, kernel});
                         setAttribute(node, "strides", std::vector<int64_t>{2, stride});
                         setAttribute(node, "pads", std::vector<int64_t>{0, pad, 0, pad});
                         setAttribute(node, "ceil_mode", int64_t{1});
                       }});
      }
    }
  }
}

/// Means over windows that extend over the end, by the number of used elements.
void addMeans(std::vector<Case>& all) {
  for (const int64_t kernel : {2, 3, 4}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t counted : {0, 1}) {
        for (const std::string how : {"SAME_UPPER", "SAME_LOWER", "rounded up", "padded"}) {
          const std::string name =
              "AveragePool " + how + " " + std::to_string(kernel) + " by " + std::to_string(stride);
          all.push_back({name + (counted ? ", padding counts" : ""),
                         {{"x", {1, 2, 8, -1}}},
                         {"y"},
                         [=](ModelBuilder& b) {
                           b.initializer("pads", {0, 0, 0, 3, 0, 0, 0, 0});
                           b.node("Pad", {"x", "pads"}, {"wide"});  // no window is larger than the image
                           auto& node = b.node("AveragePool", {"wide"}, {"y"});
                           setAttribute(node, "kernel_shape", std::vector<int64_t>{2, kernel});
                           setAttribute(node, "strides", std::vector<int64_t>{2, stride});
                           setAttribute(node, "count_include_pad", counted);
                           if (how[0] == 'S') return setAttribute(node, "auto_pad", how);
                           setAttribute(node, "pads", std::vector<int64_t>{1, kernel - 1, 0, kernel / 2});
                           if (how[0] == 'r') setAttribute(node, "ceil_mode", int64_t{1});
                         },
                         19});
        }
      }
    }
  }
}

/// Shapes that depend on ranges other than one by one, and operators along them.
void addShapes(std::vector<Case>& all) {
  all.push_back({"one for each, and each twice", {{"x", {-1, 3}}}, {"y", "z", "r"}, [](ModelBuilder& b) {
                   b.initializer("zero", {0});
                   b.initializer("one", {1});
                   b.initializer("two", {2});
                   b.initializer("three", {3});
                   b.initializer("w", {1, 2}, weights(2));
                   b.node("Shape", {"x"}, {"shape"});
                   b.node("Slice", {"shape", "zero", "one"}, {"n"});
                   setAttribute(b.node("Concat", {"n", "three"}, {"times"}), "axis", int64_t{0});
                   b.node("Tile", {"w", "times"}, {"y"});
                   setAttribute(b.node("Concat", {"two", "one"}, {"twice"}), "axis", int64_t{0});
                   b.node("Tile", {"x", "twice"}, {"z"});
                   b.node("Tile", {"x", "times"}, {"r"});  // each of n elements n times
                 }});
  all.push_back({"by the last one", {{"x", {2, -1, 3}}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("last", {-1});
                   b.initializer("end", {INT64_MAX});
                   b.initializer("one", {1});
                   b.node("Slice", {"x", "last", "end", "one"}, {"l"});
                   b.node("Mul", {"x", "l"}, {"y"});
                 }});
  all.push_back(
      {"the last ones, and those behind, as many as there are", {{"x", {-1, 3}}}, {"y", "z"}, [](ModelBuilder& b) {
         b.initializer("table", {9, 3}, weights(27));
         b.initializer("none", {0});
         b.initializer("one", {1});
         b.initializer("end", {INT64_MAX});
         b.node("Shape", {"x"}, {"shape"});
         b.node("Slice", {"shape", "none", "one"}, {"n"});
         b.node("Neg", {"n"}, {"back"});
         b.node("Slice", {"table", "back", "end", "none"}, {"last"});
         b.node("Add", {"last", "x"}, {"y"});
         setAttribute(b.node("Concat", {"x", "x"}, {"twice"}), "axis", int64_t{0});
         b.node("Slice", {"twice", "n", "end", "none"}, {"behind"});
         b.node("Mul", {"behind", "x"}, {"z"});
       }});
  all.push_back({"numbers from a count on, and from a number on", {{"x", {-1, 3}}}, {"y", "z"}, [](ModelBuilder& b) {
                   setAttribute(b.node("Shape", {"x"}, {"shape"}), "end", int64_t{1});
                   b.initializer("none", std::vector<int64_t>{0});
                   b.initializer("two", std::vector<int64_t>{2});
                   b.node("Squeeze", {"shape"}, {"n"});
                   b.node("Squeeze", {"two"}, {"from"});
                   b.initializer("one", std::vector<int64_t>{1});
                   b.node("Squeeze", {"one"}, {"step"});
                   b.node("Add", {"n", "n"}, {"twice"});
                   b.node("Range", {"n", "twice", "step"}, {"later"});
                   b.node("Add", {"n", "from"}, {"end"});
                   b.node("Range", {"from", "end", "step"}, {"places"});
                   b.initializer("table", {10, 3}, weights(30));
                   b.node("Gather", {"table", "later"}, {"l"});
                   b.node("Add", {"l", "x"}, {"y"});
                   b.node("Gather", {"table", "places"}, {"p"});
                   b.node("Mul", {"p", "x"}, {"z"});
                 }});
  const auto sizesOf = [](ModelBuilder& b, const std::string& of, const std::string& name) {
    b.initializer("two", {2});
    b.initializer("four", {4});
    b.node("Shape", {of}, {of + "_shape"});
    b.node("Slice", {of + "_shape", "two", "four"}, {name});
  };
  all.push_back({"two ranges in one and back", {{"x", {2, 3, -1, -1}}}, {"y", "z", "s"}, [](ModelBuilder& b) {
                   b.initializer("flat", {0, 3, -1});
                   b.node("Reshape", {"x", "flat"}, {"f"});
                   setAttribute(b.node("Transpose", {"f"}, {"y"}), "perm", std::vector<int64_t>{0, 2, 1});
                   b.node("Shape", {"x"}, {"shape"});
                   b.node("Exp", {"f"}, {"e"});
                   b.node("Reshape", {"e", "shape"}, {"z"});
                   setAttribute(b.node("ReduceSum", {"f"}, {"s"}), "keepdims", int64_t{0});
                 }});
  all.push_back({"padded to one window, whatever the size", {{"x", {-1, 2}}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("none", {0});
                   b.initializer("one", {1});
                   b.initializer("window", {kMost});
                   b.initializer("windows", {1, kMost, 2});
                   b.node("Shape", {"x"}, {"shape"});
                   b.node("Slice", {"shape", "none", "one"}, {"n"});
                   b.node("Mod", {"n", "window"}, {"over"});
                   b.node("Sub", {"window", "over"}, {"under"});
                   b.node("Mod", {"under", "window"}, {"behind"});
                   setAttribute(b.node("Concat", {"none", "none", "behind", "none"}, {"pads"}), "axis", int64_t{0});
                   b.node("Pad", {"x", "pads"}, {"padded"});
                   b.node("Reshape", {"padded", "windows"}, {"y"});
                 }});
  all.push_back({"Flatten of two ranges", {{"x", {-1, 3, -1}}}, {"y", "z"}, [](ModelBuilder& b) {
                   setAttribute(b.node("Flatten", {"x"}, {"y"}), "axis", int64_t{1});
                   setAttribute(b.node("Flatten", {"x"}, {"z"}), "axis", int64_t{3});
                 }});
  all.push_back({"pixels of all images", {{"x", {-1, 2, -1}}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("flat", {-1, 2});
                   setAttribute(b.node("Transpose", {"x"}, {"t"}), "perm", std::vector<int64_t>{0, 2, 1});
                   b.node("Reshape", {"t", "flat"}, {"y"});
                 }});
  for (const int64_t groups : {1, 2}) {
    all.push_back(
        {"groups of channels, " + std::to_string(groups), {{"x", {1, 4, -1, -1}}}, {"y"}, [=](ModelBuilder& b) {
           b.initializer("grouped", {0, groups, -1});
           b.initializer("one", {groups}, std::vector<float>(static_cast<size_t>(groups), 1));
           b.initializer("none", {groups}, std::vector<float>(static_cast<size_t>(groups), 0.5F));
           b.node("Reshape", {"x", "grouped"}, {"g"});
           b.node("InstanceNormalization", {"g", "one", "none"}, {"n"});
           b.node("Shape", {"x"}, {"shape"});
           b.node("Reshape", {"n", "shape"}, {"y"});
         }});
  }
  all.push_back({"InstanceNormalization", {{"x", {-1, 2, -1, 3}}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("scale", {2}, weights(2));
                   b.initializer("shift", {2}, weights(2));
                   b.node("InstanceNormalization", {"x", "scale", "shift"}, {"y"});
                 }});
  all.push_back({"what halving lost", {{"x", {1, 2, -1, -1}}}, {"y"}, [=](ModelBuilder& b) {
                   // Cropped to an even size, halved and doubled, then padded to the original size.
                   b.initializer("none", {0, 0});
                   b.initializer("halves", {2, 2});
                   b.initializer("value", {}, {-3.0F});
                   sizesOf(b, "x", "size");
                   b.node("Div", {"size", "halves"}, {"half"});
                   b.node("Mul", {"half", "halves"}, {"even"});
                   b.initializer("axes", {2, 3});
                   b.node("Slice", {"x", "none", "even", "axes"}, {"cut"});
                   b.node("Sub", {"size", "even"}, {"lost"});
                   b.node("Div", {"lost", "halves"}, {"front"});
                   b.node("Sub", {"lost", "front"}, {"back"});
                   setAttribute(b.node("Concat", {"none", "front", "none", "back"}, {"pads"}), "axis", int64_t{0});
                   b.node("Pad", {"cut", "pads", "value"}, {"padded"});
                   setAttribute(b.node("Concat", {"padded", "x"}, {"y"}), "axis", int64_t{1});
                 }});
  all.push_back({"windows of pixels", {{"x", {1, -1, -1, 2}}}, {"y"}, [](ModelBuilder& b) {
                   // Padded to a multiple of 3, as windowed attention does.
                   b.initializer("none", {0, 0, 0, 0, 0});
                   b.initializer("last", {0});
                   b.initializer("sides", {3, 3});
                   b.initializer("one", {1});
                   b.initializer("two", {2});
                   b.initializer("three", {3});
                   b.node("Shape", {"x"}, {"shape"});
                   b.node("Slice", {"shape", "one", "three"}, {"size"});
                   b.node("Mod", {"size", "sides"}, {"over"});
                   b.node("Sub", {"sides", "over"}, {"missing"});
                   b.node("Mod", {"missing", "sides"}, {"more"});
                   setAttribute(b.node("Concat", {"none", "more", "last"}, {"pads"}), "axis", int64_t{0});
                   b.node("Pad", {"x", "pads"}, {"padded"});
                   b.node("Shape", {"padded"}, {"padded_shape"});
                   b.node("Slice", {"padded_shape", "one", "two"}, {"height"});
                   b.node("Slice", {"padded_shape", "two", "three"}, {"width"});
                   b.node("Div", {"height", "three"}, {"down"});
                   b.node("Div", {"width", "three"}, {"across"});
                   b.node("Slice", {"padded_shape", "last", "one"}, {"batch"});
                   auto& parts = b.node("Concat", {"batch", "down", "three", "across", "three", "two"}, {"parts"});
                   setAttribute(parts, "axis", int64_t{0});
                   b.node("Reshape", {"padded", "parts"}, {"cut"});
                   setAttribute(b.node("Transpose", {"cut"}, {"turned"}), "perm",
                                std::vector<int64_t>{0, 1, 3, 2, 4, 5});
                   b.initializer("windows", {-1, 9, 2});
                   b.node("Reshape", {"turned", "windows"}, {"y"});
                 }});
  for (const int64_t k : {1, 3}) {
    for (const int64_t largest : {0, 1}) {
      all.push_back({"TopK of " + std::to_string(k) + (largest ? " greatest" : " least"),
                     {{"x", {2, -1}}},
                     {"v", "places"},
                     [=](ModelBuilder& b) {
                       // At most as many as there are.
                       b.initializer("most", {k});
                       b.initializer("one", {1});
                       b.initializer("two", {2});
                       b.node("Shape", {"x"}, {"shape"});
                       b.node("Slice", {"shape", "one", "two"}, {"size"});
                       b.node("Min", {"size", "most"}, {"k"});
                       setAttribute(b.node("TopK", {"x", "k"}, {"v", "at"}), "largest", largest);
                       setAttribute(b.node("Cast", {"at"}, {"places"}), "to", int64_t{1});
                     }});
    }
  }
  for (const std::string op : {"ArgMax", "ArgMin"}) {
    for (const bool infinite : {false, true}) {
      all.push_back(
          {op + (infinite ? ", infinite" : ""), {{"x", {-1, 3}, false, infinite}}, {"y"}, [=](ModelBuilder& b) {
             b.node("Neg", {"x"}, {"negative"});
             b.node(op, {op == "ArgMax" ? "negative" : "x"}, {"at"});
             setAttribute(b.node("Cast", {"at"}, {"y"}), "to", int64_t{1});
           }});
    }
  }
}

/// softmax(Q K^T) V of `queries` with a range of keys, or of the range's own rows.
Case attention(int64_t queries) {
  return {"attention of " + std::to_string(queries), {{"q", {queries, 3}}, {"k", {-1, 3}}}, {"y"}, [](ModelBuilder& b) {
            b.node("Transpose", {"k"}, {"t"});
            b.node("MatMul", {"q", "t"}, {"s"});
            setAttribute(b.node("Softmax", {"s"}, {"p"}), "axis", int64_t{-1});
            b.node("MatMul", {"p", "k"}, {"y"});
          }};
}

int selectsIn(const Case& test) {
  mlir::MLIRContext context;
  ImportOptions options;
  options.dimensions = {{"N", -kMost}};
  ModelBuilder b(test.opset);
  for (const RangedInput& input : test.inputs) b.input(input.name, input.shape);
  for (const std::string& output : test.outputs) b.output(output);
  test.nodes(b);
  auto model = importBytes(context, b.model.SerializeAsString(), options);
  EXPECT_TRUE(model.ok()) << model.status();
  int selects = 0;
  if (model.ok()) model->module->walk([&](mlir::arith::SelectOp) { ++selects; });
  return selects;
}

// A softmax that left zeros needs no second mask; without keys it leaves none, which matters if there are queries.
TEST(RangedShapes, ASoftmaxIsMaskedOnce) {
  EXPECT_EQ(selectsIn(attention(-1)), 2);  // scores and values
  EXPECT_EQ(selectsIn(attention(2)), 3);
}

TEST(RangedShapes, GiveWhatTheyGiveAtTheVerySize) {
  std::vector<Case> all = {attention(-1), attention(2)};
  addWindows(all);
  addMeans(all);
  addShapes(all);
  for (const Case& test : all) expectEqualToExactSize(test);
}

TEST(RangedShapes, RefuseWhatWouldMix) {
  const std::vector<Case> mixing = {{"the last of equal ones", {{"x", {-1, 3}}}, {"y"}, [](ModelBuilder& b) {
                                       setAttribute(b.node("ArgMax", {"x"}, {"y"}), "select_last_index", int64_t{1});
                                     }}};
  for (const Case& test : mixing) expectRefused(test);
}

}  // namespace
}  // namespace tessera::compiler
