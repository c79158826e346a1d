#include "clients/cli/drawing/tree_picture.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/drawing/chart.h"
#include "compiler/schedule/text.h"

namespace tessera::client {
namespace {

class TreeDrawing {
 public:
  static constexpr double kMargin = 20;

  TreeDrawing(const TreePicture& picture, const std::vector<TreeBand>& bands) : picture_(picture), bands_(bands) {
    for (const TreeBand& band : bands) left_ = std::max(left_, widthOf(labelOf(band)));
  }

  std::string draw(double top) {
    top_ = top + kTitleHeight;
    double x = left_ + kMargin;
    for (const v1::Tile& phase : picture_.tree.phases()) {
      count(phase, 0);
      rows_ = std::max(rows_, depth_);
    }
    for (const v1::Tile& phase : picture_.tree.phases()) {
      place(phase, x);
      x += extentOf(phase) + 2 * kBoxGap;
    }
    width_ = std::max(x, widthOf(picture_.title) * 1.4);
    std::string svg = absl::StrFormat("<text class=\"t\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", kMargin, top + 16,
                                      xmlEscaped(picture_.title));
    for (size_t band = 0; band < bands_.size(); ++band) {
      const double height = bandHeight();
      absl::StrAppendFormat(&svg,
                            "<rect class=\"band\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>"
                            "<text class=\"l\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                            kMargin, topOf(band), width_, height, kMargin + 8, topOf(band) + height / 2 + 4,
                            xmlEscaped(labelOf(bands_[band])));
    }
    return absl::StrCat(svg, lines_, boxes_);
  }

  double width() const { return width_ + 2 * kMargin; }
  double height() const { return topOf(bands_.size()) - top_ + kTitleHeight + kBandGap; }

 private:
  static constexpr double kTitleHeight = 30, kBandGap = 26, kBoxHeight = 22, kBoxGap = 14;
  static constexpr double kLetterWidth = 6.4;  // upper estimate for an 11 pixel sans-serif font

  static double widthOf(const std::string& text) { return static_cast<double>(text.size()) * kLetterWidth + 16; }

  static std::string labelOf(const TreeBand& band) {
    return band.level.empty() ? band.figure : absl::StrCat(band.level, ": ", band.figure);
  }

  /// A tile may continue the loops of a tile at the same level: it is drawn below in the same band.
  size_t bandOf(const v1::Tile& tile) const {
    const auto found = std::ranges::find(bands_, tile.level(), &TreeBand::level);
    return static_cast<size_t>(std::min(found, bands_.end() - 1) - bands_.begin());
  }

  void count(const v1::Tile& tile, size_t same) {
    depth_ = std::max(depth_, same + 1);
    for (const v1::Tile& child : tile.children()) count(child, child.level() == tile.level() ? same + 1 : 0);
  }

  double bandHeight() const { return static_cast<double>(rows_) * (kBoxHeight + 8) + 8; }
  double topOf(size_t band) const { return top_ + static_cast<double>(band) * (bandHeight() + kBandGap / 2); }

  static std::string textOf(const v1::Tile& tile) {
    v1::Tile shown = tile;
    shown.clear_kernel();
    shown.clear_level();
    shown.clear_children();
    if (tile.children_size() < 2) shown.clear_join();
    std::string text = compiler::printTileLine(shown);
    if (text.starts_with("[] ")) text.erase(0, 3);
    return text == "[]" ? "all iterations" : text;
  }

  std::string unitText(const v1::Tile& leaf) const {
    const auto nest = static_cast<size_t>(std::max(0, leaf.kernel().nest()));
    return nest < picture_.operators.size() ? picture_.operators[nest] : absl::StrCat("nest ", nest);
  }

  double extentOf(const v1::Tile& tile) const {
    double below = tile.children_size() == 0 ? widthOf(unitText(tile)) : 0;
    for (int child = 0; child < tile.children_size(); ++child)
      below += extentOf(tile.children(child)) + (child > 0 ? kBoxGap : 0);
    return std::max(below, widthOf(textOf(tile)));
  }

  struct Place {
    double x = 0, top = 0;
  };

  Place box(const std::string& text, const std::string& tooltip, double center, double top, const char* kind) {
    const double width = widthOf(text);
    absl::StrAppendFormat(&boxes_,
                          "<g><title>%s</title><rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                          "rx=\"3\"/><text x=\"%.1f\" y=\"%.1f\">%s</text></g>\n",
                          xmlEscaped(tooltip), kind, center - width / 2, top, width, kBoxHeight, center, top + 15,
                          xmlEscaped(text));
    return {center, top};
  }

  void line(const Place& above, const Place& below) {
    absl::StrAppendFormat(&lines_, "<path class=\"a\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", above.x, above.top + kBoxHeight,
                          below.x, below.top);
  }

  /// Draws the tile and all below it between `x` and `x` + extentOf(tile).
  Place place(const v1::Tile& tile, double x, size_t same = 0) {
    const double extent = extentOf(tile);
    const Place here = box(textOf(tile), compiler::printTileLine(tile), x + extent / 2,
                           topOf(bandOf(tile)) + 8 + static_cast<double>(same) * (kBoxHeight + 8), "tile");
    double below = 0;
    for (const v1::Tile& child : tile.children()) below += extentOf(child) + kBoxGap;
    double at = x + (extent - std::max(0.0, below - kBoxGap)) / 2;
    for (const v1::Tile& child : tile.children()) {
      line(here, place(child, at, child.level() == tile.level() ? same + 1 : 0));
      at += extentOf(child) + kBoxGap;
    }
    if (tile.children_size() == 0)
      line(here, box(unitText(tile), compiler::printTileLine(tile), here.x, topOf(bands_.size() - 1) + 8, "unit"));
    return here;
  }

  const TreePicture& picture_;
  const std::vector<TreeBand>& bands_;
  double left_ = 0, top_ = 0, width_ = 0;
  size_t rows_ = 1, depth_ = 1;  // boxes of one band, one below the other
  std::string boxes_, lines_;
};

}  // namespace

std::string treeSvg(const std::vector<TreePicture>& trees, const std::vector<TreeBand>& bands) {
  std::string body;
  double width = 2 * TreeDrawing::kMargin, height = TreeDrawing::kMargin;
  for (const TreePicture& tree : trees) {
    TreeDrawing drawing(tree, bands);
    body += drawing.draw(height);
    width = std::max(width, drawing.width());
    height += drawing.height();
  }
  return absl::StrCat(
      absl::StrFormat(
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
          "font-family=\"sans-serif\" font-size=\"11\">\n",
          width, height, width, height),
      "<style>rect{stroke:#667}.band{fill:#f4f5f8;stroke:none}.tile{fill:#dce8f7}.unit{fill:#e6f2dc}"
      ".a{fill:none;stroke:#889}text{text-anchor:middle}.l{text-anchor:start;fill:#556}"
      ".t{text-anchor:start;font-size:14px;font-weight:bold}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\" style=\"stroke:none\"/>\n",
      body, "</svg>\n");
}

}  // namespace tessera::client
