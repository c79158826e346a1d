#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/drawing/chart.h"
#include "clients/cli/drawing/layered_layout.h"
#include "clients/cli/drawing/picture.h"

namespace tessera::client {
namespace {

constexpr double kMargin = 24;
constexpr double kTitleHeight = 36;
constexpr double kLineHeight = 14;
constexpr double kLetterWidth = 6.4;  // upper estimate for an 11 pixel sans-serif font
constexpr double kBoxPadding = 8;

void drawArrow(std::string& svg, const std::vector<Point>& route, const std::string& label) {
  if (route.empty()) return;
  absl::StrAppendFormat(&svg, "<path class=\"a\" d=\"M%.1f %.1f", route.front().x, route.front().y);
  for (size_t i = 1; i < route.size(); ++i) {
    const double middle = (route[i - 1].y + route[i].y) / 2;
    absl::StrAppendFormat(&svg, "C%.1f %.1f %.1f %.1f %.1f %.1f", route[i - 1].x, middle, route[i].x, middle,
                          route[i].x, route[i].y);
  }
  absl::StrAppend(&svg, "\"><title>", xmlEscaped(label), "</title></path>\n");
}

void drawBox(std::string& svg, const Panel::Box& box, const BoxGraph::Box& size, Point center) {
  const double left = center.x - size.width / 2;
  const double top = center.y - size.height / 2;
  absl::StrAppendFormat(&svg,
                        "<g><title>%s</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\" "
                        "fill=\"%s\"/>",
                        xmlEscaped(box.tooltip), left, top, size.width, size.height, box.border ? 12 : 3, box.color);
  for (size_t i = 0; i < box.lines.size(); ++i) {
    absl::StrAppendFormat(&svg, "<text%s x=\"%.1f\" y=\"%.1f\">%s</text>", i == 0 ? " class=\"h\"" : "", center.x,
                          top + kBoxPadding + kLineHeight * (static_cast<double>(i) + 0.75), xmlEscaped(box.lines[i]));
  }
  svg += "</g>\n";
}

}  // namespace

std::string svgText(const v1::Explanation& explanation) {
  std::string body;
  double x = kMargin;
  double height = 0;
  for (const Panel& panel : panelsOf(explanation)) {
    BoxGraph graph;
    for (const Panel::Box& box : panel.boxes) {
      size_t letters = 0;
      for (const std::string& line : box.lines) letters = std::max(letters, line.size());
      graph.boxes.push_back({static_cast<double>(letters) * kLetterWidth + 2 * kBoxPadding,
                             static_cast<double>(box.lines.size()) * kLineHeight + 2 * kBoxPadding - 2});
    }
    for (const Panel::Arrow& arrow : panel.arrows) graph.arrows.emplace_back(arrow.from, arrow.to);
    const Placement placement = placeLayers(graph);
    absl::StrAppendFormat(&body,
                          "<g transform=\"translate(%.1f %.1f)\">\n<text class=\"t\" x=\"0\" y=\"-14\">%s</text>\n", x,
                          kMargin + kTitleHeight, xmlEscaped(panel.title));
    for (size_t i = 0; i < panel.arrows.size(); ++i) drawArrow(body, placement.routes[i], panel.arrows[i].label);
    for (size_t i = 0; i < panel.boxes.size(); ++i) drawBox(body, panel.boxes[i], graph.boxes[i], placement.centers[i]);
    body += "</g>\n";
    x += std::max(placement.width, static_cast<double>(panel.title.size()) * 9) + 2 * kMargin;
    height = std::max(height, placement.height);
  }
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n",
      x, height + 2 * kMargin + kTitleHeight, x, height + 2 * kMargin + kTitleHeight);
  svg +=
      "<style>rect{stroke:#667}.a{fill:none;stroke:#889;marker-end:url(#tip)}text{text-anchor:middle}"
      ".h{font-weight:bold}.t{text-anchor:start;font-size:16px;font-weight:bold}</style>\n"
      "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
      "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#889\"/></marker></defs>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\" style=\"stroke:none\"/>\n";
  return absl::StrCat(svg, body, "</svg>\n");
}

}  // namespace tessera::client
