// Convolutions of a network on an FPGA: a design for each layer, against one tiling for all layers with processing
// elements along the output and the input channels, the schedule of the thesis's baseline [186]. YOLO's 15 layers are
// those of the thesis's table 4.3; ResNet-18's are its convolutions and its last layer in the order of calls, for one
// image of 224x224, without the pooling and the additions between them.
//
//   fpga_layers [TARGET [yolo | resnet18]]
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/backends/hls/figures.h"
#include "compiler/backends/hls/stages.h"
#include "compiler/target/target.h"

namespace tessera::compiler::hls {
namespace {

struct Layer {
  int64_t c = 1, k = 1, size = 1, window = 1, stride = 1;
};
const std::vector<Layer> kYolo = {{3, 64, 448, 7, 2},     {64, 192, 112, 3, 1},   {192, 128, 56, 1, 1},
                                  {128, 256, 56, 3, 1},   {256, 256, 56, 1, 1},   {256, 512, 56, 3, 1},
                                  {512, 256, 28, 1, 1},   {256, 512, 28, 3, 1},   {512, 512, 28, 1, 1},
                                  {512, 1024, 28, 3, 1},  {1024, 512, 14, 1, 1},  {512, 1024, 14, 3, 1},
                                  {1024, 1024, 14, 3, 1}, {1024, 1024, 14, 3, 2}, {1024, 1024, 7, 3, 1}};

const std::vector<Layer> kResNet18 = {
    {3, 64, 224, 7, 2},   {64, 64, 56, 3, 1},   {64, 64, 56, 3, 1},   {64, 64, 56, 3, 1},   {64, 64, 56, 3, 1},
    {64, 128, 56, 3, 2},  {128, 128, 28, 3, 1}, {64, 128, 56, 1, 2},  {128, 128, 28, 3, 1}, {128, 128, 28, 3, 1},
    {128, 256, 28, 3, 2}, {256, 256, 14, 3, 1}, {128, 256, 28, 1, 2}, {256, 256, 14, 3, 1}, {256, 256, 14, 3, 1},
    {256, 512, 14, 3, 2}, {512, 512, 7, 3, 1},  {256, 512, 14, 1, 2}, {512, 512, 7, 3, 1},  {512, 512, 7, 3, 1},
    {512, 1000, 1, 1, 1}};

absl::StatusOr<v1::SpatialKernel> kernelOf(const Layer& layer) {
  const std::string step = layer.stride == 1 ? "" : absl::StrCat(layer.stride, " * ");
  const int64_t out = layer.size / layer.stride;
  const auto nest = loopnest::parse(
      "conv", absl::StrCat("O[n, k, p, q] += I[n, c, ", step, "p + r, ", step, "q + s] * W[k, c, r, s]"),
      {1, layer.k, out, out, layer.c, layer.window, layer.window});
  return nest.ok() ? hls::kernelOf(*nest) : nest.status();
}

/// The layer's tiling if all layers have these tiles and unroll factors of k, p, q and c.
Tiling clamped(const Form& form, const std::vector<int64_t>& tile, const std::vector<int64_t>& unroll) {
  Tiling tiling{.tile = form.nest->extents(), .unroll = std::vector<int64_t>(form.loops(), 1)};
  for (size_t each = 0; each < tile.size(); ++each) {
    const size_t loop = each + 1;
    tiling.tile[loop] = std::min(tile[each], form.extent(loop));
    tiling.unroll[loop] = std::min(unroll[each], tiling.tile[loop]);
  }
  return tiling;
}

/// The cycles of all layers with one tiling; nothing if a layer's design does not fit.
std::optional<std::vector<double>> cyclesOf(const std::vector<Program>& layers, const Device& device,
                                            const std::vector<int64_t>& tile, const std::vector<int64_t>& unroll) {
  std::vector<double> cycles;
  for (const Program& layer : layers) {
    const auto design = designOf(layer.forms[0], clamped(layer.forms[0], tile, unroll), device, device.limits());
    if (!design.ok()) return std::nullopt;
    cycles.push_back(design->cycles);
  }
  return cycles;
}

int run(const std::string& name, const std::vector<Layer>& network) {
  const v1::Target* target = findBuiltinTarget(name);
  const auto device = target ? Device::of(*target) : absl::NotFoundError("there is no target " + name);
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", device.status().ToString().c_str());
    return 1;
  }
  std::vector<Program> layers;
  for (const Layer& layer : network) {
    const auto kernel = kernelOf(layer);
    auto program = kernel.ok() ? designKernel(*kernel, "conv", *device) : kernel.status();
    if (!program.ok()) {
      std::fprintf(stderr, "%s\n", program.status().ToString().c_str());
      return 1;
    }
    layers.push_back(*std::move(program));
  }
  // The best tiling for the sum of all layers.
  std::vector<double> fixed;
  double least = 0;
  for (int64_t k : {16, 32, 64, 128, 256})
    for (int64_t c : {3, 4, 7, 8, 16, 32})
      for (int64_t p : {7, 14, 28, 56})
        for (int64_t q : {7, 14, 28, 56}) {
          const auto cycles = cyclesOf(layers, *device, {k, p, q, c}, {k, 1, 1, c});
          double sum = 0;
          for (double each : cycles.value_or(std::vector<double>())) sum += each;
          if (!cycles || (!fixed.empty() && sum >= least)) continue;
          fixed = *cycles;
          least = sum;
        }
  std::printf("layer,GFLOP/s,DSP share,bandwidth share,cycles,simulated,one tiling,faster,fitting,tried\n");
  double all = 0;
  size_t tried = 0, fitting = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    const auto figures = figuresOf(layers[l], *device);
    if (!figures.ok() || fixed.empty()) {
      std::fprintf(stderr, "C%zu: %s\n", l + 1, figures.status().ToString().c_str());
      return 1;
    }
    std::printf("C%zu,%.1f,%.3f,%.3f,%.0f,%.0f,%.0f,%.2f,%zu,%zu\n", l + 1, figures->gigaops, figures->dsp_share,
                figures->bandwidth_share, layers[l].cycles, figures->simulated_cycles, fixed[l],
                fixed[l] / layers[l].cycles, layers[l].count.fitting, layers[l].count.tried);
    all += layers[l].cycles;
    tried += layers[l].count.tried;
    fitting += layers[l].count.fitting;
  }
  std::printf("all,,,,%.0f,,%.0f,%.2f,%zu,%zu\n", all, least, least / all, fitting, tried);
  return 0;
}

}  // namespace
}  // namespace tessera::compiler::hls

int main(int argc, char** argv) {
  using namespace tessera::compiler::hls;  // NOLINT: one line
  const bool resnet = argc > 2 && std::string(argv[2]) == "resnet18";
  return run(argc > 1 ? argv[1] : "vu9p", resnet ? kResNet18 : kYolo);
}
