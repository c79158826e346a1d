// Operators along ranges, compared with the same model at the exact size, for any contents of the padding.
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "compiler/import/testing/ranged_case.h"
#include "gmock/gmock.h"

namespace tessera::compiler {
namespace {

using Case = RangedCase;
using Input = RangedInput;

void recurrent(ModelBuilder& b, const std::string& op, int64_t gates, const std::string& direction, bool states) {
  const int64_t d = direction == "bidirectional" ? 2 : 1, h = 3;
  b.initializer("w", {d, gates * h, 2}, weights(d * gates * h * 2));
  b.initializer("r", {d, gates * h, h}, weights(d * gates * h * h));
  b.initializer("b", {d, 2 * gates * h}, weights(d * 2 * gates * h));
  std::vector<std::string> inputs = {"x", "w", "r", "b"}, outputs = {"y", "yh"};
  if (states) inputs.insert(inputs.end(), {"", "h0"});
  if (states && op == "LSTM") inputs.emplace_back("c0");
  if (op == "LSTM") outputs.emplace_back("yc");
  auto& node = b.node(op, inputs, outputs);
  setAttribute(node, "hidden_size", h);
  setAttribute(node, "direction", direction);
}

/// Running sums of x along an axis. The state is one sum, or a row of sums with `whole_rows`.
void scan(ModelBuilder& b, int64_t axis, int64_t backwards, bool whole_rows = false) {
  if (!whole_rows) setAttribute(b.node("ReduceSum", {"s"}, {"start"}), "keepdims", int64_t{0});
  auto& node = b.node("Scan", {whole_rows ? "s" : "start", "x"}, {"last", "sums", "twice"});
  setAttribute(node, "num_scan_inputs", int64_t{1});
  setAttribute(node, "scan_input_axes", std::vector<int64_t>{axis});
  setAttribute(node, "scan_output_axes", std::vector<int64_t>{0, axis});
  setAttribute(node, "scan_input_directions", std::vector<int64_t>{backwards});
  auto& attribute = *node.add_attribute();
  attribute.set_name("body");
  attribute.set_type(onnx::AttributeProto::GRAPH);
  auto& body = *attribute.mutable_g();
  const auto add = [&](const char* op, const std::vector<const char*>& inputs, const char* output) {
    auto& inner = *body.add_node();
    inner.set_op_type(op);
    for (const char* input : inputs) inner.add_input(input);
    inner.add_output(output);
  };
  for (const char* input : {"sum", "row"}) body.add_input()->set_name(input);
  if (!whole_rows) {
    add("ReduceSum", {"row"}, "kept");
    add("Squeeze", {"kept"}, "added");
  }
  add("Add", {"sum", whole_rows ? "row" : "added"}, "next");
  add("Identity", {"next"}, "each");
  add("Add", {"row", "row"}, "double");
  for (const char* output : {"next", "each", "double"}) body.add_output()->set_name(output);
}

std::vector<Case> cases() {
  const Input sequences{"x", {4, -1, 2}}, steps{"x", {-1, 2, 2}};
  std::vector<Case> all;
  for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
    const int64_t d = direction == "bidirectional" ? 2 : 1;
    all.push_back({"LSTM, batch, " + direction,
                   {sequences, {"h0", {d, -1, 3}}, {"c0", {d, -1, 3}}},
                   {"y", "yh", "yc"},
                   [=](ModelBuilder& b) { recurrent(b, "LSTM", 4, direction, true); }});
    all.push_back({"GRU, steps, lengths beyond them, " + direction, {steps}, {"y", "yh"}, [=](ModelBuilder& b) {
                     b.initializer("long", {4, 2});
                     setAttribute(b.node("Cast", {"long"}, {"lengths"}), "to", int64_t{onnx::TensorProto::INT32});
                     recurrent(b, "GRU", 3, direction, false);
                     b.graph().mutable_node(1)->add_input("lengths");
                   }});
    all.push_back({"GRU, steps, " + direction, {steps}, {"y", "yh"}, [=](ModelBuilder& b) {
                     recurrent(b, "GRU", 3, direction, false);
                   }});
  }
  for (const int64_t reverse : {0, 1}) {
    for (const int64_t exclusive : {0, 1}) {
      for (const int64_t axis : {0, 1}) {
        all.push_back({"CumSum " + std::to_string(4 * reverse + 2 * exclusive + axis),
                       {{"x", {-1, 3}}},
                       {"y"},
                       [=](ModelBuilder& b) {
                         b.initializer("axis", {axis}).clear_dims();
                         auto& node = b.node("CumSum", {"x", "axis"}, {"y"});
                         setAttribute(node, "reverse", reverse);
                         setAttribute(node, "exclusive", exclusive);
                       }});
      }
    }
  }
  all.push_back({"Trilu", {{"x", {-1, -1}}}, {"y", "z"}, [](ModelBuilder& b) {
                   b.initializer("k", {1}).clear_dims();
                   setAttribute(b.node("Trilu", {"x", "k"}, {"y"}), "upper", int64_t{0});
                   b.node("Trilu", {"x"}, {"z"});
                 }});
  all.push_back({"blocks", {{"x", {1, 8, -1, 3}}}, {"y", "z"}, [](ModelBuilder& b) {
                   auto& node = b.node("DepthToSpace", {"x"}, {"y"});
                   setAttribute(node, "blocksize", int64_t{2});
                   setAttribute(node, "mode", "CRD");
                   setAttribute(b.node("SpaceToDepth", {"y"}, {"z"}), "blocksize", int64_t{2});
                 }});
  for (const int64_t stride : {1, 2, 3}) {
    for (const std::vector<int64_t>& pads : {std::vector<int64_t>{0, 0}, {1, 0}, {0, 2}}) {
      all.push_back({"ConvTranspose " + std::to_string(stride) + ", pads " + std::to_string(pads[0] + pads[1]),
                     {{"x", {2, 2, -1}}},
                     {"y"},
                     [=](ModelBuilder& b) {
                       b.initializer("w", {2, 3, 4}, weights(24));
                       b.initializer("b", {3}, weights(3));
                       auto& node = b.node("ConvTranspose", {"x", "w", "b"}, {"y"});
                       setAttribute(node, "strides", std::vector<int64_t>{stride});
                       setAttribute(node, "pads", pads);
                       setAttribute(node, "output_padding", std::vector<int64_t>{stride - 1});
                     }});
    }
  }
  all.push_back({"ScatterElements", {{"x", {-1, 3}}, {"i", {-1, 2}, true}, {"u", {-1, 2}}}, {"y"}, [](ModelBuilder& b) {
                   setAttribute(b.node("ScatterElements", {"x", "i", "u"}, {"y"}), "axis", int64_t{1});
                 }});
  // Updates beyond the range are ignored, and indices count from the run-time end.
  all.push_back(
      {"ScatterElements along it", {{"x", {-1, 3}}, {"i", {-1, 3}, true}, {"u", {-1, 3}}}, {"y"}, [](ModelBuilder& b) {
         auto& last = b.initializer("last", {-1, -1, -1});
         last.clear_dims();
         last.add_dims(1);
         last.add_dims(3);
         b.initializer("none", {1, 3}, weights(3));
         b.node("ScatterElements", {"x", "last", "none"}, {"marked"});
         b.node("Clip", {"i", "", "ends"}, {"own"});
         b.initializer("last_place", {-1}).clear_dims();
         b.initializer("first", {0}).clear_dims();
         b.node("Shape", {"x"}, {"sizes"});
         setAttribute(b.node("Gather", {"sizes", "first"}, {"size"}), "axis", int64_t{0});
         b.node("Add", {"size", "last_place"}, {"ends"});
         b.node("ScatterElements", {"marked", "own", "u"}, {"y"});
       }});
  all.push_back({"all but the first are halved in place", {{"x", {2, -1, 3}}}, {"y"}, [](ModelBuilder& b) {
                   // x[:, 1:] *= 0.5, as exporters write assignments to slices: indices of every element.
                   b.initializer("half", {}, {0.5F});
                   b.node("Mul", {"x", "half"}, {"halves"});
                   b.initializer("one", {1});
                   b.initializer("two", {2});
                   b.initializer("open", {std::numeric_limits<int64_t>::max()});
                   b.node("Slice", {"halves", "one", "open", "one"}, {"update"});
                   b.node("Shape", {"update"}, {"update_shape"});
                   b.node("Shape", {"x"}, {"shape"});
                   b.node("Slice", {"shape", "one", "two"}, {"count"});
                   b.initializer("axis0", {0});
                   b.node("Squeeze", {"count", "axis0"}, {"n"});
                   b.initializer("start", {1}).clear_dims();
                   b.initializer("step", {1}).clear_dims();
                   b.node("Range", {"start", "n", "step"}, {"rows"});
                   std::vector<std::string> places;
                   for (const std::string dim : {"0", "1", "2"}) {
                     const std::vector<int64_t> sizes = dim == "0"   ? std::vector<int64_t>{2, 1, 1}
                                                        : dim == "1" ? std::vector<int64_t>{1, -1, 1}
                                                                     : std::vector<int64_t>{1, 1, 3};
                     if (dim == "0") b.initializer("at0", {0, 1});
                     if (dim == "2") b.initializer("at2", {0, 1, 2});
                     b.initializer("sizes" + dim, sizes);
                     b.node("Reshape", {dim == "1" ? "rows" : "at" + dim, "sizes" + dim}, {"apart" + dim});
                     b.node("Expand", {"apart" + dim, "update_shape"}, {"all" + dim});
                     b.node("Unsqueeze", {"all" + dim, "last"}, {"place" + dim});
                     places.push_back("place" + dim);
                   }
                   b.initializer("last", {3});
                   setAttribute(b.node("Concat", places, {"places"}), "axis", int64_t{-1});
                   b.node("ScatterND", {"x", "places", "update"}, {"y"});
                 }});
  all.push_back({"OneHot", {{"i", {-1, 2}, true}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("depth", {3}).clear_dims();
                   b.initializer("pair", {2}, {0, 1});
                   setAttribute(b.node("OneHot", {"i", "depth", "pair"}, {"y"}), "axis", int64_t{0});
                 }});
  all.push_back({"last part", {{"x", {2, -1, 3}}}, {"y", "s"}, [](ModelBuilder& b) {
                   b.initializer("c", {2, 2, 3}, weights(12));
                   setAttribute(b.node("Concat", {"c", "x"}, {"y"}), "axis", int64_t{1});
                   setAttribute(b.node("ReduceSum", {"y"}, {"s"}), "keepdims", int64_t{0});
                 }});
  all.push_back({"what follows", {{"x", {2, -1, 3}}, {"z", {2, -1, 3}}}, {"y", "s"}, [](ModelBuilder& b) {
                   b.initializer("c", {2, 2, 3}, weights(12));
                   setAttribute(b.node("Concat", {"x", "c", "z", "c"}, {"y"}), "axis", int64_t{1});
                   setAttribute(b.node("ReduceSum", {"y"}, {"s"}), "keepdims", int64_t{0});
                 }});
  all.push_back({"what is at the end again", {{"x", {-1, 3}}}, {"y", "s"}, [](ModelBuilder& b) {
                   b.initializer("pads", {2, 0, 1, 0});
                   setAttribute(b.node("Pad", {"x", "pads"}, {"y"}), "mode", "edge");
                   setAttribute(b.node("ReduceSum", {"y"}, {"s"}), "keepdims", int64_t{0});
                 }});
  // A constant size among varying ones: exporters compare it with 1 before they drop the dimension.
  all.push_back({"squeeze if it is one", {{"x", {-1, 1, 3}}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("second", {1});
                   b.initializer("one", {1});
                   b.node("Shape", {"x"}, {"sizes"});
                   b.node("Gather", {"sizes", "second"}, {"size"});
                   b.node("Equal", {"size", "one"}, {"drops"});
                   auto& choice = b.node("If", {"drops"}, {"y"});
                   for (const std::string branch : {"then_branch", "else_branch"}) {
                     auto& attribute = *choice.add_attribute();
                     attribute.set_name(branch);
                     attribute.set_type(onnx::AttributeProto::GRAPH);
                     auto& node = *attribute.mutable_g()->add_node();
                     node.set_op_type(branch == "then_branch" ? "Squeeze" : "Identity");
                     node.add_input("x");
                     if (branch == "then_branch") node.add_input("second");
                     node.add_output(branch);
                     attribute.mutable_g()->add_output()->set_name(branch);
                   }
                 }});
  const auto bytes = [](ModelBuilder& b, const std::string& name, const std::vector<int64_t>& shape,
                        const std::vector<int64_t>& values) {
    b.initializer(name + "64", values).mutable_dims()->Assign(shape.begin(), shape.end());
    setAttribute(b.node("Cast", {name + "64"}, {name}), "to", int64_t{onnx::TensorProto::UINT8});
  };
  const auto asFloat = [](ModelBuilder& b, const std::string& from, const std::string& to) {
    setAttribute(b.node("Cast", {from}, {to}), "to", int64_t{onnx::TensorProto::FLOAT});
  };
  all.push_back({"dynamic quantization", {{"x", {-1, 3}}}, {"p", "d", "s"}, [=](ModelBuilder& b) {
                   bytes(b, "w", {3, 2}, {1, 200, 7, 90, 30, 4});
                   b.node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"});
                   b.node("MatMulInteger", {"q", "w", "z"}, {"sums"});
                   asFloat(b, "sums", "p");
                   b.node("DequantizeLinear", {"q", "s", "z"}, {"d"});
                 }});
  all.push_back({"quantized sum over a range", {{"x", {3, -1}}, {"y", {-1, 2}}}, {"p", "m"}, [=](ModelBuilder& b) {
                   b.initializer("s", {}, {0.05F});
                   bytes(b, "z", {}, {117});
                   b.node("QuantizeLinear", {"x", "s", "z"}, {"qx"});
                   b.node("QuantizeLinear", {"y", "s", "z"}, {"qy"});
                   b.node("MatMulInteger", {"qx", "qy", "z", "z"}, {"sums"});
                   asFloat(b, "sums", "p");
                   b.node("QLinearMatMul", {"qx", "s", "z", "qy", "s", "z", "s", "z"}, {"steps"});
                   asFloat(b, "steps", "m");
                 }});
  all.push_back({"quantized image", {{"x", {-1, 2, -1, 5}}}, {"i", "d"}, [=](ModelBuilder& b) {
                   b.initializer("s", {}, {0.03F});
                   b.initializer("each", {2}, {0.02F, 0.01F});
                   bytes(b, "z", {}, {3});
                   bytes(b, "zs", {2}, {5, 90});
                   bytes(b, "w", {2, 2, 3, 1}, {1, 200, 7, 90, 30, 4, 11, 80, 255, 0, 9, 60});
                   b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
                   setAttribute(b.node("ConvInteger", {"q", "w", "z", "z"}, {"sums"}), "pads",
                                std::vector<int64_t>{1, 0, 1, 0});
                   setAttribute(b.node("QLinearConv", {"q", "s", "z", "w", "s", "z", "s", "z"}, {"c"}), "pads",
                                std::vector<int64_t>{1, 0, 1, 0});
                   b.node("DequantizeLinear", {"c", "each", "zs"}, {"d"});
                   asFloat(b, "sums", "i");
                 }});
  all.push_back({"Tile", {{"x", {-1, 3}}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("repeats", {1, 2});
                   b.node("Tile", {"x", "repeats"}, {"y"});
                 }});
  for (const std::string equation : {"ti,tj->ij", "ti,tj->tij", "ti,sj->st", "ti,sj->", "ti,ti->t"}) {
    all.push_back({equation, {{"x", {-1, 3}}, {"z", {-1, 3}}}, {"y"}, [=](ModelBuilder& b) {
                     setAttribute(b.node("Einsum", {"x", "z"}, {"y"}), "equation", equation);
                   }});
  }
  const std::vector<Input> one_row = {{"x", {-1, 3}}, {"z", {1, 3}, false, true}};
  const std::vector<Input> one_open = {{"x", {-1, 3}}, {"z", {3, 3}, false, true}};
  for (const auto& [equation, inputs] : std::vector<std::pair<std::string, std::vector<Input>>>{
           {"ti,tj->ij", one_row},
           {"ti,ij->j", one_open},
           {"ti,sj->", one_open},
           {"ti,ij->tj", one_open},
           {"ti,j,tj->i", {{"x", {-1, 3}}, {"z", {3}, false, true}, {"w", {-1, 3}}}},
           {"j,ti,tj->i", {{"z", {3}, false, true}, {"x", {-1, 3}}, {"w", {-1, 3}}}},
           {"ti,si->i", {{"x", {-1, 3}}, {"z", {-1, 3}, false, true}}}}) {
    all.push_back({equation + ", infinite", inputs, {"y"}, [=](ModelBuilder& b) {
                     std::vector<std::string> names;
                     for (const Input& input : inputs) {
                       names.push_back(input.name + "s");
                       b.node(input.infinite ? "Identity" : "Exp", {input.name}, {names.back()});
                     }
                     setAttribute(b.node("Einsum", names, {"y"}), "equation", equation);
                   }});
  }
  all.push_back({"places", {{"x", {2, 3, 4, 5}}, {"g", {2, -1, 3, 2}}}, {"y"}, [](ModelBuilder& b) {
                   b.node("GridSample", {"x", "g"}, {"y"});
                 }});
  all.push_back({"images", {{"x", {-1, 3, 4, 5}}, {"g", {-1, 2, 3, 2}}}, {"y"}, [](ModelBuilder& b) {
                   b.node("GridSample", {"x", "g"}, {"y"});
                 }});
  constexpr int64_t kOpen = std::numeric_limits<int64_t>::max();
  for (const auto& [start, end, step] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{{-1, kOpen, 1},
                                                                                           {-2, kOpen, 1},
                                                                                           {-9, kOpen, 1},
                                                                                           {-3, -1, 1},
                                                                                           {-2, 2, 1},
                                                                                           {-4, 3, 2},
                                                                                           {0, -1, 1},
                                                                                           {1, -1, 1},
                                                                                           {2, -9, 1},
                                                                                           {0, kOpen, 2},
                                                                                           {1, kOpen, 3},
                                                                                           {-kOpen, kOpen, 2},
                                                                                           {kOpen, -kOpen, 1}}) {
    all.push_back({"Slice " + std::to_string(start) + ":" + std::to_string(end) + ":" + std::to_string(step),
                   {{"x", {2, -1, 3}}},
                   {"y", "s"},
                   [=](ModelBuilder& b) {
                     b.initializer("start", {start});
                     b.initializer("end", {end});
                     b.initializer("axis", {1});
                     b.initializer("step", {step});
                     b.node("Slice", {"x", "start", "end", "axis", "step"}, {"y"});
                     setAttribute(b.node("ReduceSum", {"y"}, {"s"}), "keepdims", int64_t{0});
                   }});
  }
  // The extent is the same in every run, so a Reshape may use it.
  all.push_back({"the last of more", {{"x", {2, -1, 3}}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("c", {2, 2, 3}, weights(12));
                   setAttribute(b.node("Concat", {"c", "x"}, {"more"}), "axis", int64_t{1});
                   b.initializer("start", {-2});
                   b.initializer("end", {std::numeric_limits<int64_t>::max()});
                   b.initializer("axis", {1});
                   b.node("Slice", {"more", "start", "end", "axis"}, {"last"});
                   b.initializer("rows", {4, 3});
                   b.node("Reshape", {"last", "rows"}, {"y"});
                 }});
  for (const std::vector<int64_t>& pads :
       {std::vector<int64_t>{0, 0, 0, 0}, {1, 0, 0, 2}, {2, 1, 3, 0}, {-1, 0, 2, 0}, {2, 0, -1, 1}}) {
    all.push_back({"Pad " + std::to_string(pads[0]) + ", " + std::to_string(pads[2]),
                   {{"x", {-1, 3}}},
                   {"y", "s"},
                   [=](ModelBuilder& b) {
                     b.initializer("pads", pads);
                     b.initializer("value", {}, {2.5F});
                     b.node("Pad", {"x", "pads", "value"}, {"y"});
                     setAttribute(b.node("ReduceSum", {"y"}, {"s"}), "keepdims", int64_t{0});
                   }});
  }
  all.push_back({"Pad of both", {{"x", {-1, -1}}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("pads", {0, 1, 2, 1});
                   b.node("Pad", {"x", "pads"}, {"y"});
                 }});
  all.push_back({"reflected beside it", {{"x", {-1, 3}}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("pads", {0, 2, 0, 1});
                   setAttribute(b.node("Pad", {"x", "pads"}, {"y"}), "mode", "reflect");
                 }});
  all.push_back({"Gather of the last", {{"x", {2, -1, 3}}}, {"y", "z", "v"}, [](ModelBuilder& b) {
                   b.initializer("last", {-1}).clear_dims();
                   b.initializer("some", {-1, 0, -1});
                   setAttribute(b.node("Gather", {"x", "last"}, {"y"}), "axis", int64_t{1});
                   setAttribute(b.node("Gather", {"x", "some"}, {"z"}), "axis", int64_t{1});
                   auto& at = b.initializer("at", {0, -1, 1, 0, -1, -1});
                   at.clear_dims();
                   at.add_dims(3);
                   at.add_dims(2);
                   b.node("GatherND", {"x", "at"}, {"v"});
                 }});
  all.push_back({"GatherElements from its end", {{"x", {-1, 3}}}, {"y"}, [](ModelBuilder& b) {
                   auto& i = b.initializer("i", {-1, 0, -1});
                   i.clear_dims();
                   i.add_dims(1);
                   i.add_dims(3);
                   b.node("GatherElements", {"x", "i"}, {"y"});
                 }});
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{-1, 4, 2, 3}, {2, 4, -1, 3}, {-1, 4, 3, -1}})
    all.push_back({"LRN", {{"x", shape}}, {"y"}, [](ModelBuilder& b) {
                     setAttribute(b.node("LRN", {"x"}, {"y"}), "size", int64_t{3});
                   }});
  all.push_back({"LpNormalization", {{"x", {-1, 3}}}, {"y"}, [](ModelBuilder& b) {
                   setAttribute(b.node("LpNormalization", {"x"}, {"y"}), "axis", int64_t{1});
                 }});
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{-1, 4, 3, 2}, {2, 4, -1, 3}, {2, 4, 3, -1}, {-1, 4, -1, -1}, {2, 4, -1}}) {
    for (const int64_t opset : {18, 21}) {
      all.push_back({"GroupNormalization " + std::to_string(opset) + ", rank " + std::to_string(shape.size()),
                     {{"x", shape}},
                     {"y"},
                     [=](ModelBuilder& b) {
                       const int64_t each = opset < 21 ? 2 : 4;  // for each group, for each channel
                       b.initializer("scale", {each}, weights(each));
                       b.initializer("bias", {each}, weights(each));
                       setAttribute(b.node("GroupNormalization", {"x", "scale", "bias"}, {"y"}), "num_groups",
                                    int64_t{2});
                     },
                     opset});
    }
  }
  all.push_back({"RMSNormalization",
                 {{"x", {2, -1, 3}}},
                 {"y"},
                 [](ModelBuilder& b) {
                   b.initializer("scale", {3}, weights(3));
                   b.node("RMSNormalization", {"x", "scale"}, {"y"});
                 },
                 23});
  for (const std::string op : {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}) {
    all.push_back({op, {{"x", {2, -1, 3}}, {"z", {-1, 3}}}, {"y", "sum"}, [=](ModelBuilder& b) {
                     b.initializer("scale", {3}, weights(3));
                     b.node(op, {"x", "z", "scale"}, {"y", "", "", "sum"}).set_domain("com.microsoft");
                     auto& opset = *b.model.add_opset_import();
                     opset.set_domain("com.microsoft");
                     opset.set_version(1);
                   }});
  }
  for (const int64_t axis : {0, 1}) {
    all.push_back({absl::StrCat("Scan along axis ", axis),
                   {{"s", {-1}}, {"x", axis == 0 ? std::vector<int64_t>{-1, 3} : std::vector<int64_t>{3, -1}}},
                   {"last", "sums", "twice"},
                   [=](ModelBuilder& b) { scan(b, axis, 0); }});
  }
  all.push_back({"Scan of a batch", {{"s", {-1}}, {"x", {4, -1}}}, {"last", "sums", "twice"}, [](ModelBuilder& b) {
                   scan(b, 0, 0, /*whole_rows=*/true);
                 }});
  all.push_back({"ReverseSequence", {{"x", {-1, -1, 2}}, {"i", {-1}, true}}, {"y"}, [](ModelBuilder& b) {
                   b.node("ReverseSequence", {"x", "i"}, {"y"});
                 }});
  all.push_back({"ReverseSequence of whole rows", {{"x", {2, -1, 3}}}, {"y", "s"}, [](ModelBuilder& b) {
                   auto& node = b.node("ReverseSequence", {"x", "lengths"}, {"y"});
                   b.initializer("lengths", {100, 3});
                   setAttribute(node, "batch_axis", int64_t{0});
                   setAttribute(node, "time_axis", int64_t{1});
                   setAttribute(b.node("ReduceSum", {"y"}, {"s"}), "keepdims", int64_t{0});
                 }});
  // x[:, n - 1], as exporters write the last step of a sequence.
  all.push_back({"Squeeze of the last row", {{"x", {2, -1, 3}}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("one", {1});
                   b.initializer("two", {2});
                   b.node("Shape", {"x"}, {"sizes"});
                   b.node("Slice", {"sizes", "one", "two"}, {"end"});
                   b.node("Sub", {"end", "one"}, {"start"});
                   b.node("Slice", {"x", "start", "end", "one"}, {"row"});
                   b.node("Squeeze", {"row", "one"}, {"y"});
                 }});
  all.push_back({"STFT of a batch", {{"x", {-1, 12}}}, {"y"}, [](ModelBuilder& b) {
                   b.initializer("step", {4}).clear_dims();
                   b.initializer("length", {4}).clear_dims();
                   b.node("STFT", {"x", "step", "", "length"}, {"y"});
                 }});
  all.push_back({"DFT of others' axes", {{"x", {-1, 6, -1, 1}}}, {"y"}, [](ModelBuilder& b) {
                   setAttribute(b.node("DFT", {"x"}, {"y"}), "axis", int64_t{1});
                 }});
  for (const int64_t width : {int64_t{5}, int64_t{-1}})
    all.push_back({absl::StrCat("GridSample of an image of width ", width),
                   {{"x", {1, 3, -1, width}}, {"g", {1, 2, 3, 2}}},
                   {"y"},
                   [](ModelBuilder& b) { b.node("GridSample", {"x", "g"}, {"y"}); }});
  return all;
}

TEST(RangedOperators, GiveWhatTheyGiveAtTheVerySize) {
  for (const Case& test : cases()) expectEqualToExactSize(test);
}

TEST(RangedOperators, RefuseWhatWouldMix) {
  const std::vector<Case> mixing = {
      {"rows that a scan reads first",
       {{"s", {3}}, {"x", {-1, 3}}},
       {"last", "sums", "twice"},
       [](ModelBuilder& b) { scan(b, 0, 1, /*whole_rows=*/true); }},
      {"a transformed range",
       {{"x", {2, -1, 1}}},
       {"y"},
       [](ModelBuilder& b) { setAttribute(b.node("DFT", {"x"}, {"y"}), "axis", int64_t{1}); }},
      {"one of two sizes",
       {{"x", {4, kMost, 2}}, {"h0", {1, -1, 3}}},
       {"y"},
       [](ModelBuilder& b) { recurrent(b, "GRU", 3, "forward", true); }},
      {"channels that are counted",
       {{"x", {2, -1, 3}}},
       {"y"},
       [](ModelBuilder& b) {
         b.initializer("one", {kMost}, weights(kMost));
         setAttribute(b.node("GroupNormalization", {"x", "one", "one"}, {"y"}), "num_groups", kMost);
       },
       21},
      {"windows of channels",
       {{"x", {2, -1, 3}}},
       {"y"},
       [](ModelBuilder& b) { setAttribute(b.node("LRN", {"x"}, {"y"}), "size", int64_t{3}); }},
      {"rows that are normalized",
       {{"x", {2, 3, -1}}},
       {"y"},
       [](ModelBuilder& b) {
         b.initializer("one", {1}, weights(1));
         b.node("RMSNormalization", {"x", "one"}, {"y"});
       },
       23},
      {"the shape asked for",
       {{"x", {1, 2, -1}}},
       {"y"},
       [](ModelBuilder& b) {
         b.initializer("w", {2, 1, 4}, weights(8));
         setAttribute(b.node("ConvTranspose", {"x", "w"}, {"y"}), "output_shape", std::vector<int64_t>{7});
       }},
      {"backwards",
       {{"x", {-1, 3}}},
       {"y"},
       [](ModelBuilder& b) {
         b.initializer("start", {-1});
         b.initializer("end", {-9});
         b.initializer("axis", {0});
         b.node("Slice", {"x", "start", "end", "axis", "start"}, {"y"});
       }},
      {"another size of its name", {{"x", {-1, 3}}}, {"y"}, [](ModelBuilder& b) {
         b.initializer("z", {kMost, 3}, weights(kMost * 3));
         setAttribute(b.node("Einsum", {"x", "z"}, {"y"}), "equation", "ti,ti->t");
       }}};
  for (const Case& test : mixing) expectRefused(test);
}

}  // namespace
}  // namespace tessera::compiler
