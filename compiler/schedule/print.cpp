#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/schedule/text.h"
#include "compiler/schedule/words.h"

namespace tessera::compiler {
namespace {

std::string loopText(const v1::Loop& loop) {
  const std::string binding = loop.unit().empty() ? "Tp" : absl::StrCat("Sp(", loop.unit(), ")");
  return absl::StrCat(loop.dimension(), ":", binding, "/", loop.step());
}

std::string referenceText(const v1::Reference& reference) {
  return absl::StrCat(reference.child(), ".", reference.statement(), reference.result() ? ".out" : ".in",
                      reference.index());
}

template <typename References>
std::string referencesText(const References& references) {
  return absl::StrJoin(references, ",", [](std::string* out, const v1::Reference& reference) {
    absl::StrAppend(out, referenceText(reference));
  });
}

std::string fetchText(const v1::Prefetch& fetch) {
  std::string text;
  if (fetch.ahead() != 0) absl::StrAppend(&text, " ahead ", fetch.ahead());
  if (fetch.rows()) absl::StrAppend(&text, " rows");
  if (fetch.panel()) absl::StrAppend(&text, " panel");
  if (fetch.results()) absl::StrAppend(&text, " results");
  if (!fetch.next_slice().empty()) absl::StrAppend(&text, " next ", referencesText(fetch.next_slice()));
  if (!fetch.next_blocks().empty()) absl::StrAppend(&text, " blocks ", referencesText(fetch.next_blocks()));
  return text;
}

std::string kernelText(const v1::Kernel& kernel) {
  std::string text = absl::StrCat(kernel.variant(), " nest ", kernel.nest());
  // Unset fields are not printed, so that a tree has one text.
  if (kernel.operand() != 0) absl::StrAppend(&text, " operand ", kernel.operand());
  if (!kernel.instruction().empty()) absl::StrAppend(&text, " with ", kernel.instruction());
  if (!kernel.vector_loop().empty()) absl::StrAppend(&text, " vectors ", kernel.vector_loop());
  if (kernel.lanes() != 0) absl::StrAppend(&text, " x", kernel.lanes());
  if (!kernel.tile().empty())
    absl::StrAppend(&text, " tile ", absl::StrJoin(kernel.tile(), ",", [](std::string* out, const v1::Extent& extent) {
      absl::StrAppend(out, extent.dimension(), ":", extent.size());
    }));
  if (!kernel.points().empty()) absl::StrAppend(&text, " points ", absl::StrJoin(kernel.points(), ","));
  if (!kernel.reductions().empty()) absl::StrAppend(&text, " sums ", absl::StrJoin(kernel.reductions(), ","));
  if (!kernel.transposed().empty()) absl::StrAppend(&text, " transposed ", kernel.transposed());
  if (!kernel.matching().empty())
    absl::StrAppend(&text, " match ",
                    absl::StrJoin(kernel.matching(), ",", [](std::string* out, const v1::Match& match) {
                      absl::StrAppend(out, match.loop(), ":", match.iteration());
                    }));
  if (!kernel.sources().empty()) absl::StrAppend(&text, " sources ", absl::StrJoin(kernel.sources(), ","));
  if (kernel.interleaved()) absl::StrAppend(&text, " interleaved");
  if (kernel.has_prefetch()) absl::StrAppend(&text, " fetch", fetchText(kernel.prefetch()));
  return text;
}

std::string stageText(const v1::Stage& stage) {
  if (stage.layout() == words::kBypass) return absl::StrCat("stage bypass ", absl::StrJoin(stage.order(), ","));
  std::string text = absl::StrCat("stage ", stage.layout());
  if (stage.nest() != 0 || stage.statement() != 0 || !stage.strides().empty())
    absl::StrAppend(&text, " nest ", stage.nest(), ".", stage.statement());
  absl::StrAppend(&text, " operand ", stage.operand());
  if (!stage.along().empty()) absl::StrAppend(&text, " along ", stage.along());
  if (!stage.order().empty()) absl::StrAppend(&text, " order ", absl::StrJoin(stage.order(), ","));
  if (!stage.strides().empty()) absl::StrAppend(&text, " strides ", absl::StrJoin(stage.strides(), ","));
  if (stage.distance() != 0) absl::StrAppend(&text, " distance ", stage.distance());
  if (stage.within()) absl::StrAppend(&text, " within");
  if (stage.outside() != 0) absl::StrAppend(&text, " outside ", stage.outside());
  if (stage.ahead() != 0) absl::StrAppend(&text, " ahead ", stage.ahead());
  return text;
}

void printTile(const v1::Tile& tile, int depth, std::string& text) {
  absl::StrAppend(&text, std::string(2 * depth, ' '), printTileLine(tile), "\n");
  for (const v1::Stage& stage : tile.stages()) {
    absl::StrAppend(&text, std::string(2 * depth + 2, ' '), stageText(stage), "\n");
    for (const v1::Tile& copy : stage.copies()) printTile(copy, depth + 2, text);
  }
  for (const v1::Tile& child : tile.children()) printTile(child, depth + 1, text);
}

}  // namespace

std::string printTileLine(const v1::Tile& tile) {
  std::vector<std::string> words;
  if (!tile.level().empty()) words.push_back(tile.level());
  std::string loops = absl::StrJoin(
      tile.loops(), " ", [](std::string* out, const v1::Loop& loop) { absl::StrAppend(out, loopText(loop)); });
  words.push_back(absl::StrCat("[", loops, "]"));
  if (tile.join() != v1::Tile::JOIN_UNSPECIFIED) words.push_back(words::joinName(tile.join()));
  if (tile.deferred_softmax()) words.emplace_back("softmax");
  if (tile.has_kernel()) words.push_back(kernelText(tile.kernel()));
  return absl::StrJoin(words, " ");
}

std::string printSchedule(const v1::Schedule& schedule) {
  std::string text = absl::StrCat("vectors ", schedule.vector_bits(), "\n");
  if (!schedule.fused().empty())
    absl::StrAppend(&text, "fused ",
                    absl::StrJoin(schedule.fused(), " ",
                                  [](std::string* out, const v1::Fusion& fusion) {
                                    absl::StrAppend(out, absl::StrJoin(fusion.operations(), "+"));
                                  }),
                    "\n");
  for (const v1::Tile& phase : schedule.phases()) printTile(phase, 0, text);
  return text;
}

}  // namespace tessera::compiler
